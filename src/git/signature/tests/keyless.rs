use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use serde_json::{Value, json};
use sigstore_verify::trust_root::SIGSTORE_PRODUCTION_TRUSTED_ROOT;

use super::*;
use crate::git::ArtifactSigners;
use crate::git::registry::digest_of;
use crate::git::signature::ArtifactSignature;
use crate::git::tests::cosign::{KEYLESS, MANIFEST, SIGNATURE, TRUST_ROOT, keyless, recorded_keys};

/// Includes a bundle that `tests/cosign/keyless/main.go` recorded.
macro_rules! recorded {
    ($name:literal) => {
        include_str!(concat!("../../../../tests/cosign/keyless/", $name, ".json"))
    };
}

const MESSAGE: &str = recorded!("message");
const TIMESTAMP: &str = recorded!("timestamp");
const OTHER_ARTIFACT: &str = recorded!("other_artifact");
/// A signature of a workflow in GitHub, with a certificate of the public Sigstore, from the test data of sigstore-verify.
const PUBLIC: &str = recorded!("public");

fn identity(issuer: &str, subject: &str) -> Identity {
    Identity { issuer: issuer.to_owned(), subject: subject.to_owned() }
}

fn signers(entries: &[(&str, &str)], identities: &[Identity]) -> Result<ArtifactSigners, String> {
    let data: BTreeMap<_, _> =
        entries.iter().map(|(name, text)| ((*name).to_owned(), ByteString((*text).into()))).collect();
    ArtifactSigners::from_secret(&data, identities).map_err(|error| error.to_string())
}

/// Returns the recorded signer with another trust root.
fn with_root(root: &Value) -> ArtifactSigners {
    signers(
        &[("trusted_root.json", &root.to_string())],
        &[identity("https://issuer.example", "release@example.com")],
    )
    .unwrap()
}

/// Returns the recorded signer with a trust root that has no log, so that only timestamps prove the time.
fn without_log() -> ArtifactSigners {
    with_root(&changed(TRUST_ROOT, |root| root["tlogs"] = json!([])))
}

fn changed(document: &str, change: impl Fn(&mut Value)) -> Value {
    let mut document = serde_json::from_str(document).unwrap();
    change(&mut document);
    document
}

/// Returns the recorded signature with another part of its verification material.
fn with_material(name: &str, value: &Value) -> String {
    changed(KEYLESS, |bundle| bundle["verificationMaterial"][name] = value.clone()).to_string()
}

/// Returns the recorded signature with a change of its log entry.
fn with_entry(change: impl Fn(&mut Value)) -> String {
    changed(KEYLESS, |bundle| change(&mut bundle["verificationMaterial"]["tlogEntries"][0])).to_string()
}

fn check(signers: &ArtifactSigners, bundle: &str, manifest: &[u8]) -> Result<(), Refusal> {
    let signed = ArtifactSignature::from_bundle(bundle.as_bytes(), manifest)?;
    signers.verify(&signed, &digest_of(manifest))
}

#[track_caller]
fn refused(result: Result<(), Refusal>, reason: &str, part: &str) {
    let refusal = result.unwrap_err();
    assert_eq!(refusal.reason(), reason, "{refusal}");
    assert!(refusal.to_string().contains(part), "{part:?} is not in: {refusal}");
}

#[test]
fn a_keyless_signature_counts_for_the_signer_and_the_artifact_that_it_names() {
    let ours = keyless();
    assert_eq!(check(&ours, KEYLESS, MANIFEST), Ok(()));
    assert_eq!(check(&ours, MESSAGE, MANIFEST), Ok(()));
    let other = identity("https://issuer.example", "other@example.com");
    let elsewhere = identity("https://other.example", "release@example.com");
    let named = "by \"release@example.com\" with a certificate for \"https://issuer.example\", which is not in spec.verify.identities";
    for identities in [vec![other.clone()], vec![elsewhere.clone()], vec![other.clone(), elsewhere.clone()]] {
        let signers = signers(&[("trusted_root.json", TRUST_ROOT)], &identities).unwrap();
        refused(check(&signers, KEYLESS, MANIFEST), "SignatureUntrusted", named);
        refused(check(&signers, MESSAGE, MANIFEST), "SignatureUntrusted", named);
    }
    let several = [other, elsewhere, identity("https://issuer.example", "release@example.com")];
    let several = signers(&[("trusted_root.json", TRUST_ROOT)], &several).unwrap();
    assert_eq!(check(&several, KEYLESS, MANIFEST), Ok(()));

    refused(check(&ours, OTHER_ARTIFACT, MANIFEST), "SignatureInvalid", "does not match any subject");
    refused(check(&ours, MESSAGE, b"another"), "SignatureInvalid", "artifact mismatch");
    refused(
        check(&ours, recorded!("attestation"), MANIFEST),
        "SignatureInvalid",
        "it was made for another purpose: https://slsa.dev/provenance/v1",
    );
    let payload = changed(OTHER_ARTIFACT, |_| ())["dsseEnvelope"]["payload"].clone();
    let swapped = changed(KEYLESS, |bundle| bundle["dsseEnvelope"]["payload"] = payload.clone()).to_string();
    refused(check(&ours, &swapped, b"another"), "SignatureInvalid", "invalid signature");
    let signature = changed(KEYLESS, |_| ())["dsseEnvelope"]["signatures"][0]["sig"].clone();
    let swapped = changed(MESSAGE, |bundle| bundle["messageSignature"]["signature"] = signature.clone());
    refused(check(&ours, &swapped.to_string(), MANIFEST), "SignatureInvalid", "invalid signature");
    // What is stored on disk is verified again.
    let mut stored = ArtifactSignature::from_bundle(OTHER_ARTIFACT.as_bytes(), MANIFEST).unwrap();
    stored.payload = ArtifactSignature::from_bundle(KEYLESS.as_bytes(), MANIFEST).unwrap().payload;
    let other = ours.verify(&stored, &digest_of(b"another"));
    refused(other, "SignatureInvalid", "it is not for the document in its bundle");
    refused(check(&recorded_keys(), KEYLESS, MANIFEST), "SignatureUntrusted", "has no trusted_root.json");
    refused(check(&ours, SIGNATURE, MANIFEST), "SignatureUntrusted", "by another key");
}

#[test]
fn a_certificate_must_be_of_the_trust_root_and_valid_when_the_log_has_its_signature() {
    let ours = keyless();
    let entry = |bundle: &str| changed(bundle, |_| ())["verificationMaterial"]["tlogEntries"][0].clone();
    let other_entry = with_entry(|one| *one = entry(OTHER_ARTIFACT));
    let later = with_entry(|one| one["integratedTime"] = json!("1796107599"));
    let proof = with_entry(|one| one["inclusionProof"]["hashes"] = json!(["A".repeat(43) + "="]));
    let unpromised = with_entry(|one| one["inclusionPromise"] = Value::Null);
    for (part, bundle) in [
        ("certificate chain is invalid", recorded!("other_authority")),
        ("No log key valid at", recorded!("other_log")),
        ("CertExpired", recorded!("expired")),
        ("log entry does not match the bundle", &other_entry),
        ("SET verification failed", &later),
        ("invalid inclusion proof", &proof),
        ("no verified timestamp", &unpromised),
    ] {
        refused(check(&ours, bundle, MANIFEST), "SignatureUntrusted", part);
    }
    let unproven = with_entry(|one| one["inclusionProof"] = Value::Null);
    let unlogged = with_material("tlogEntries", &json!([]));
    for (part, bundle) in [
        ("inclusion proof", unproven.as_str()),
        ("inclusion proof", &unlogged),
        ("inclusion proof", TIMESTAMP),
    ] {
        refused(check(&ours, bundle, MANIFEST), "SignatureInvalid", part);
    }
}

#[test]
fn timestamps_prove_the_time_if_the_trust_root_has_no_log() {
    let ours = without_log();
    assert_eq!(check(&ours, TIMESTAMP, MANIFEST), Ok(()));
    refused(
        check(&ours, recorded!("other_timestamp"), MANIFEST),
        "SignatureUntrusted",
        "invalid RFC 3161 timestamp",
    );
    let untimed = with_material("tlogEntries", &json!([]));
    refused(check(&ours, &untimed, MANIFEST), "SignatureInvalid", "at least one tlog entry or timestamp");
    refused(check(&ours, KEYLESS, MANIFEST), "SignatureUntrusted", "No log key valid at");
}

#[test]
fn a_certificate_of_the_public_sigstore_must_be_in_its_certificate_log() {
    let workflow = identity(
        "https://token.actions.githubusercontent.com",
        "https://github.com/prefix-dev/sigstore-example/.github/workflows/action.yaml@refs/heads/main",
    );
    let signed = ArtifactSignature::from_bundle(PUBLIC.as_bytes(), MANIFEST).unwrap();
    let digest = "sha256:54303491a8418fbed24344b513546182c29b43bf282ceb433af65e2299f9271f";
    let verify = |root: &Value| {
        let keyless = Keyless::new(root.to_string().as_bytes(), std::slice::from_ref(&workflow)).unwrap();
        keyless.verify(PUBLIC, &signed.signed, &signed.payload, digest)
    };
    let public = changed(SIGSTORE_PRODUCTION_TRUSTED_ROOT, |_| ());
    assert_eq!(verify(&public), Ok(()));
    let unlisted = changed(SIGSTORE_PRODUCTION_TRUSTED_ROOT, |root| {
        let logs = root["ctlogs"].as_array_mut().unwrap();
        assert_eq!(logs.len(), 2);
        logs.pop();
    });
    refused(verify(&unlisted), "SignatureUntrusted", "invalid signed certificate timestamp");
    let logs = public["ctlogs"].clone();
    let ours = with_root(&changed(TRUST_ROOT, |root| root["ctlogs"] = logs.clone()));
    refused(check(&ours, KEYLESS, MANIFEST), "SignatureUntrusted", "missing SCT");
}

#[test]
fn a_trust_root_that_cannot_be_used_is_refused_by_name() {
    let one = [identity("i", "s")];
    let unnamed = changed(TRUST_ROOT, |root| root["certificateAuthorities"] = json!([])).to_string();
    let damaged =
        changed(TRUST_ROOT, |root| root["tlogs"][0]["publicKey"]["rawBytes"] = json!("AAAA")).to_string();
    let large = format!("{TRUST_ROOT}{}", " ".repeat(MAX_TRUST_ROOT));
    for (part, root, identities) in [
        ("it is not a trust root of Sigstore: ", "text", &one[..]),
        ("it is not a trust root of Sigstore: ", "{}", &one),
        ("it is not a trust root of Sigstore: ", &damaged, &one),
        ("it has no certificateAuthorities", &unnamed, &one),
        ("and at most 65536 are allowed", &large, &one),
        ("it requires spec.verify.identities, because anyone can get a certificate", TRUST_ROOT, &[]),
    ] {
        let refused = signers(&[("trusted_root.json", root)], identities).unwrap_err();
        assert!(refused.contains(part), "{part:?} is not in: {refused}");
        assert!(refused.contains("key trusted_root.json of the Secret of spec.verify: "), "{refused}");
    }
    let key = include_str!("../../../../tests/cosign/cosign.pub");
    let refused = signers(&[("cosign.pub", key)], &one).unwrap_err();
    assert!(refused.contains("spec.verify.identities requires the key trusted_root.json"), "{refused}");
    let both = [("cosign.pub", key), ("trusted_root.json", TRUST_ROOT)];
    let both = signers(&both, &[identity("https://issuer.example", "release@example.com")]).unwrap();
    assert_eq!(check(&both, SIGNATURE, MANIFEST), Ok(()));
    assert_eq!(check(&both, KEYLESS, MANIFEST), Ok(()));
}
