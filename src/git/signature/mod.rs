//! Signatures of commits and annotated tags (gitformat-signature(5)): verifies and creates OpenPGP and SSH
//! signatures. Also verifies cosign's signatures of artifacts.
//!
//! All checks are strict: a key must be valid now. The time in a signature is ignored, because the signer
//! chooses it. A revoked key is never accepted, for whatever reason it was revoked.

mod bundle;
mod cosign;
mod history;
mod keyless;
mod keyring;
mod object;
mod openpgp;
mod refusal;
mod signer;
mod ssh;

pub(super) use bundle::PREDICATE;
pub use cosign::ArtifactSigners;
pub(super) use cosign::{ArtifactSignature, Signed};
pub(super) use history::{RefTarget, verify};
pub use history::{SignedPart, Verification};
pub use keyless::Identity;
pub use keyring::Keyring;
pub use refusal::Refusal;
pub use signer::CommitSigner;

#[cfg(test)]
mod tests;
