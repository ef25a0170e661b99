//! Keys and X.509 certificates: an authority that issues them, requests for them, the identity they carry.
//!
//! The structures and their encoding are those of `x509-cert`, whose names keep several values of one type: a
//! Kubernetes identity has an organisation for each of its groups. Keys and signatures are those of `ring`,
//! which the TLS library uses too, so there is one implementation of each algorithm in the binary; signatures
//! of requests are verified by the algorithms of the TLS library. The builder of `x509-cert` is not used,
//! because it takes the signature traits of another family of crates. Chains are verified by the TLS library.

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

/// A certificate, key or request that cannot be read or made.
#[derive(Debug, thiserror::Error)]
#[error("cannot {attempt}: {why}")]
pub struct Error {
    attempt: &'static str,
    why: String,
}

impl Error {
    pub(crate) fn new(attempt: &'static str, why: impl std::fmt::Display) -> Self {
        Self { attempt, why: why.to_string() }
    }

    /// Makes an error from the attempt and the text of the cause, for [`Result::map_err`].
    fn of<E: std::fmt::Display>(attempt: &'static str) -> impl FnOnce(E) -> Self {
        move |why| Self::new(attempt, why)
    }
}

/// Fills bytes from the randomness of the system.
///
/// # Errors
/// Fails if the system has none.
pub(crate) fn fill_random(bytes: &mut [u8]) -> Result<(), Error> {
    use ring::rand::SecureRandom as _;
    let filled = ring::rand::SystemRandom::new().fill(bytes);
    filled.map_err(|_| Error::new("draw random bytes", "the system has no randomness"))
}
