//! Signatures of commits and annotated tags (gitformat-signature(5)): OpenPGP and SSH, verified and made.
//!
//! Every check is strict: a key is good now or it is not, whatever time a signature claims, because the
//! signer chooses that time. A key that is revoked for whatever reason counts for nothing.

mod history;
mod keyring;
mod object;
mod openpgp;
mod refusal;
mod signer;
mod ssh;

pub use history::{SignedPart, Verification};
pub(super) use history::{Subject, verify};
pub use keyring::Keyring;
pub use refusal::Refusal;
pub use signer::Signer;
