//! Keys and certificates like Sprig's (`crypto.go`), with the encodings and choices of Go's `crypto/x509`.

mod certificate;
mod key;
mod pem;
mod prime;

pub(crate) use certificate::{Certificate, Issuer, Profile};
pub(crate) use key::PrivateKey;
