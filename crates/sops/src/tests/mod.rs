//! Decrypts what sops encrypted (`tests/sops`), and files that were changed afterwards.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;
use crate::format::Format;
use object::KeyFiles;
use serde_json::Value as Json;
use yaml::{Reading, documents};

fn path(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/sops")).join(path)
}

fn recorded(name: &str) -> Vec<u8> {
    std::fs::read(path("corpus").join(name)).unwrap()
}

fn text(name: &str) -> String {
    String::from_utf8(recorded(name)).unwrap()
}

fn files(names: &[&str]) -> KeyFiles {
    let file = |name: &&str| ((*name).to_owned(), std::fs::read(path("keys").join(name)).unwrap());
    KeyFiles(Arc::new(names.iter().map(file).collect()))
}

fn keys(names: &[&str]) -> Keys {
    Keys::from_files(&files(names)).unwrap()
}

fn team() -> Keys {
    keys(&["team.agekey"])
}

/// Returns the data of a YAML file.
fn data(bytes: &[u8]) -> Vec<Json> {
    documents(bytes).unwrap().iter().map(|node| node.to_json(Reading::Objects).unwrap()).collect()
}

fn without_comments(ini: &[u8]) -> String {
    let text = String::from_utf8(ini.to_vec()).unwrap();
    text.lines().filter(|line| !line.starts_with([';', '#'])).map(|line| format!("{line}\n")).collect()
}

#[test]
fn every_recorded_file_decrypts_to_what_sops_prints() {
    let keys = keys(&["team.agekey", "ecc.asc", "rsa.asc"]);
    let entries = std::fs::read_dir(path("corpus")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names: Vec<String> = names.filter(|name| !name.ends_with(".plain")).collect();
    assert!(names.len() >= 22, "{names:?}");
    for name in names {
        let (bytes, expected) = (recorded(&name), recorded(&format!("{name}.plain")));
        assert!(is_encrypted(&name, &bytes) && !is_encrypted(&name, &expected), "{name}");
        let plain = decrypt(&name, &bytes, &keys).unwrap_or_else(|error| panic!("{name}: {error}")).bytes;
        match Format::from_path(&name) {
            Format::Yaml => assert_eq!(data(&plain), data(&expected), "{name}"),
            Format::Ini => assert_eq!(without_comments(&plain), without_comments(&expected), "{name}"),
            Format::Json | Format::Dotenv | Format::Binary => {
                assert_eq!(String::from_utf8_lossy(&plain), String::from_utf8_lossy(&expected), "{name}");
            }
        }
    }
}

#[test]
fn each_recipient_alone_opens_a_file() {
    for key in ["other.agekey", "ecc.asc", "rsa.asc"] {
        let plain = decrypt("a.yaml", &recorded("mixed.yaml"), &keys(&[key])).unwrap().bytes;
        assert_eq!(data(&plain), data(&recorded("mixed.yaml.plain")), "{key}");
    }
    for key in ["ecc.asc", "team.agekey"] {
        let refused = decrypt("a.yaml", &recorded("rsa.yaml"), &keys(&[key])).unwrap_err();
        assert!(matches!(refused, Error::NoKey(_)), "{refused}");
    }
}

/// Returns the error for a changed file, which must not contain a plaintext.
#[track_caller]
fn refused(name: &str, change: impl FnOnce(&str) -> String) -> Error {
    let (before, keys) = (text(name), team());
    let after = change(&before);
    assert_ne!(before, after, "nothing changed");
    assert!(decrypt(name, before.as_bytes(), &keys).is_ok());
    let error = decrypt(name, after.as_bytes(), &keys).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
    error
}

/// Returns the encrypted value in the line of a key.
fn sealed<'a>(text: &'a str, key: &str) -> &'a str {
    let line = text.lines().find(|line| line.trim_start().starts_with(key)).unwrap();
    let (from, to) = (line.find("ENC[").unwrap(), line.rfind(']').unwrap());
    &line[from..=to]
}

#[test]
fn a_changed_value_is_refused_with_its_key() {
    let password = Error::Value("stringData.password".into());
    let flip = |text: &str| {
        let value = sealed(text, "password:");
        let changed = value.replacen("data:", "data:AAAA", 1);
        text.replace(value, &changed)
    };
    assert_eq!(refused("secret.yaml", flip), password);
    let swap = |text: &str| {
        let (password, note) = (sealed(text, "password:"), sealed(text, "note:"));
        text.replace(password, "SWAPPED").replace(note, password).replace("SWAPPED", note)
    };
    assert_eq!(refused("secret.yaml", swap), password);
    let rename = |text: &str| text.replace("password:", "pass:");
    assert_eq!(refused("secret.yaml", rename), Error::Value("stringData.pass".into()));
    let swap = |text: &str| {
        let (user, password) = (sealed(text, "PASSWORD="), sealed(text, "URL="));
        text.replace(user, "SWAPPED").replace(password, user).replace("SWAPPED", password)
    };
    assert_eq!(refused("app.env", swap), Error::Value("PASSWORD".into()));
}

#[test]
fn a_changed_file_is_refused_by_its_mac() {
    assert_eq!(refused("secret.yaml", |text| text.replace("name: shop", "name: other")), Error::Mac);
    let removed = |text: &str| {
        let line = format!("    token: {}\n", sealed(text, "token:"));
        text.replace(&line, "    added: null\n")
    };
    assert_eq!(refused("secret.yaml", removed), Error::Mac);
    let shorter = |text: &str| {
        let mac = sealed(text, "mac:");
        text.replace(mac, &mac.replacen("data:", "data:AAAA", 1))
    };
    assert_eq!(refused("secret.yaml", shorter), Error::Mac);
    let foreign = |text: &str| text.replace(sealed(text, "mac:"), sealed(&self::text("types.yaml"), "mac:"));
    assert_eq!(refused("secret.yaml", foreign), Error::Mac);
    let older = |text: &str| text.replace("lastmodified: \"20", "lastmodified: \"19");
    assert_eq!(refused("secret.yaml", older), Error::Mac);
    let appended = |text: &str| format!("{text}---\nkind: ConfigMap\n");
    assert_eq!(refused("secret.yaml", appended), Error::Mac);
    let covers_more = |text: &str| text.replace("    mac_only_encrypted: true\n", "");
    assert_eq!(refused("mac_only_encrypted.yaml", covers_more), Error::Mac);
}

#[test]
fn a_plain_value_in_an_encrypted_place_is_refused() {
    let error = refused("secret.yaml", |text| text.replace(sealed(text, "token:"), "injected"));
    assert_eq!(
        error.to_string(),
        "the value of \"data.token\" is not encrypted, but the rule of the SOPS file requires it"
    );
    // The rule of comments is not read, so the MAC refuses such a value.
    let plain = |text: &str| text.replace(sealed(text, "password:"), "injected");
    assert_eq!(refused("encrypted_comment.yaml", plain), Error::Mac);
}

#[test]
fn an_unencrypted_value_may_change_if_the_mac_does_not_cover_it() {
    let changed = text("mac_only_encrypted.yaml").replace("name: shop", "name: other");
    let plain = decrypt("a.yaml", changed.as_bytes(), &team()).unwrap().bytes;
    assert_eq!(data(&plain)[0]["metadata"]["name"], "other");
}

#[test]
fn a_file_for_other_recipients_names_them() {
    let error = decrypt("a.yaml", &recorded("secret.yaml"), &keys(&["other.agekey"])).unwrap_err();
    let Error::NoKey(recipients) = error else { panic!("{error}") };
    assert!(recipients.len() == 1 && recipients[0].starts_with("age1"), "{recipients:?}");
}

#[test]
fn key_services_are_refused_by_name() {
    for (field, name) in
        [("kms", "AWS KMS"), ("hc_vault", "HashiCorp Vault"), ("key_groups", "key groups (Shamir)")]
    {
        let changed = text("secret.yaml").replace("    age:\n", &format!("    {field}:\n"));
        let error = decrypt("a.yaml", changed.as_bytes(), &team()).unwrap_err();
        assert_eq!(error, Error::Unsupported(name.into()));
    }
}

#[test]
fn an_age_envelope_with_any_changed_byte_does_not_open() {
    let text = text("secret.yaml");
    let (before, rest) = text.split_once("-----BEGIN AGE ENCRYPTED FILE-----\n").unwrap();
    let (encoded, after) = rest.split_once("-----END").unwrap();
    let envelope = STANDARD.decode(encoded.split_whitespace().collect::<String>()).unwrap();
    let file = |envelope: &[u8]| {
        let encoded = STANDARD.encode(envelope);
        format!(
            "{before}-----BEGIN AGE ENCRYPTED FILE-----\n            {encoded}\n            -----END{after}"
        )
    };
    let keys = team();
    assert!(decrypt("a.yaml", file(&envelope).as_bytes(), &keys).is_ok());
    for at in 0..envelope.len() {
        let mut changed = envelope.clone();
        changed[at] ^= 1;
        let refused = decrypt("a.yaml", file(&changed).as_bytes(), &keys);
        assert!(matches!(refused, Err(Error::NoKey(_))), "byte {at}: {refused:?}");
    }
}

#[test]
fn keys_are_read_by_their_endings_and_never_printed() {
    let all = keys(&["team.agekey", "ecc.asc", "rsa.asc"]);
    assert_eq!(format!("{all:?}"), "Keys(1 age, 2 OpenPGP)");
    assert_eq!(format!("{:?}", files(&["team.agekey"])), "KeyFiles([\"team.agekey\"])");
    let refused = |name: &str, bytes: &[u8]| {
        let files = KeyFiles(Arc::new(BTreeMap::from([(name.to_owned(), bytes.to_vec())])));
        Keys::from_files(&files).unwrap_err()
    };
    let other = refused("identity", b"AGE-SECRET-KEY-1");
    assert_eq!(other, "there is no key file whose name ends with .agekey or .asc");
    let line = "the key file \"a.agekey\" has a line that is not an age key such as AGE-SECRET-KEY-1…";
    for bytes in ["canary", "age1jvj5sh366ssvnx6sxxympzmur9cmtjtlpgzk3am85g0ez5hkg92qplat3c"] {
        assert_eq!(refused("a.agekey", bytes.as_bytes()), line);
    }
    assert_eq!(refused("a.agekey", b"# a comment\n"), "the key file \"a.agekey\" contains no key");
    assert_eq!(refused("a.asc", b"canary"), "the key file \"a.asc\" contains no armored OpenPGP private key");
    let locked = std::fs::read(path("keys/locked.asc")).unwrap();
    let passphrase = "the key file \"a.asc\" contains a key with a passphrase; export it without one";
    assert_eq!(refused("a.asc", &locked), passphrase);
}

#[test]
fn files_without_metadata_are_not_encrypted() {
    let sops_secret = text("secret.yaml").replace("kind: Secret", "kind: SopsSecret");
    for (name, text) in [
        ("a.yaml", "kind: ConfigMap\ndata: {a: 'ENC[AES256_GCM,data:a]'}\n"),
        ("a.yaml", "sops: is great\nmac: ENC[AES256_GCM,\n"),
        ("a.yaml", sops_secret.as_str()),
        ("README.md", text("secret.yaml").as_str()),
        ("a.env", "A=ENC[AES256_GCM,\n# sops_mac=\n"),
    ] {
        assert!(!is_encrypted(name, text.as_bytes()), "{name}: {text}");
    }
    // A conflict of a merge must not let ciphertext pass for a value.
    let conflict = format!("<<<<<<< HEAD\n{}", text("secret.yaml"));
    assert!(is_encrypted("a.yaml", conflict.as_bytes()));
}

#[test]
fn a_file_above_a_limit_is_refused() {
    let refused = |name: &str, text: &str| decrypt(name, text.as_bytes(), &team()).unwrap_err().to_string();
    let text = text("secret.yaml");
    let large = format!("{text}# {}\n", "x".repeat(limits::MAX_FILE_BYTES));
    assert_eq!(refused("a.yaml", &large), "not a valid SOPS file: it has more than 4194304 bytes");
    let flat = self::text("app.env");
    let long = flat.replace("PASSWORD=", &format!("{}=", "k".repeat(5000)));
    assert!(refused("a.env", &long).ends_with(" has a path that is too long"));
    let fields: String = (0..2000).map(|number| format!("sops_x{number}=1\n")).collect();
    let many = "not a valid SOPS file: it has more than 1000 fields of metadata";
    assert_eq!(refused("a.env", &format!("{flat}{fields}")), many);
    let start = text.find("        - enc:").unwrap();
    let end = text.find("    encrypted_regex:").unwrap();
    let recipients = text[start..end].repeat(101);
    let many = format!("{}{recipients}{}", &text[..start], &text[end..]);
    assert_eq!(refused("a.yaml", &many), "not a valid SOPS file: it has more than 100 recipients");
}
