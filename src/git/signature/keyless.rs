//! Signatures of artifacts by certificate instead of by key ("keyless"), as Sigstore's client specification verifies them.
//!
//! The certificate names the signer and is valid for minutes. A trust root proves its authority, and that the signature was
//! made while it was valid. The administrator supplies the trust root, so that verification needs no network. The clock is
//! read only to reject times in the future.

use std::sync::Once;

use p256::ecdsa::signature::hazmat::PrehashVerifier as _;
use p256::ecdsa::{Signature, VerifyingKey};
use ring::digest::{Context, SHA256, SHA384, SHA512};
use ring::signature::{self, UnparsedPublicKey, VerificationAlgorithm};
use sigstore_verify::crypto::{
    CryptoProvider, Error as CryptoError, HashContext, SigningScheme, install_default_provider,
};
use sigstore_verify::trust_root::TrustedRoot;
use sigstore_verify::types::{Artifact, Bundle, HashAlgorithm, Sha256Hash, SignatureContent};
use sigstore_verify::{Error, VerificationPolicy, Verifier, verify};

use super::Refusal;
use super::cosign::Signed;
use object::text::plain;

/// The maximum size of a trust root. The one of the public Sigstore has 7 KiB.
const MAX_TRUST_ROOT: usize = 64 << 10;

/// A signer, as the certificate names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The issuer of the token with which the signer got the certificate.
    pub issuer: String,
    /// The email address or URI in the certificate.
    pub subject: String,
}

/// The trust root for certificates, and the signers to accept.
#[derive(Clone, Debug)]
pub(super) struct Keyless {
    root: TrustedRoot,
    identities: Vec<Identity>,
}

impl Keyless {
    /// Reads a trust root, in the JSON format of Sigstore. An error is the reason for rejecting it.
    pub(super) fn new(root: &[u8], identities: &[Identity]) -> Result<Self, String> {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| {
            // Nothing else installs one.
            let _ = install_default_provider(&Ring);
        });
        if root.len() > MAX_TRUST_ROOT {
            return Err(format!("it has {} bytes, and at most {MAX_TRUST_ROOT} are allowed", root.len()));
        }
        let invalid = |error: &dyn std::fmt::Display| {
            format!("it is not a trust root of Sigstore: {}", plain(&error.to_string(), 120))
        };
        let text = std::str::from_utf8(root).map_err(|error| invalid(&error))?;
        let root = TrustedRoot::from_json(text).map_err(|error| invalid(&error))?;
        Verifier::new(&root).map_err(|error| invalid(&error))?;
        if root.certificate_authorities.is_empty() {
            return Err("it has no certificateAuthorities".into());
        }
        if identities.is_empty() {
            let reason = "it requires spec.verify.identities, because anyone can get a certificate";
            return Err(reason.into());
        }
        Ok(Self { root, identities: identities.to_vec() })
    }

    /// Verifies that one of the signers signed this document, with the bundle as proof. If the document is a statement, it
    /// must be about the artifact with this digest. Otherwise, it is the artifact's manifest.
    pub(super) fn verify(
        &self,
        bundle: &str,
        signed: &Signed,
        payload: &str,
        digest: &str,
    ) -> Result<(), Refusal> {
        let unusable = |reason: String| Refusal::Unusable(plain(&reason, 200));
        let bundle = Bundle::from_json(bundle).map_err(|error| unusable(error.to_string()))?;
        let artifact = match (signed, &bundle.content) {
            (Signed::Statement, SignatureContent::DsseEnvelope(envelope))
                if envelope.payload.as_bytes() == payload.as_bytes() =>
            {
                let hex = digest.strip_prefix("sha256:").unwrap_or_default();
                Artifact::from(Sha256Hash::from_hex(hex).map_err(|error| unusable(error.to_string()))?)
            }
            (Signed::Manifest, SignatureContent::MessageSignature(_)) => Artifact::from(payload.as_bytes()),
            _ => return Err(unusable("it is not for the document in its bundle".into())),
        };
        let verified =
            verify(artifact, &bundle, &self.policy(), &self.root).map_err(|error| match error {
                Error::Certificate(_) | Error::TransparencyLog(_) | Error::Timestamp(_) => {
                    Refusal::Unproven(plain(&error.to_string(), 200))
                }
                error => unusable(error.to_string()),
            })?;
        let (issuer, subject) = (verified.issuer(), verified.identity().map(|subject| subject.as_str()));
        let is_signer =
            |one: &Identity| issuer == Some(one.issuer.as_str()) && subject == Some(one.subject.as_str());
        if self.identities.iter().any(is_signer) {
            return Ok(());
        }
        let [issuer, subject] = [issuer, subject].map(|name| plain(name.unwrap_or_default(), 200));
        Err(Refusal::OtherIdentity { issuer, subject })
    }

    /// Requires an entry of a transparency log, and the signature of a certificate log, if the trust root has such logs. The
    /// identity is compared afterwards.
    fn policy(&self) -> VerificationPolicy {
        let mut policy = VerificationPolicy::any_identity();
        if self.root.tlogs.is_empty() {
            policy = policy.skip_tlog_unsafe();
        }
        if self.root.ctlogs.is_empty() {
            policy = policy.skip_sct();
        }
        policy
    }
}

/// The cryptography of ring.
#[derive(Debug)]
struct Ring;

struct Hash(Context);

impl HashContext for Hash {
    fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    fn finalize(self: Box<Self>) -> Vec<u8> {
        self.0.finish().as_ref().to_vec()
    }
}

impl CryptoProvider for Ring {
    fn hash(&self, algorithm: HashAlgorithm) -> Result<Box<dyn HashContext>, CryptoError> {
        let ours = match algorithm {
            HashAlgorithm::Sha2256 => &SHA256,
            HashAlgorithm::Sha2384 => &SHA384,
            HashAlgorithm::Sha2512 => &SHA512,
            _ => return Err(unsupported(&algorithm.to_string())),
        };
        Ok(Box::new(Hash(Context::new(ours))))
    }

    fn verify_raw(
        &self,
        scheme: SigningScheme,
        key: &[u8],
        data: &[u8],
        signature: &[u8],
    ) -> Result<(), CryptoError> {
        let algorithm: &dyn VerificationAlgorithm = match scheme {
            SigningScheme::EcdsaP256Sha256 => &signature::ECDSA_P256_SHA256_ASN1,
            SigningScheme::EcdsaP256Sha384 => &signature::ECDSA_P256_SHA384_ASN1,
            SigningScheme::EcdsaP384Sha256 => &signature::ECDSA_P384_SHA256_ASN1,
            SigningScheme::EcdsaP384Sha384 => &signature::ECDSA_P384_SHA384_ASN1,
            SigningScheme::Ed25519 => &signature::ED25519,
            SigningScheme::RsaPkcs1Sha256 => &signature::RSA_PKCS1_2048_8192_SHA256,
            SigningScheme::RsaPkcs1Sha384 => &signature::RSA_PKCS1_2048_8192_SHA384,
            SigningScheme::RsaPkcs1Sha512 => &signature::RSA_PKCS1_2048_8192_SHA512,
            SigningScheme::RsaPssSha256 => &signature::RSA_PSS_2048_8192_SHA256,
            SigningScheme::RsaPssSha384 => &signature::RSA_PSS_2048_8192_SHA384,
            SigningScheme::RsaPssSha512 => &signature::RSA_PSS_2048_8192_SHA512,
            _ => return Err(unsupported(scheme.name())),
        };
        let key = UnparsedPublicKey::new(algorithm, key);
        key.verify(data, signature).map_err(|_| invalid(scheme))
    }

    /// Verifies the signature of a manifest. ring has no such function, so this supports only what cosign signs with.
    fn verify_prehashed(
        &self,
        scheme: SigningScheme,
        key: &[u8],
        digest: &[u8],
        signature: &[u8],
    ) -> Result<(), CryptoError> {
        if scheme != SigningScheme::EcdsaP256Sha256 {
            return Err(unsupported(scheme.name()));
        }
        let verified = VerifyingKey::from_sec1_bytes(key)
            .and_then(|key| key.verify_prehash(digest, &Signature::from_der(signature)?));
        verified.map_err(|_| invalid(scheme))
    }
}

fn unsupported(algorithm: &str) -> CryptoError {
    CryptoError::UnsupportedAlgorithm(algorithm.to_owned())
}

fn invalid(scheme: SigningScheme) -> CryptoError {
    CryptoError::Verification(format!("{} signature invalid", scheme.name()))
}

#[cfg(test)]
#[path = "tests/keyless.rs"]
mod tests;
