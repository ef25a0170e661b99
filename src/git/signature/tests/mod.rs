//! Fuzzes signed objects and keys.

use std::sync::LazyLock;

use jiff::Timestamp;
use k8s_openapi::ByteString;

use super::Keyring;
use super::object::{commit, tag};
use crate::fuzz::Target;

/// Made by `gpg --armor --export`.
const CERTIFICATE: &str = include_str!("alice.asc");
const ALLOWED: &str = include_str!("allowed_signers");
/// Made by `gpg --armor --detach-sign` and `ssh-keygen -Y sign -n git` from [`PAYLOAD`].
const SIGNATURES: [&str; 2] = [include_str!("payload.asc"), include_str!("payload.sshsig")];
const PAYLOAD: &str =
    "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor a <a@x> 0 +0000\ncommitter a <a@x> 0 +0000\n\nm\n";

static KEYS: LazyLock<Keyring> = LazyLock::new(|| keyring(CERTIFICATE, ALLOWED).unwrap());

fn keyring(certificate: &str, allowed: &str) -> Result<Keyring, crate::git::Error> {
    let entry = |name: &str, text: &str| (name.to_owned(), ByteString(text.into()));
    Keyring::from_secret(&[entry("alice.asc", certificate), entry("allowed_signers", allowed)].into())
}

/// Returns a commit as git stores it.
fn signed_commit(signature: &str) -> String {
    let (header, message) = PAYLOAD.split_once("\n\n").unwrap();
    let signature = signature.trim_end().replace('\n', "\n ");
    format!("{header}\ngpgsig {signature}\n\n{message}")
}

/// Returns a tag as git stores it, with a signature of other bytes.
fn signed_tag(signature: &str) -> String {
    format!("object 4b825dc642cb6eb9a060e54bf8d69288fbee4904\ntype commit\ntag v1\n\nm\n{signature}")
}

fn now() -> Timestamp {
    "2027-01-01T00:00:00Z".parse().unwrap()
}

#[test]
fn any_bytes_are_a_signed_object_or_refused() {
    let seeds: Vec<Vec<u8>> =
        SIGNATURES.iter().flat_map(|text| [signed_commit(text).into(), signed_tag(text).into()]).collect();
    for seed in seeds.iter().step_by(2) {
        let signer = KEYS.verify(&commit(seed).unwrap(), now()).unwrap();
        assert!(signer.contains("alice"), "{signer}");
    }
    let run = |bytes: &[u8]| {
        for signed in [commit(bytes), tag(bytes, "v1")].into_iter().flatten() {
            // A changed signature may still be valid if the change is outside of the signed bytes.
            let _ = KEYS.verify(&signed, now());
        }
    };
    let words =
        ["gpgsig ", "\n ", "\n\n", "-----BEGIN PGP SIGNATURE-----", "-----END SSH SIGNATURE-----", "="];
    Target { name: "signed_object", run: &run, seeds: &seeds, words: &words }.fuzz();
}

#[test]
fn any_bytes_are_keys_or_refused() {
    let seeds = [CERTIFICATE, ALLOWED].map(|text| text.as_bytes().to_vec());
    let run = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        for keys in [keyring(&text, ALLOWED), keyring(CERTIFICATE, &text)].into_iter().flatten() {
            let _ = keys.verify(&commit(signed_commit(SIGNATURES[0]).as_bytes()).unwrap(), now());
        }
    };
    let words = ["valid-after=\"", "namespaces=\"git\"", "ssh-ed25519 ", "\n", "-----", "="];
    Target { name: "keys", run: &run, seeds: &seeds, words: &words }.fuzz();
}
