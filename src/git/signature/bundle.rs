//! Signatures of artifacts in bundles of Sigstore (protobuf-specs, `sigstore_bundle.proto`), as cosign 3 makes them.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::Refusal;
use super::cosign::{ArtifactSignature, Signed};
use object::text::plain;

/// The media types of a bundle. Only the second one is still written.
const BUNDLES: [&str; 2] =
    ["application/vnd.dev.sigstore.bundle+json;version=0.3", "application/vnd.dev.sigstore.bundle.v0.3+json"];
/// The media type of a statement, and its type.
const STATEMENT: &str = "application/vnd.in-toto+json";
const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";
/// The type of the predicate with which cosign signs an artifact, as opposed to an attestation about it.
pub(in crate::git) const PREDICATE: &str = "https://sigstore.dev/cosign/sign/v1";
/// The only hash of a signed message that the supported keys sign.
const HASH: &str = "SHA2_256";

/// The part of a bundle that all versions have.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnyBundle {
    media_type: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bundle {
    verification_material: Material,
    dsse_envelope: Option<Envelope>,
    message_signature: Option<MessageSignature>,
}

/// The key, which is only a hint, or a certificate. Entries of transparency logs are read only with a certificate.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Material {
    certificate: Option<IgnoredAny>,
    x509_certificate_chain: Option<IgnoredAny>,
}

/// A signed document with its type (DSSE).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    payload: String,
    payload_type: String,
    signatures: Vec<EnvelopeSignature>,
}

#[derive(Deserialize)]
struct EnvelopeSignature {
    sig: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MessageSignature {
    message_digest: MessageDigest,
    signature: String,
}

#[derive(Deserialize)]
struct MessageDigest {
    algorithm: String,
}

/// A claim about artifacts, in an attestation or a signature (in-toto).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Statement {
    #[serde(rename = "_type")]
    r#type: String,
    predicate_type: String,
    subject: Vec<Subject>,
}

#[derive(Deserialize)]
struct Subject {
    /// Hexadecimal digits by algorithm.
    #[serde(default)]
    digest: BTreeMap<String, String>,
}

impl ArtifactSignature {
    /// Reads the signature in a bundle. It signs a statement about the artifact, or the artifact's manifest.
    pub(in crate::git) fn from_bundle(bundle: &[u8], manifest: &[u8]) -> Result<Self, Refusal> {
        let unusable = |reason: String| Err(Refusal::Unusable(reason));
        let AnyBundle { media_type } = parse(bundle, "Sigstore bundle")?;
        if !BUNDLES.contains(&media_type.as_str()) {
            let found = plain(&media_type, 80);
            return unusable(format!(
                "its bundle has the type {found}, and the only supported one is {}",
                BUNDLES[1]
            ));
        }
        let Bundle { verification_material, dsse_envelope, message_signature } =
            parse(bundle, "Sigstore bundle")?;
        let Material { certificate, x509_certificate_chain } = verification_material;
        let has_certificate = certificate.or(x509_certificate_chain).is_some();
        let whole = has_certificate.then(|| String::from_utf8_lossy(bundle).into_owned());
        match (dsse_envelope, message_signature) {
            (Some(envelope), None) => Ok(Self { bundle: whole, ..envelope.signature()? }),
            (None, Some(MessageSignature { message_digest, signature })) => {
                if message_digest.algorithm != HASH {
                    let found = plain(&message_digest.algorithm, 40);
                    return unusable(format!(
                        "it signs a digest of {found}, and the only supported one is {HASH}"
                    ));
                }
                let payload = String::from_utf8_lossy(manifest).into_owned();
                Ok(Self { signed: Signed::Manifest, payload, signature, bundle: whole })
            }
            (None, None) | (Some(_), Some(_)) => {
                unusable("its bundle must have either a dsseEnvelope or a messageSignature".into())
            }
        }
    }
}

impl Envelope {
    fn signature(self) -> Result<ArtifactSignature, Refusal> {
        let unusable = |reason: String| Err(Refusal::Unusable(reason));
        if self.payload_type != STATEMENT {
            return unusable(format!(
                "its payload has the type {}, not {STATEMENT}",
                plain(&self.payload_type, 80)
            ));
        }
        let signature = match &self.signatures[..] {
            [only] => only.sig.clone(),
            [] => return unusable("its envelope has no signature".into()),
            _ => return Err(Refusal::Several),
        };
        let payload = STANDARD.decode(&self.payload).ok().and_then(|payload| String::from_utf8(payload).ok());
        let Some(payload) = payload else { return unusable("its payload is not base64 of a text".into()) };
        Ok(ArtifactSignature { signed: Signed::Statement, payload, signature, bundle: None })
    }
}

/// Returns what the signature of an envelope with a statement signs (DSSE's `protocol.md`, "Signature Definition").
pub(super) fn pre_authentication_encoding(statement: &str) -> String {
    format!("DSSEv1 {} {STATEMENT} {} {statement}", STATEMENT.len(), statement.len())
}

/// Checks that a statement signs the artifact with this digest.
pub(super) fn check_statement(statement: &str, digest: &str) -> Result<(), Refusal> {
    let Statement { r#type, predicate_type, subject } = parse(statement.as_bytes(), "statement of in-toto")?;
    if predicate_type != PREDICATE {
        let found = plain(&predicate_type, 80);
        return Err(Refusal::Unusable(format!("it was made for another purpose: {found}, not {PREDICATE}")));
    }
    if r#type != STATEMENT_TYPE {
        let found = plain(&r#type, 80);
        return Err(Refusal::Unusable(format!("its statement has the type {found}, not {STATEMENT_TYPE}")));
    }
    let digests: Vec<_> = subject.iter().filter_map(|subject| subject.digest.get("sha256")).collect();
    if digests.iter().any(|hex| digest.strip_prefix("sha256:") == Some(hex)) {
        return Ok(());
    }
    let other =
        digests.first().map_or_else(|| "without a digest".into(), |hex| format!("sha256:{}", plain(hex, 64)));
    Err(Refusal::Unusable(format!("it is for another artifact, {other}")))
}

/// Parses JSON. `kind` names it in the error.
fn parse<T: DeserializeOwned>(json: &[u8], kind: &str) -> Result<T, Refusal> {
    serde_json::from_slice(json)
        .map_err(|error| Refusal::Unusable(format!("it is not a {kind}: {}", plain(&error.to_string(), 100))))
}

#[cfg(test)]
#[path = "tests/bundle.rs"]
mod tests;
