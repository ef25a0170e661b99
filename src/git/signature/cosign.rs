//! Signatures of artifacts that `cosign sign --key` makes (sigstore's `SIGNATURE_SPEC.md`, "simple signing").

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
use crate::git::Error;

/// The value of `critical.type` in a payload.
const TYPE: &str = "cosign container image signature";

/// The public keys that artifacts must be signed with, from the keys of a Secret that end with `.pub`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CosignKeys {
    /// Uncompressed points of the curve P-256.
    points: Vec<Vec<u8>>,
}

/// A signature, and the document that it signs.
#[derive(Deserialize, Serialize)]
pub(in crate::git) struct ArtifactSignature {
    pub(in crate::git) payload: String,
    /// In base64.
    pub(in crate::git) signature: String,
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

impl CosignKeys {
    /// Reads the data of a Secret.
    ///
    /// # Errors
    /// [`Error::Credentials`] names the invalid key of the Secret, or reports that there is none.
    pub fn from_secret(data: &BTreeMap<String, ByteString>) -> Result<Self, Error> {
        let mut points = Vec::new();
        for (name, value) in data {
            let refuse = |reason: &str| {
                Error::Credentials(format!("key {name} of the Secret of spec.verify: {reason}"))
            };
            if !name.ends_with(".pub") {
                return Err(refuse("it is not *.pub, and an artifact is verified with keys of cosign only"));
            }
            let point = point(&value.0).ok_or_else(|| refuse("it is not a PEM public key of ECDSA P-256"))?;
            points.push(point);
        }
        if points.is_empty() {
            let reason = "the Secret of spec.verify holds no key: add *.pub with public keys of cosign";
            return Err(Error::Credentials(reason.into()));
        }
        Ok(Self { points })
    }

    /// Verifies that a signature is by one of the keys and for the artifact with this digest.
    pub(in crate::git) fn verify(&self, signed: &ArtifactSignature, digest: &str) -> Result<(), Refusal> {
        let ArtifactSignature { payload, signature } = signed;
        let unusable = |reason: &str| Refusal::Unusable(reason.to_owned());
        let signature = STANDARD.decode(signature).map_err(|_| unusable("it is not base64"))?;
        let is_by = |point: &Vec<u8>| {
            let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point);
            key.verify(payload.as_bytes(), &signature).is_ok()
        };
        if !self.points.iter().any(is_by) {
            return Err(Refusal::UnknownKey("another key".into()));
        }
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
