//! Signatures by real git, gpg and ssh-keygen, and forgeries of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use git2::Oid;
use jiff::SignedDuration;
use k8s_openapi::ByteString;

use super::author::{Author, now};
use super::transport::report;
use crate::git::{
    Commit, CommitSigner, Error, History, Keyring, RefSpec, Retry, SignedPart, Verification, verify_commit,
};

pub(super) fn keys(secret: &[(&str, &str)]) -> Verification {
    let data = secret.iter().map(|(name, value)| ((*name).to_owned(), ByteString(value.as_bytes().to_vec())));
    let data = data.collect();
    let keys = Arc::new(Keyring::from_secret(&data).unwrap_or_else(|e| panic!("{e}: {data:?}")));
    Verification { keys, part: SignedPart::Range, accepted: None, now: now() }
}

fn allowed(line: &str) -> Verification {
    keys(&[("allowed_signers", line)])
}

fn since(verification: &Verification, commit: &str, part: SignedPart) -> Verification {
    Verification { accepted: Some(commit.to_owned()), part, ..verification.clone() }
}

#[track_caller]
pub(super) fn refused(result: Result<String, Error>, reason: &str, parts: &[&str]) {
    let error = result.unwrap_err();
    assert_eq!(error.reason(), reason, "{error}");
    for part in parts {
        assert!(error.to_string().contains(part), "{part:?} is not in: {error}");
    }
}

#[test]
fn ssh_keys_of_every_kind_sign_commits() {
    let author = Author::new();
    let kinds: [&[&str]; 4] = [
        &["-t", "ed25519"],
        &["-t", "ecdsa", "-b", "256"],
        &["-t", "ecdsa", "-b", "384"],
        &["-t", "rsa", "-b", "2048"],
    ];
    for (index, kind) in kinds.iter().enumerate() {
        let name = format!("key{index}");
        let public = author.ssh_key(&name, kind);
        let commit = author.ssh_commit(&name);
        assert_eq!(author.fetch(allowed(&format!("user@example.org {public}"))), Ok(commit), "{kind:?}");
    }
    let weak = author.ssh_key("weak", &["-t", "rsa", "-b", "1024"]);
    author.ssh_commit("weak");
    refused(author.fetch(allowed(&format!("u {weak}"))), "SigningKeyRefused", &["less than 2048 bits"]);
}

#[test]
fn an_unsigned_commit_and_one_of_another_key_are_refused_by_name() {
    let author = Author::new();
    let (mine, other) =
        (author.ssh_key("mine", &["-t", "ed25519"]), author.ssh_key("other", &["-t", "ed25519"]));
    let trusted = allowed(&format!("user@example.org {mine}"));
    let unsigned = author.commit(&[], &[]);
    let message = format!("commit {unsigned} is refused: it has no signature");
    refused(author.fetch(trusted.clone()), "SignatureMissing", &[&message]);
    let foreign = author.ssh_commit("other");
    refused(
        author.fetch(trusted),
        "SignatureUntrusted",
        &[&foreign, "the SSH key SHA256:", "which is not in the Secret of spec.verify.secretRef"],
    );
    assert_eq!(author.fetch(allowed(&format!("u {other}"))), Ok(foreign));
}

#[test]
fn an_ssh_key_counts_while_it_is_valid_and_for_git_and_not_revoked() {
    let author = Author::new();
    let key = author.ssh_key("key", &["-t", "ed25519"]);
    let commit = author.ssh_commit("key");
    let line = |options: &str| allowed(&format!("alice {options} {key}"));
    let good = r#"namespaces="git",valid-after="20200101",valid-before="29990101""#;
    assert_eq!(author.fetch(line(good)), Ok(commit));
    refused(
        author.fetch(line(r#"valid-before="20260101""#)),
        "SigningKeyExpired",
        &["alice (the SSH key SHA256:", "expired at 2026-01-01T00:00:00Z"],
    );
    refused(
        author.fetch(line(r#"valid-after="29990101""#)),
        "SigningKeyRefused",
        &["is not valid before 2999"],
    );
    refused(author.fetch(line(r#"namespaces="file""#)), "SigningKeyRefused", &["may not sign for git"]);
    let revoked = keys(&[("allowed_signers", &format!("alice {key}")), ("revoked_keys", &key)]);
    refused(author.fetch(revoked), "SigningKeyRevoked", &["alice", "is revoked"]);
}

#[test]
fn an_ssh_signature_for_another_purpose_is_refused() {
    let author = Author::new();
    let key = author.ssh_key("key", &["-t", "ed25519"]);
    author.commit(&[], &[]);
    let raw =
        author.forge.repo().odb().unwrap().read(author.forge.tip("main").unwrap()).unwrap().data().to_vec();
    std::fs::write(author.root().join("payload"), &raw).unwrap();
    author.run("ssh-keygen", &["-q", "-Y", "sign", "-n", "file", "-f", "key", "payload"], author.root());
    let signature = std::fs::read_to_string(author.root().join("payload.sig")).unwrap();
    let commit = replace(&author, &raw, &signature);
    let parts = [commit.as_str(), "is for \"file\", not for \"git\""];
    refused(author.fetch(allowed(&format!("u {key}"))), "SignatureInvalid", &parts);
}

/// Replaces the tip with a commit that has this signature.
pub(super) fn replace(author: &Author, payload: &[u8], signature: &str) -> String {
    let payload = String::from_utf8(payload.to_vec()).unwrap();
    let folded = signature.trim_end().replace('\n', "\n ");
    let (head, message) = payload.split_once("\n\n").unwrap();
    let raw = format!("{head}\ngpgsig {folded}\n\n{message}");
    let repo = author.forge.repo();
    let id = repo.odb().unwrap().write(git2::ObjectType::Commit, raw.as_bytes()).unwrap();
    repo.reference("refs/heads/main", id, true, "").unwrap();
    id.to_string()
}

#[test]
fn a_signature_that_was_moved_to_another_commit_is_refused() {
    for mut author in [Author::new(), Author::with_gpg()] {
        let (trusted, signed) = match author.gpg.take() {
            None => {
                let key = author.ssh_key("key", &["-t", "ed25519"]);
                (allowed(&format!("u {key}")), author.ssh_commit("key"))
            }
            Some(agent) => {
                author.gpg = Some(agent);
                let key = author.gpg_key("a@example.org", "ed25519", &[], "never");
                (keys(&[("a.asc", &author.gpg_public(&key))]), author.gpg_commit(&key))
            }
        };
        assert_eq!(author.fetch(trusted.clone()), Ok(signed.clone()));
        let repo = author.forge.repo();
        let (signature, payload) = repo.extract_signature(&Oid::from_str(&signed).unwrap(), None).unwrap();
        let forged = String::from_utf8(payload.to_vec()).unwrap().replace("change", "evil");
        let forged = replace(&author, forged.as_bytes(), std::str::from_utf8(&signature).unwrap());
        refused(author.fetch(trusted), "SignatureInvalid", &[&forged, "does not match its content"]);
    }
}

#[test]
fn openpgp_keys_and_subkeys_sign_commits() {
    let author = Author::with_gpg();
    for (user, algorithm) in [("rsa@x.org", "rsa2048"), ("ed@x.org", "ed25519"), ("p@x.org", "nistp256")] {
        let key = author.gpg_key(user, algorithm, &[], "never");
        let commit = author.gpg_commit(&key);
        assert_eq!(author.fetch(keys(&[("k.asc", &author.gpg_public(&key))])), Ok(commit), "{algorithm}");
    }
    let primary = author.gpg_key("sub@x.org", "ed25519", &[], "never");
    author.gpg(&["--quick-add-key", &primary, "ed25519", "sign", "never"]);
    let commit = author.gpg_commit(&primary);
    let error = author.fetch(keys(&[("k.asc", &author.gpg_public("ed@x.org"))]));
    refused(error, "SignatureUntrusted", &[&commit, "the OpenPGP key "]);
    assert_eq!(author.fetch(keys(&[("k.asc", &author.gpg_public(&primary))])), Ok(commit));
}

#[test]
fn an_openpgp_key_that_is_expired_or_revoked_signs_nothing() {
    let author = Author::with_gpg();
    let key = author.gpg_key("a@example.org", "ed25519", &[], "1d");
    let commit = author.gpg_commit(&key);
    let public = author.gpg_public(&key);
    let trusted = keys(&[("k.asc", &public)]);
    assert_eq!(author.fetch(trusted.clone()), Ok(commit.clone()));
    let later = Verification { now: trusted.now + SignedDuration::from_hours(25), ..trusted.clone() };
    refused(author.fetch(later), "SigningKeyExpired", &[&commit, "a@example.org", &key, "expired at"]);
    let earlier = Verification { now: trusted.now - SignedDuration::from_hours(1), ..trusted };
    refused(author.fetch(earlier), "SigningKeyRefused", &["is not valid before"]);

    // gpg generates a revocation with each key, and breaks its first line against an accidental import.
    let path = author.root().join(format!("gpg/openpgp-revocs.d/{key}.rev"));
    let revocation = std::fs::read_to_string(path).unwrap().replace(":-----BEGIN", "-----BEGIN");
    let apart = keys(&[("a.asc", &public), ("z.asc", &revocation)]);
    refused(author.fetch(apart), "SigningKeyRevoked", &[&commit, &key, "is revoked"]);
    let one_file = keys(&[("a.asc", &format!("{public}\n{revocation}"))]);
    refused(author.fetch(one_file), "SigningKeyRevoked", &[]);
    std::fs::write(author.root().join("revocation"), revocation).unwrap();
    author.gpg(&["--import", "revocation"]);
    let exported = author.gpg_public(&key);
    refused(author.fetch(keys(&[("k.asc", &exported)])), "SigningKeyRevoked", &[]);
    let beside_the_older = keys(&[("a.asc", &public), ("z.asc", &exported)]);
    refused(author.fetch(beside_the_older), "SigningKeyRevoked", &[]);
}

#[test]
fn a_signed_merge_vouches_for_unsigned_commits_in_mode_tip_only() {
    let author = Author::new();
    let key = author.ssh_key("key", &["-t", "ed25519"]);
    let base = author.ssh_commit("key");
    author.work(&["checkout", "-q", "-b", "topic"]);
    let unsigned = author.commit(&[], &[]);
    author.work(&["checkout", "-q", "main"]);
    author.ssh_commit("key");
    let signing = format!("user.signingKey={}", author.root().join("key").display());
    author.work(&[
        "-c",
        "gpg.format=ssh",
        "-c",
        &signing,
        "merge",
        "-q",
        "--no-ff",
        "-S",
        "-m",
        "m",
        "topic",
    ]);
    let merge = author.work(&["rev-parse", "HEAD"]);
    let trusted = allowed(&format!("u {key}"));
    refused(author.fetch(since(&trusted, &base, SignedPart::Range)), "SignatureMissing", &[&unsigned]);
    assert_eq!(author.fetch(since(&trusted, &base, SignedPart::Tip)), Ok(merge.clone()));
    assert_eq!(author.fetch(since(&trusted, &merge, SignedPart::Range)), Ok(merge), "it is the accepted one");
}

#[test]
fn every_commit_between_the_accepted_one_and_the_tip_is_verified() {
    let author = Author::new();
    let key = author.ssh_key("key", &["-t", "ed25519"]);
    let first = author.commit(&[], &[]);
    let second = author.ssh_commit("key");
    let unsigned = author.commit(&[], &[]);
    let tip = author.ssh_commit("key");
    let trusted = allowed(&format!("u {key}"));
    let range = |accepted: &str| author.fetch(since(&trusted, accepted, SignedPart::Range));
    refused(range(&second), "SignatureMissing", &[&unsigned]);
    refused(range(&first), "SignatureMissing", &[&unsigned]);
    assert_eq!(range(&unsigned), Ok(tip.clone()), "what was accepted is not asked again");
    assert_eq!(author.fetch(since(&trusted, &second, SignedPart::Tip)), Ok(tip));
}

#[test]
fn an_annotated_tag_is_signed_under_its_name() {
    let author = Author::new();
    let key = author.ssh_key("key", &["-t", "ed25519"]);
    let commit = author.commit(&[], &[]);
    let signing = format!("user.signingKey={}", author.root().join("key").display());
    author.work(&["-c", "gpg.format=ssh", "-c", &signing, "tag", "-s", "-m", "release", "v1.0.0"]);
    author.work(&["tag", "-a", "-m", "unsigned", "v2.0.0"]);
    // The server serves the old version's signed tag as the new version's tag.
    let signed = author.work(&["rev-parse", "v1.0.0"]);
    author.work(&["update-ref", "refs/tags/v3.0.0", &signed]);
    let trusted = allowed(&format!("u {key}"));
    let fetch = |tag: &str, part| {
        author.fetch_ref(&RefSpec::tag(tag).unwrap(), Verification { part, ..trusted.clone() })
    };
    assert_eq!(fetch("v1.0.0", SignedPart::Tip), Ok(commit.clone()));
    refused(fetch("v1.0.0", SignedPart::Range), "SignatureMissing", &[&format!("commit {commit}")]);
    refused(fetch("v2.0.0", SignedPart::Tip), "SignatureMissing", &["tag v2.0.0"]);
    refused(
        fetch("v3.0.0", SignedPart::Tip),
        "SignatureInvalid",
        &["tag v3.0.0", "its signed name is \"v1.0.0\""],
    );
}

#[test]
fn a_commit_that_was_read_as_a_signed_tag_is_verified_as_that_tag() {
    let author = Author::new();
    let key = author.ssh_key("key", &["-t", "ed25519"]);
    author.commit(&[], &[]);
    let signing = format!("user.signingKey={}", author.root().join("key").display());
    author.work(&["-c", "gpg.format=ssh", "-c", &signing, "tag", "-s", "-m", "release", "v1.0.0"]);
    let mut mirror = author.forge.local();
    let read = mirror.fetch(&RefSpec::tag("v1.0.0").unwrap(), History::default()).unwrap();
    let how = Verification { part: SignedPart::Tip, ..allowed(&format!("u {key}")) };
    for repository in [mirror.dir.clone(), author.forge.path()] {
        assert_eq!(verify_commit(&repository, "v1.0.0", &read, &how), Ok(()), "{repository:?}");
        let by_its_id = verify_commit(&repository, &read.revision, &read, &how).unwrap_err();
        assert_eq!(by_its_id.reason(), "SignatureMissing", "{by_its_id}");
    }
}

#[test]
fn a_commit_that_was_fetched_is_trusted_with_the_keys_that_it_was_verified_with() {
    let author = Author::new();
    let (key, other) =
        (author.ssh_key("key", &["-t", "ed25519"]), author.ssh_key("other", &["-t", "ed25519"]));
    let commit = author.ssh_commit("key");
    let mut mirror = author.forge.local();
    mirror.verification = Some(allowed(&format!("u {key}")));
    mirror.fetch(&RefSpec::branch("main").unwrap(), History::default()).unwrap();
    assert!(mirror.is_trusted(&commit));
    mirror.verification = Some(allowed(&format!("u {other}")));
    assert!(!mirror.is_trusted(&commit));
    mirror.verification = Some(allowed(&format!("u {other}\nu {key}")));
    assert!(mirror.is_trusted(&commit), "it is verified again");
}

/// Returns a report that is signed with the key in a Secret.
fn signed(branch: &str, secret: &[(&str, &str)], content: &str) -> Commit {
    let signer = Some(CommitSigner::from_secret(&data(secret)).unwrap());
    Commit { branch: branch.into(), signer, ..report(content) }
}

#[test]
fn a_report_that_lost_a_race_is_signed_again() {
    let author = Author::with_gpg();
    let public = author.ssh_key("key", &["-t", "ed25519"]);
    std::fs::write(author.root().join("allowed"), format!("* {public}")).unwrap();
    let secret = std::fs::read_to_string(author.root().join("key")).unwrap();
    let report = signed("reports", &[("ssh-privatekey", &secret)], "1");
    let other = author.forge.commit("prepared", &[("notes.md", "theirs")]);
    let race = "test -e raced && exit 0; touch raced; unset GIT_QUARANTINE_PATH; git update-ref refs/heads/reports refs/heads/prepared";
    author.forge.hook("pre-receive", race);
    let server = author.forge.serve();
    let pushed =
        author.forge.mirror("racing", &server.url).push(&report, &Retry::default()).unwrap().unwrap();
    assert_eq!(author.forge.history("reports"), [pushed.clone(), other]);
    let allowed = format!("gpg.ssh.allowedSignersFile={}", author.root().join("allowed").display());
    author.git(&["-c", "safe.directory=*", "-c", &allowed, "verify-commit", &pushed], author.forge.path());
}

#[test]
fn reports_are_signed_and_git_verifies_them() {
    let author = Author::with_gpg();
    let public = author.ssh_key("key", &["-t", "ed25519"]);
    author.ssh_key("locked", &["-t", "ecdsa", "-N", "hunter22"]);
    let primary = author.gpg_key("r@example.org", "ed25519", &[], "never");
    let file = |name: &str| std::fs::read_to_string(author.root().join(name)).unwrap();
    let signers = format!("* {public}\n* {}", file("locked.pub").trim());
    std::fs::write(author.root().join("allowed"), &signers).unwrap();
    let openpgp = author.gpg(&["--armor", "--export-secret-keys", &primary]);
    let trusted = keys(&[("allowed_signers", &signers), ("k.asc", &author.gpg_public(&primary))]);
    let secrets: [&[(&str, &str)]; 3] = [
        &[("ssh-privatekey", &file("key"))],
        &[("ssh-privatekey", &file("locked")), ("password", "hunter22\n")],
        &[("openpgp.asc", &openpgp)],
    ];
    for (index, secret) in secrets.iter().enumerate() {
        let report = signed("main", secret, &index.to_string());
        let commit = author.forge.local().push(&report, &Retry::default()).unwrap().unwrap();
        assert_eq!(author.fetch(trusted.clone()), Ok(commit.clone()), "{index}");
        let allowed = format!("gpg.ssh.allowedSignersFile={}", author.root().join("allowed").display());
        author
            .git(&["-c", "safe.directory=*", "-c", &allowed, "verify-commit", &commit], author.forge.path());
    }
    let wrong: [(&[(&str, &str)], &str); 4] = [
        (&[], "needs one of the keys"),
        (&[("ssh-privatekey", "x")], "not a key in the format of OpenSSH"),
        (&[("ssh-privatekey", &file("locked")), ("password", "x")], "does not open"),
        (&[("openpgp.asc", "x")], "not an armored secret key"),
    ];
    for (secret, part) in wrong {
        let error = CommitSigner::from_secret(&data(secret)).unwrap_err().to_string();
        assert!(error.contains(part) && !error.contains("hunter22"), "{error}");
    }
}

fn data(secret: &[(&str, &str)]) -> BTreeMap<String, ByteString> {
    secret.iter().map(|(name, value)| ((*name).to_owned(), ByteString(value.as_bytes().to_vec()))).collect()
}

#[test]
fn a_secret_of_keys_that_cannot_be_understood_is_refused_by_the_name_of_its_key() {
    let cases: &[(&[(&str, &str)], &str)] = &[
        (&[], "holds no key"),
        (&[("keys", "x")], "key keys of the Secret of spec.verify: it is not"),
        (&[("a.asc", "x")], "key a.asc of the Secret of spec.verify: it has no line"),
        (
            &[(
                "a.asc",
                "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nAAAA\n-----END PGP PUBLIC KEY BLOCK-----\n",
            )],
            "block 1",
        ),
        (&[("allowed_signers", "a\n")], "line 1"),
    ];
    for (data, part) in cases {
        let data = data.iter().map(|(k, v)| ((*k).to_owned(), ByteString(v.as_bytes().to_vec()))).collect();
        let error = Keyring::from_secret(&data).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}
