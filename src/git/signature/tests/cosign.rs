use super::*;

const KEY: &str = "-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEUR9fANTzfESMArzz7JKRDKX8EmO0
g1gLjfxB3J9edQ7UxwbPFseq/zfg+W3sns766n31ZV0nroL0mKauqb9Iaw==
-----END PUBLIC KEY-----
";
/// Made by `openssl dgst -sha256 -sign` from payloads of these types.
const SIGNATURES: [(&str, &str); 2] = [
    (
        TYPE,
        "MEYCIQC/dWqrgTOkDojDpGzg9E5HSGRqn7/meCsUT61WTCy7DAIhAPkJIq6cn416WIXfSXm6pfiUnAFzhQS+AJGNChSu2WIu",
    ),
    (
        "cosign attestation",
        "MEQCIHpQjZ4axnKizzU0zEriKOy/ZnTvhEIjzbuCDBOHHeBZAiAboCX5XTUPryS078VSKVWNHXqQ2xnT8Z/p8v1fXD1wyg==",
    ),
];

fn keys(entries: &[(&str, &str)]) -> Result<ArtifactSigners, String> {
    let data = entries.iter().map(|(name, text)| ((*name).to_owned(), ByteString((*text).into()))).collect();
    ArtifactSigners::from_secret(&data, &[]).map_err(|error| error.to_string())
}

fn digest(digit: &str) -> String {
    format!("sha256:{}", digit.repeat(64))
}

#[test]
fn only_keys_of_ecdsa_p256_are_taken() {
    let ed25519 = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAF1TpFRJB5MA7ThdvZIqfnU9aKIyr0+bbLudQP+HNbQE=\n\
                   -----END PUBLIC KEY-----\n";
    let p384 = "-----BEGIN PUBLIC KEY-----\nMHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEDQSqxk7zcwxq32LVpTgbQQ5HQHoEwm+Y\n\
                Pdq1Q7AkXB3jSZfkFjUJoa8Onc7AFIzE2trHyAgqFxTek9lam+ppnlaq1xlM2ZE2\nznYJRyKWJQFLNQtFmVScIkpKKUhcrTPG\n\
                -----END PUBLIC KEY-----\n";
    assert!(keys(&[("cosign.pub", KEY)]).is_ok());
    for (entries, expected) in [
        (vec![], "holds no key"),
        (
            vec![("a.pub", ed25519)],
            "key a.pub of the Secret of spec.verify: it is not a PEM public key of ECDSA P-256",
        ),
        (vec![("a.pub", p384)], "not a PEM public key of ECDSA P-256"),
        (vec![("a.pub", "text")], "not a PEM public key of ECDSA P-256"),
        (vec![("a.pub", KEY), ("revoked", KEY)], "key revoked of the Secret of spec.verify: it is not *.pub"),
    ] {
        let refused = keys(&entries).unwrap_err();
        assert!(refused.contains(expected), "{refused}");
    }
}

#[test]
fn a_signature_counts_for_the_artifact_and_purpose_that_it_names() {
    let keys = keys(&[("cosign.pub", KEY)]).unwrap();
    let verify = |kind: &str, signature: &str, artifact: &str| {
        let digest_of_payload = digest("0");
        let payload = format!(
            r#"{{"critical":{{"identity":{{"docker-reference":"r"}},"image":{{"docker-manifest-digest":"{digest_of_payload}"}},"type":"{kind}"}},"optional":null}}"#
        );
        let signed = ArtifactSignature {
            signed: Signed::Payload,
            payload,
            signature: signature.to_owned(),
            bundle: None,
        };
        keys.verify(&signed, artifact).map_err(|refusal| refusal.to_string())
    };
    let [(kind, signature), (other, attestation)] = SIGNATURES;
    assert_eq!(verify(kind, signature, &digest("0")), Ok(()));
    for (refused, expected) in [
        (verify(kind, signature, &digest("1")), "it is for another artifact, sha256:000"),
        (verify(other, attestation, &digest("0")), "it was made for another purpose"),
        (verify(kind, attestation, &digest("0")), "by another key"),
        (verify(kind, "?", &digest("0")), "it is not base64"),
    ] {
        let refused = refused.unwrap_err();
        assert!(refused.contains(expected), "{refused}");
    }
}
