//! OpenPGP keys with the same key id, and keys that vouch for themselves with a weak hash.

use git2::Oid;

use super::author::Author;
use super::signature::{keys, refused, replace};

/// Returns the unsigned part of a signature that names its key by key id.
fn issuer(fingerprint: &str) -> Vec<u8> {
    let id = u64::from_str_radix(&fingerprint[24..], 16).unwrap();
    [&[9, 16][..], &id.to_be_bytes()].concat()
}

/// Replaces the tip with a commit whose signature also names another key by key id.
fn with_key_id_of(author: &Author, signed: &str, key: &str, other: &str) -> String {
    let repo = author.forge.repo();
    let (signature, payload) = repo.extract_signature(&Oid::from_str(signed).unwrap(), None).unwrap();
    let (armored, binary) = (author.root().join("armored"), author.root().join("binary"));
    std::fs::write(&armored, &*signature).unwrap();
    author.gpg(&["--output", "binary", "--dearmor", "armored"]);
    let mut bytes = std::fs::read(&binary).unwrap();
    let at = bytes.windows(10).position(|part| part == issuer(key)).unwrap();
    bytes[at..at + 10].copy_from_slice(&issuer(other));
    std::fs::write(&binary, bytes).unwrap();
    author.gpg(&["--yes", "--output", "armored", "--enarmor", "binary"]);
    let forged = std::fs::read_to_string(&armored).unwrap().replace("PGP ARMORED FILE", "PGP SIGNATURE");
    replace(author, &payload, &forged)
}

/// The key id in a signature is not signed, and 64 bits of a fingerprint can collide. The fingerprint still
/// names the key that signed.
#[test]
fn every_key_that_a_signature_may_name_is_tried() {
    let author = Author::with_gpg();
    let [key, other] = ["key@x.org", "other@x.org"].map(|it| author.gpg_key(it, "ed25519", &[], "never"));
    let signed = author.gpg_commit(&key);
    let commit = with_key_id_of(&author, &signed, &key, &other);
    let [key, other] = [&key, &other].map(|it| author.gpg_public(it));
    for order in [["a.asc", "z.asc"], ["z.asc", "a.asc"]] {
        let both = keys(&[(order[0], &key), (order[1], &other)]);
        assert_eq!(author.fetch(both), Ok(commit.clone()), "{order:?}");
    }
    let parts = [commit.as_str(), "other@x.org", "does not match its content"];
    refused(author.fetch(keys(&[("k.asc", &other)])), "SignatureInvalid", &parts);
}

#[test]
fn an_openpgp_key_that_signs_itself_with_sha_1_signs_nothing() {
    let author = Author::with_gpg();
    let key = author.gpg_key("old@x.org", "ed25519", &["--cert-digest-algo", "SHA1"], "never");
    let commit = author.gpg_commit(&key);
    let weak = keys(&[("k.asc", &author.gpg_public(&key))]);
    refused(author.fetch(weak), "SigningKeyRefused", &[&commit, "old@x.org", "has no valid self-signature"]);
}
