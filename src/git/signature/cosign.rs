//! Signatures of artifacts that `cosign sign` makes: with a payload (sigstore's `SIGNATURE_SPEC.md`, "simple signing"),
//! or in a bundle.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::ByteString;
use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use serde::{Deserialize, Serialize};
use x509_cert::der::DecodePem as _;
use x509_cert::der::oid::db::rfc5912::{ID_EC_PUBLIC_KEY, SECP_256_R_1};
use x509_cert::spki::SubjectPublicKeyInfoOwned;

use super::Refusal;
use super::bundle::{check_statement, pre_authentication_encoding};
use super::keyless::{Identity, Keyless};
use crate::git::Error;
use crate::git::registry::digest_of;

/// The value of `critical.type` in a payload.
const TYPE: &str = "cosign container image signature";
/// The maximum size of a signature of ECDSA P-256 in DER, and its first byte, which is the tag of a sequence.
const MAX_SIGNATURE: usize = 72;
const SEQUENCE: u8 = 0x30;

/// The key of a Secret with the trust root for certificates.
const TRUST_ROOT: &str = "trusted_root.json";

/// The keys and identities that may sign artifacts.
///
/// | key of the Secret | content |
/// |---|---|
/// | names that end with `.pub` | a public key of cosign |
/// | `trusted_root.json` | the trust root for signers without a key |
#[derive(Clone, Debug, Default)]
pub struct ArtifactSigners {
    /// Uncompressed points of the curve P-256.
    points: Vec<Vec<u8>>,
    keyless: Option<Keyless>,
}

/// A signature, and the document that it signs.
#[derive(Deserialize, Serialize)]
pub(in crate::git) struct ArtifactSignature {
    pub(in crate::git) signed: Signed,
    pub(in crate::git) payload: String,
    /// In base64.
    pub(in crate::git) signature: String,
    /// The bundle, if it has a certificate instead of a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::git) bundle: Option<String>,
}

/// The kind of a document that is signed for an artifact.
#[derive(Deserialize, Serialize)]
pub(in crate::git) enum Signed {
    /// A payload of cosign 2.
    Payload,
    /// A statement in an envelope.
    Statement,
    /// The artifact's manifest.
    Manifest,
}

#[derive(Deserialize)]
struct Payload {
    critical: Critical,
}

#[derive(Deserialize)]
struct Critical {
    image: Image,
    r#type: String,
}

#[derive(Deserialize)]
struct Image {
    #[serde(rename = "docker-manifest-digest")]
    digest: String,
}

impl ArtifactSigners {
    /// Reads the data of a Secret. The identities are the accepted signers without a key.
    ///
    /// # Errors
    /// [`Error::Credentials`] names the invalid key of the Secret, or reports that there is none.
    pub fn from_secret(data: &BTreeMap<String, ByteString>, identities: &[Identity]) -> Result<Self, Error> {
        let mut signers = Self::default();
        for (name, value) in data {
            let refuse = |reason: &str| {
                Error::Credentials(format!("key {name} of the Secret of spec.verify: {reason}"))
            };
            match name.as_str() {
                TRUST_ROOT => {
                    let keyless = Keyless::new(&value.0, identities).map_err(|reason| refuse(&reason))?;
                    signers.keyless = Some(keyless);
                }
                key if key.ends_with(".pub") => {
                    let not_a_key = || refuse("it is not a PEM public key of ECDSA P-256");
                    signers.points.push(point(&value.0).ok_or_else(not_a_key)?);
                }
                _ => {
                    return Err(refuse(
                        "it is not *.pub or trusted_root.json, and only these verify artifacts",
                    ));
                }
            }
        }
        if !identities.is_empty() && signers.keyless.is_none() {
            let reason =
                "spec.verify.identities requires the key trusted_root.json in the Secret of spec.verify";
            return Err(Error::Credentials(reason.into()));
        }
        if signers.points.is_empty() && signers.keyless.is_none() {
            let reason = "the Secret of spec.verify holds no key: add *.pub with public keys of cosign, or trusted_root.json";
            return Err(Error::Credentials(reason.into()));
        }
        Ok(signers)
    }

    /// Verifies that a signature is by one of the signers and for the artifact with this digest.
    pub(in crate::git) fn verify(&self, signed: &ArtifactSignature, digest: &str) -> Result<(), Refusal> {
        let ArtifactSignature { signed: kind, payload, signature: _, bundle } = signed;
        match bundle {
            None => self.verify_key(signed)?,
            Some(bundle) => {
                let keyless = self.keyless.as_ref().ok_or(Refusal::Keyless)?;
                keyless.verify(bundle, kind, payload, digest)?;
            }
        }
        match kind {
            Signed::Payload => check_payload(payload, digest),
            Signed::Statement => check_statement(payload, digest),
            Signed::Manifest if digest_of(payload.as_bytes()) == digest => Ok(()),
            Signed::Manifest => Err(Refusal::Unusable("it is for another artifact".into())),
        }
    }

    /// Verifies that a signature is by one of the keys.
    fn verify_key(&self, signed: &ArtifactSignature) -> Result<(), Refusal> {
        let ArtifactSignature { signed, payload, signature, bundle: _ } = signed;
        let unusable = |reason: &str| Refusal::Unusable(reason.to_owned());
        let signature = STANDARD.decode(signature).map_err(|_| unusable("it is not base64"))?;
        if signature.len() > MAX_SIGNATURE || signature.first() != Some(&SEQUENCE) {
            return Err(unusable("it is not one of ECDSA P-256, the only supported algorithm"));
        }
        let message = match signed {
            Signed::Payload | Signed::Manifest => Cow::Borrowed(payload.as_str()),
            Signed::Statement => Cow::Owned(pre_authentication_encoding(payload)),
        };
        let is_by = |point: &Vec<u8>| {
            let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point);
            key.verify(message.as_bytes(), &signature).is_ok()
        };
        if !self.points.iter().any(is_by) {
            return Err(Refusal::UnknownKey("another key".into()));
        }
        Ok(())
    }
}

/// Checks that a payload of cosign 2 is for the artifact with this digest.
fn check_payload(payload: &str, digest: &str) -> Result<(), Refusal> {
    let unusable = |reason: &str| Refusal::Unusable(reason.to_owned());
    let Payload { critical } =
        serde_json::from_str(payload).map_err(|_| unusable("what it signs is not a cosign payload"))?;
    if critical.r#type != TYPE {
        return Err(unusable("it was made for another purpose"));
    }
    if critical.image.digest != digest {
        let other = object::text::plain(&critical.image.digest, 80);
        return Err(Refusal::Unusable(format!("it is for another artifact, {other}")));
    }
    Ok(())
}

/// Returns the point of a public key in PEM; `None` unless it is one of ECDSA P-256.
fn point(pem: &[u8]) -> Option<Vec<u8>> {
    let key = SubjectPublicKeyInfoOwned::from_pem(pem).ok()?;
    let curve = key.algorithm.parameters?.decode_as().ok()?;
    let is_p256 = key.algorithm.oid == ID_EC_PUBLIC_KEY && SECP_256_R_1 == curve;
    Some(key.subject_public_key.as_bytes()?.to_vec()).filter(|_| is_p256)
}

#[cfg(test)]
#[path = "tests/cosign.rs"]
mod tests;
