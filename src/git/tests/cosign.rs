//! Signatures of artifacts. cosign 3.1.3 made those in `tests/cosign/`, and this module signs what cosign does not.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::ByteString;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};

use crate::git::{ArtifactSigners, Identity};

/// The artifact that cosign signed.
pub(crate) const MANIFEST: &[u8] = include_bytes!("../../../tests/cosign/manifest.json");
pub(crate) const ARCHIVE: &[u8] = include_bytes!("../../../tests/cosign/archive.tar.gz");
/// `cosign sign --key cosign.key`, and the manifest that it pushes.
pub(crate) const SIGNATURE: &str = include_str!("../../../tests/cosign/signature.json");
pub(crate) const REFERRER: &[u8] = include_bytes!("../../../tests/cosign/referrer.json");
/// `cosign sign-blob --key cosign.key manifest.json`.
pub(crate) const MESSAGE: &str = include_str!("../../../tests/cosign/message.json");
/// `cosign attest --key cosign.key --type custom`.
pub(crate) const ATTESTATION: &str = include_str!("../../../tests/cosign/attestation.json");
/// `cosign sign --key cosign.key --certificate`, with a certificate of no authority.
pub(crate) const CERTIFICATE: &str = include_str!("../../../tests/cosign/certificate.json");
/// `cosign sign` with a key of Ed25519.
pub(crate) const ED25519: &str = include_str!("../../../tests/cosign/ed25519.json");

/// A signature with a certificate for this signer, and the trust root that proves it (`tests/cosign/keyless/main.go`).
pub(crate) const KEYLESS: &str = include_str!("../../../tests/cosign/keyless/signature.json");
pub(crate) const TRUST_ROOT: &str = include_str!("../../../tests/cosign/keyless/trusted_root.json");
const SIGNER: [&str; 2] = ["https://issuer.example", "release@example.com"];

/// The public key of ECDSA P-256 in DER before its point.
const KEY_START: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

fn keys(pem: &str) -> ArtifactSigners {
    ArtifactSigners::from_secret(&[("cosign.pub".to_owned(), ByteString(pem.into()))].into(), &[]).unwrap()
}

/// Returns the key with which cosign signed.
pub(crate) fn recorded_keys() -> ArtifactSigners {
    keys(include_str!("../../../tests/cosign/cosign.pub"))
}

/// Returns the signer with a certificate.
pub(crate) fn keyless() -> ArtifactSigners {
    let [issuer, subject] = SIGNER.map(str::to_owned);
    let root = ("trusted_root.json".to_owned(), ByteString(TRUST_ROOT.into()));
    ArtifactSigners::from_secret(&[root].into(), &[Identity { issuer, subject }]).unwrap()
}

/// Returns what cosign 3 signs for an artifact.
pub(crate) fn statement(digest: &str) -> Value {
    let subject = json!({"digest": {"sha256": digest.strip_prefix("sha256:").unwrap()}});
    json!({"_type": "https://in-toto.io/Statement/v1", "subject": [subject], "predicateType": "https://sigstore.dev/cosign/sign/v1", "predicate": {}})
}

pub(crate) struct Signer(EcdsaKeyPair);

impl Signer {
    pub(crate) fn new() -> Self {
        let (algorithm, random) = (&ECDSA_P256_SHA256_ASN1_SIGNING, SystemRandom::new());
        let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        Self(EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random).unwrap())
    }

    pub(crate) fn keys(&self) -> ArtifactSigners {
        let der = STANDARD.encode([&KEY_START, self.0.public_key().as_ref()].concat());
        // A line has 64 characters.
        let (first, second) = der.split_at(64);
        keys(&format!("-----BEGIN PUBLIC KEY-----\n{first}\n{second}\n-----END PUBLIC KEY-----\n"))
    }

    pub(crate) fn sign(&self, message: &str) -> String {
        STANDARD.encode(self.0.sign(&SystemRandom::new(), message.as_bytes()).unwrap())
    }

    /// Returns a bundle with a statement.
    pub(crate) fn bundle(&self, statement: &Value) -> Value {
        let (kind, payload) = ("application/vnd.in-toto+json", statement.to_string());
        let signature = self.sign(&format!("DSSEv1 28 {kind} {} {payload}", payload.len()));
        let envelope = json!({"payload": STANDARD.encode(&payload), "payloadType": kind, "signatures": [{"sig": signature}]});
        json!({"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json", "verificationMaterial": {"publicKey": {"hint": ""}}, "dsseEnvelope": envelope})
    }
}
