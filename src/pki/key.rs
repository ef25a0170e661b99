//! Private keys: ECDSA on the curve P-256.

use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject as _;
use x509_cert::der::asn1::BitString;
use x509_cert::der::oid::db::rfc5912::{ECDSA_WITH_SHA_256, ID_EC_PUBLIC_KEY, SECP_256_R_1};
use x509_cert::der::pem::{LineEnding, encode_string};
use x509_cert::spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned};

use super::Error;

/// A private key with its public key.
pub struct KeyPair {
    pkcs8: Vec<u8>,
    pair: EcdsaKeyPair,
}

impl std::fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyPair").field("public", &self.pair.public_key()).finish_non_exhaustive()
    }
}

impl KeyPair {
    /// Generates a key.
    ///
    /// # Errors
    /// Fails if the system has no randomness.
    pub fn generate() -> Result<Self, Error> {
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new());
        Self::read(pkcs8.map_err(Error::of("make a key"))?.as_ref().to_vec())
    }

    /// Parses a key in PEM (PKCS #8).
    ///
    /// # Errors
    /// Fails if the text is not such a key.
    pub fn from_pem(text: &str) -> Result<Self, Error> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(text.as_bytes()).map_err(Error::of("read a key"))?;
        Self::read(der.secret_pkcs8_der().to_vec())
    }

    fn read(pkcs8: Vec<u8>) -> Result<Self, Error> {
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &pkcs8, &SystemRandom::new());
        Ok(Self { pair: pair.map_err(Error::of("read a key"))?, pkcs8 })
    }

    /// Returns the key in PEM (PKCS #8).
    pub fn to_pem(&self) -> String {
        encode_string("PRIVATE KEY", LineEnding::LF, &self.pkcs8)
            .expect("a key is shorter than the address space")
    }

    /// Returns the key in DER (PKCS #8).
    pub(crate) fn pkcs8(&self) -> &[u8] {
        &self.pkcs8
    }

    pub(super) fn public_key(&self) -> SubjectPublicKeyInfoOwned {
        let subject_public_key = BitString::from_bytes(self.pair.public_key().as_ref());
        SubjectPublicKeyInfoOwned {
            algorithm: AlgorithmIdentifierOwned {
                oid: ID_EC_PUBLIC_KEY,
                parameters: Some(SECP_256_R_1.into()),
            },
            subject_public_key: subject_public_key.expect("a point has 65 bytes"),
        }
    }

    /// Returns the algorithm of [`KeyPair::sign`].
    pub(super) fn signature_algorithm() -> AlgorithmIdentifierOwned {
        AlgorithmIdentifierOwned { oid: ECDSA_WITH_SHA_256, parameters: None }
    }

    pub(super) fn sign(&self, message: &[u8]) -> Result<BitString, Error> {
        let attempt = "sign";
        let signature = self.pair.sign(&SystemRandom::new(), message).map_err(Error::of(attempt))?;
        BitString::from_bytes(signature.as_ref()).map_err(Error::of(attempt))
    }
}
