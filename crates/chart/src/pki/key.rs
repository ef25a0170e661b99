//! Private keys: RSA, ECDSA on curve P-256, and Ed25519.

use ed25519_dalek::Signer as _;
use p256::elliptic_curve::sec1::ToEncodedPoint as _;
use rsa::pkcs1::{DecodeRsaPrivateKey as _, EncodeRsaPrivateKey as _};
use rsa::pkcs1v15::Pkcs1v15Sign;
use rsa::pkcs8::DecodePrivateKey as _;
use rsa::{RsaPrivateKey, RsaPublicKey};
use sha2::{Digest as _, Sha256};
use x509_cert::der::Decode as _;
use x509_cert::der::asn1::{Any, BitString, Null};
use x509_cert::der::oid::db::rfc5912::{
    ECDSA_WITH_SHA_256, ID_EC_PUBLIC_KEY, SECP_256_R_1, SHA_256_WITH_RSA_ENCRYPTION,
};
use x509_cert::der::oid::db::rfc8410::ID_ED_25519;
use x509_cert::spki::{AlgorithmIdentifierOwned, EncodePublicKey as _, SubjectPublicKeyInfoOwned};

use super::pem;
use super::prime::{EXPONENT, prime};
use crate::random::Random;

/// Maximum bytes of a key. An RSA key of 4,096 bits has 2,400.
const MAX_BYTES: usize = 4 << 10;
/// The DER of an ECPrivateKey (RFC 5915) on curve P-256: the part before its 32 bytes, and the part between them
/// and its public key.
const EC: (&[u8], &[u8]) = (
    b"\x30\x77\x02\x01\x01\x04\x20",
    b"\xa0\x0a\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\xa1\x44\x03\x42\x00",
);
/// The DER of an Ed25519 key (RFC 8410) in PKCS #8, before its 32 bytes.
const ED25519: &[u8] = b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20";

/// A private key.
pub(crate) enum PrivateKey {
    Rsa(Box<RsaPrivateKey>),
    Ecdsa(p256::SecretKey),
    Ed25519(Box<ed25519_dalek::SigningKey>),
}

impl PrivateKey {
    pub(crate) fn rsa(random: &mut Random, bits: usize) -> Result<Self, String> {
        let (p, q) = (prime(random, bits / 2), prime(random, bits / 2));
        let key = RsaPrivateKey::from_p_q(p, q, EXPONENT.into());
        key.map(Box::new).map(Self::Rsa).map_err(|error| error.to_string())
    }

    pub(crate) fn ecdsa(random: &mut Random) -> Self {
        loop {
            // All but one in 2^32 numbers are below the order of the curve.
            if let Ok(key) = p256::SecretKey::from_slice(&random.bytes(32)) {
                return Self::Ecdsa(key);
            }
        }
    }

    pub(crate) fn ed25519(random: &mut Random) -> Self {
        let mut seed = [0; 32];
        seed.fill_with(|| random.byte());
        Self::Ed25519(Box::new((&seed).into()))
    }

    /// Parses a PEM key in PKCS #1, SEC 1 or PKCS #8.
    pub(crate) fn from_pem(text: &str) -> Result<Self, String> {
        let (label, bytes) = pem::decode(text).ok_or("no PEM data in input")?;
        if bytes.len() > MAX_BYTES {
            return Err(format!("the key has more than {MAX_BYTES} bytes"));
        }
        let rsa = |key| Self::Rsa(Box::new(key));
        match label {
            "PRIVATE KEY" => {
                if let Some(seed) = ed25519_seed(&bytes) {
                    return Ok(Self::Ed25519(Box::new(seed.into())));
                }
                let ecdsa = p256::SecretKey::from_pkcs8_der(&bytes).map(Self::Ecdsa).ok();
                let key = ecdsa.or_else(|| RsaPrivateKey::from_pkcs8_der(&bytes).map(rsa).ok());
                key.ok_or("decoding PEM as PKCS#8: x509: unknown key".to_owned())
            }
            "RSA PRIVATE KEY" => RsaPrivateKey::from_pkcs1_der(&bytes)
                .map(rsa)
                .map_err(|error| format!("parsing RSA private key from PEM: {error}")),
            "EC PRIVATE KEY" => p256::SecretKey::from_sec1_der(&bytes)
                .map(Self::Ecdsa)
                .map_err(|_| "parsing EC private key from PEM: it is not on the curve P-256".to_owned()),
            _ => match label.strip_suffix(" PRIVATE KEY") {
                Some(typ) => Err(format!("invalid private key type {typ}")),
                None => Err(format!("no private key data in PEM block of type {label}")),
            },
        }
    }

    pub(crate) fn to_pem(&self) -> Result<String, String> {
        Ok(match self {
            Self::Rsa(key) => {
                let der = key.to_pkcs1_der().map_err(|error| error.to_string())?;
                pem::encode("RSA PRIVATE KEY", der.as_bytes())
            }
            Self::Ecdsa(key) => {
                let point = key.public_key().to_encoded_point(false);
                pem::encode("EC PRIVATE KEY", &[EC.0, &key.to_bytes(), EC.1, point.as_bytes()].concat())
            }
            Self::Ed25519(key) => pem::encode("PRIVATE KEY", &[ED25519, key.as_bytes()].concat()),
        })
    }

    pub(super) fn public_key(&self) -> Result<SubjectPublicKeyInfoOwned, String> {
        let info = |oid, parameters, key: &[u8]| {
            let subject_public_key = BitString::from_bytes(key).map_err(|error| error.to_string())?;
            let algorithm = AlgorithmIdentifierOwned { oid, parameters };
            Ok(SubjectPublicKeyInfoOwned { algorithm, subject_public_key })
        };
        match self {
            Self::Rsa(key) => {
                let der = RsaPublicKey::from(&**key).to_public_key_der();
                let der = der.map_err(|error| error.to_string())?;
                SubjectPublicKeyInfoOwned::from_der(der.as_bytes()).map_err(|error| error.to_string())
            }
            Self::Ecdsa(key) => {
                let point = key.public_key().to_encoded_point(false);
                info(ID_EC_PUBLIC_KEY, Some(SECP_256_R_1.into()), point.as_bytes())
            }
            Self::Ed25519(key) => info(ID_ED_25519, None, key.verifying_key().as_bytes()),
        }
    }

    /// Returns the algorithm of [`PrivateKey::sign`].
    pub(super) fn algorithm(&self) -> AlgorithmIdentifierOwned {
        let (oid, parameters) = match self {
            Self::Rsa(_) => (SHA_256_WITH_RSA_ENCRYPTION, Some(Any::from(Null))),
            Self::Ecdsa(_) => (ECDSA_WITH_SHA_256, None),
            Self::Ed25519(_) => (ID_ED_25519, None),
        };
        AlgorithmIdentifierOwned { oid, parameters }
    }

    /// Signs a message deterministically.
    pub(super) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, String> {
        match self {
            Self::Rsa(key) => {
                let digest = Sha256::digest(message);
                let signed = key.sign(Pkcs1v15Sign::new::<Sha256>(), &digest);
                signed.map_err(|error| error.to_string())
            }
            Self::Ecdsa(key) => {
                let signature: p256::ecdsa::Signature = p256::ecdsa::SigningKey::from(key).sign(message);
                Ok(signature.to_der().as_bytes().to_vec())
            }
            Self::Ed25519(key) => Ok(key.sign(message).to_bytes().to_vec()),
        }
    }
}

/// Returns the 32 bytes of an Ed25519 key in PKCS #8. Version 2 of the format appends the public key.
fn ed25519_seed(der: &[u8]) -> Option<&[u8; 32]> {
    let algorithm = ED25519.get(5..)?;
    let rest = der.get(5..)?.strip_prefix(algorithm)?;
    rest.first_chunk()
}
