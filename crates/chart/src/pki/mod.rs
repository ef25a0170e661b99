//! Keys and certificates as Sprig makes them (`crypto.go`), with Go's encodings and choices of `crypto/x509`.

mod certificate;
mod key;
mod pem;
mod prime;

pub(crate) use certificate::{Certificate, Issuer, Profile};
pub(crate) use key::PrivateKey;
