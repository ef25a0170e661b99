use super::*;
use crate::git::ArtifactSigners;
use crate::git::registry::digest_of;
use crate::git::tests::cosign::{
    ATTESTATION, CERTIFICATE, ED25519, KEYLESS, MANIFEST, MESSAGE, SIGNATURE, Signer, keyless, recorded_keys,
    statement,
};
use serde_json::{Value, json};

/// Verifies the bundle of an artifact.
fn verify(keys: &ArtifactSigners, bundle: &str, manifest: &[u8]) -> Result<(), Refusal> {
    let signed = ArtifactSignature::from_bundle(bundle.as_bytes(), manifest)?;
    keys.verify(&signed, &digest_of(manifest))
}

#[track_caller]
fn refused(result: Result<(), Refusal>, reason: &str, part: &str) {
    let refusal = result.unwrap_err();
    assert_eq!(refusal.reason(), reason, "{refusal}");
    assert!(refusal.to_string().contains(part), "{part:?} is not in: {refusal}");
}

#[test]
fn what_cosign_3_signs_with_a_key_is_verified() {
    let keys = recorded_keys();
    assert_eq!(verify(&keys, SIGNATURE, MANIFEST), Ok(()));
    assert_eq!(verify(&keys, MESSAGE, MANIFEST), Ok(()));
    let another = format!("it is for another artifact, {}", digest_of(MANIFEST));
    for (reason, part, bundle, manifest) in [
        ("SignatureInvalid", another.as_str(), SIGNATURE, b"another".as_slice()),
        ("SignatureUntrusted", "by another key", MESSAGE, b"another"),
        ("SignatureInvalid", "it was made for another purpose: ", ATTESTATION, MANIFEST),
        (
            "SignatureUntrusted",
            "keyless signing, and the Secret of spec.verify.secretRef has no trusted_root.json",
            CERTIFICATE,
            MANIFEST,
        ),
        ("SignatureInvalid", "ECDSA P-256, the only supported algorithm", ED25519, MANIFEST),
    ] {
        refused(verify(&keys, bundle, manifest), reason, part);
    }
    let signed = ArtifactSignature::from_bundle(MESSAGE.as_bytes(), MANIFEST).unwrap();
    let other = keys.verify(&signed, &digest_of(b"another"));
    refused(other, "SignatureInvalid", "it is for another artifact");
    for bundle in [SIGNATURE, MESSAGE] {
        refused(verify(&Signer::new().keys(), bundle, MANIFEST), "SignatureUntrusted", "by another key");
    }
}

#[test]
fn a_bundle_that_cannot_be_used_is_refused_with_the_reason() {
    let envelope: Value = serde_json::from_str(SIGNATURE).unwrap();
    let message: Value = serde_json::from_str(MESSAGE).unwrap();
    let with = |bundle: &Value, path: &str, value: Value| {
        let mut bundle = bundle.clone();
        *bundle.pointer_mut(path).unwrap() = value;
        bundle.to_string()
    };
    let signature = envelope["dsseEnvelope"]["signatures"][0].clone();
    let mut both = envelope.clone();
    both["messageSignature"] = message["messageSignature"].clone();
    let cases = [
        ("not a Sigstore bundle: EOF", SIGNATURE[..SIGNATURE.len() - 1].to_owned()),
        ("not a Sigstore bundle: missing field `mediaType`", "{}".into()),
        (
            "its bundle has the type application/vnd.dev.sigstore.bundle.v0.4+json",
            r#"{"mediaType": "application/vnd.dev.sigstore.bundle.v0.4+json", "dsseEnvelope": []}"#.into(),
        ),
        ("either a dsseEnvelope or a messageSignature", both.to_string()),
        ("either a dsseEnvelope or a messageSignature", with(&envelope, "/dsseEnvelope", Value::Null)),
        ("the type text/plain", with(&envelope, "/dsseEnvelope/payloadType", json!("text/plain"))),
        ("not base64", with(&envelope, "/dsseEnvelope/payload", json!("?"))),
        ("its envelope has no signature", with(&envelope, "/dsseEnvelope/signatures", json!([]))),
        ("more than one", with(&envelope, "/dsseEnvelope/signatures", json!([signature, signature]))),
        (
            "a digest of SHA2_512",
            with(&message, "/messageSignature/messageDigest/algorithm", json!("SHA2_512")),
        ),
    ];
    for (part, bundle) in cases {
        refused(verify(&recorded_keys(), &bundle, MANIFEST), "SignatureInvalid", part);
    }
    let chain = json!({"x509CertificateChain": {"certificates": []}});
    let keyless = with(&envelope, "/verificationMaterial", chain);
    refused(verify(&recorded_keys(), &keyless, MANIFEST), "SignatureUntrusted", "keyless");
    let old = SIGNATURE.replace(BUNDLES[1], BUNDLES[0]);
    assert_eq!(verify(&recorded_keys(), &old, MANIFEST), Ok(()));
}

#[test]
fn a_statement_counts_for_the_artifacts_and_the_purpose_that_it_names() {
    let (signer, digest) = (Signer::new(), digest_of(MANIFEST));
    let check = |change: &dyn Fn(&mut Value)| {
        let mut statement = statement(&digest);
        change(&mut statement);
        verify(&signer.keys(), &signer.bundle(&statement).to_string(), MANIFEST)
    };
    assert_eq!(check(&|_| ()), Ok(()));
    let another = json!({"digest": {"sha512": "a"}});
    assert_eq!(check(&|one| one["subject"].as_array_mut().unwrap().insert(0, another.clone())), Ok(()));
    let invalid = |part: &str, change: &dyn Fn(&mut Value)| refused(check(change), "SignatureInvalid", part);
    invalid("another artifact, without a digest", &|one| one["subject"] = json!([]));
    invalid("another artifact, without a digest", &|one| one["subject"] = json!([another, {"uri": "a"}]));
    invalid("another artifact, sha256:AB", &|one| one["subject"] = json!([{"digest": {"sha256": "AB"}}]));
    invalid("another purpose: https://slsa.dev", &|one| one["predicateType"] = json!("https://slsa.dev"));
    invalid("its statement has the type a, not", &|one| one["_type"] = json!("a"));
    invalid("not a statement of in-toto", &|one| *one = json!([]));
}

#[test]
fn any_bytes_are_a_bundle_or_refused() {
    let seeds = [SIGNATURE, MESSAGE, ATTESTATION, CERTIFICATE, KEYLESS].map(|text| text.as_bytes().to_vec());
    let signers = [recorded_keys(), keyless()];
    let run = |bytes: &[u8]| {
        if let Ok(signed) = ArtifactSignature::from_bundle(bytes, MANIFEST) {
            // A changed bundle may still be valid if the change is outside of the signed bytes.
            for one in &signers {
                let _ = one.verify(&signed, &digest_of(MANIFEST));
            }
        }
        let _ = check_statement(&String::from_utf8_lossy(bytes), &digest_of(MANIFEST));
    };
    let words = [
        BUNDLES[0],
        STATEMENT,
        "\"dsseEnvelope\":{",
        "\"messageSignature\":{",
        "\"signatures\":[",
        "\"_type\":\"",
        "\"subject\":[",
        "\"digest\":{\"sha256\":\"",
        PREDICATE,
    ];
    crate::fuzz::Target { name: "bundle", run: &run, seeds: &seeds, words: &words }.fuzz();
}
