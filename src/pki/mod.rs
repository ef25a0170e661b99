//! Keys and X.509 certificates: an authority that issues them, requests for them, and the identities in them.
//!
//! Structures and encoding come from `x509-cert`, whose names can have several values of one type: a Kubernetes
//! identity has an organization for each of its groups. Keys and signatures come from `ring`, like those of the
//! TLS library, so that the binary has only one implementation of each algorithm. The TLS library verifies
//! certificate chains and the signatures of requests. This module does not use the builder of `x509-cert`,
//! because that requires the signature traits of other crates.

mod authority;
mod certificate;
mod key;
mod request;
mod signing_key;
mod subject;

pub use authority::{Authority, Identity, Profile, Usage};
pub use certificate::Certificate;
pub use key::KeyPair;
pub use request::{CertificateRequest, request};
pub use subject::Subject;

/// A failure to parse or create a certificate, key or request.
#[derive(Debug, thiserror::Error)]
#[error("cannot {attempt}: {reason}")]
pub struct Error {
    attempt: &'static str,
    reason: String,
}

impl Error {
    pub(crate) fn new(attempt: &'static str, reason: impl std::fmt::Display) -> Self {
        Self { attempt, reason: reason.to_string() }
    }

    /// Creates an error from the attempt and the text of the cause, for [`Result::map_err`].
    fn of<E: std::fmt::Display>(attempt: &'static str) -> impl FnOnce(E) -> Self {
        move |reason| Self::new(attempt, reason)
    }
}

/// Fills a buffer with random bytes from the system.
///
/// # Errors
/// Fails if the system has no randomness.
pub(crate) fn fill_random(bytes: &mut [u8]) -> Result<(), Error> {
    use ring::rand::SecureRandom as _;
    let filled = ring::rand::SystemRandom::new().fill(bytes);
    filled.map_err(|_| Error::new("draw random bytes", "the system has no randomness"))
}
