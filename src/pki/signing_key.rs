//! The private key of a certificate authority. Our own keys are ECDSA; foreign keys are of any type that the
//! TLS library can sign with.

use std::sync::Arc;

use rustls::SignatureScheme;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use x509_cert::der::asn1::{Any, BitString};
use x509_cert::der::oid::ObjectIdentifier;
use x509_cert::der::oid::db::rfc5912::{ECDSA_WITH_SHA_256, ECDSA_WITH_SHA_384, SHA_256_WITH_RSA_ENCRYPTION};
use x509_cert::spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned};

use super::Error;

/// RFC 8410.
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");
const SCHEMES: [SignatureScheme; 4] = [
    SignatureScheme::ECDSA_NISTP256_SHA256,
    SignatureScheme::ECDSA_NISTP384_SHA384,
    SignatureScheme::ED25519,
    SignatureScheme::RSA_PKCS1_SHA256,
];

/// A key that signs certificates.
#[derive(Debug)]
pub(super) struct SigningKey {
    pem: String,
    key: Arc<dyn rustls::sign::SigningKey>,
}

impl SigningKey {
    /// Parses a key in PEM: PKCS #8, PKCS #1 or SEC1.
    pub(super) fn from_pem(pem: &str) -> Result<Self, Error> {
        let attempt = "read a key";
        let der = PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(Error::of(attempt))?;
        let key = any_supported_type(&der).map_err(Error::of(attempt))?;
        Ok(Self { pem: pem.to_owned(), key })
    }

    pub(super) fn pem(&self) -> &str {
        &self.pem
    }

    /// Returns true if it is the private key for this public key.
    pub(super) fn is_of(&self, public_key: &SubjectPublicKeyInfoOwned) -> bool {
        use x509_cert::der::Encode as _;
        let own = self.key.public_key();
        own.is_some_and(|own| public_key.to_der().is_ok_and(|der| der == own.as_ref()))
    }

    /// Returns the algorithm of [`SigningKey::sign`].
    pub(super) fn algorithm(&self) -> Result<AlgorithmIdentifierOwned, Error> {
        let (oid, parameters) = match self.signer()?.scheme() {
            SignatureScheme::ECDSA_NISTP256_SHA256 => (ECDSA_WITH_SHA_256, None),
            SignatureScheme::ECDSA_NISTP384_SHA384 => (ECDSA_WITH_SHA_384, None),
            SignatureScheme::ED25519 => (ED25519, None),
            SignatureScheme::RSA_PKCS1_SHA256 => (SHA_256_WITH_RSA_ENCRYPTION, Some(Any::null())),
            other => return Err(Error::new("sign", format!("certificates cannot be signed with {other:?}"))),
        };
        Ok(AlgorithmIdentifierOwned { oid, parameters })
    }

    pub(super) fn sign(&self, message: &[u8]) -> Result<BitString, Error> {
        let signature = self.signer()?.sign(message).map_err(Error::of("sign"))?;
        BitString::from_bytes(&signature).map_err(Error::of("sign"))
    }

    fn signer(&self) -> Result<Box<dyn rustls::sign::Signer>, Error> {
        let reason = || Error::new("sign", "keys of this type cannot sign certificates");
        self.key.choose_scheme(&SCHEMES).ok_or_else(reason)
    }
}
