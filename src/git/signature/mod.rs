//! Signatures of commits and annotated tags (gitformat-signature(5)): OpenPGP and SSH, verified and made.
//!
//! Every check is strict: a key must be good now. The time that a signature claims does not count, because
//! the signer chooses it. A revoked key never counts, for any reason of the revocation.

mod history;
mod keyring;
mod object;
mod openpgp;
mod refusal;
mod signer;
mod ssh;

pub(super) use history::{RefTarget, verify};
pub use history::{SignedPart, Verification};
pub use keyring::Keyring;
pub use refusal::Refusal;
pub use signer::CommitSigner;

#[cfg(test)]
mod tests;
