//! Fuzz targets for encrypted files and keys. No input may panic, take long or use unbounded memory
//! (`tests/fuzz/run`).
#![allow(clippy::panic, clippy::expect_used, reason = "a finding is a panic")]

#[path = "../../../tests/fuzz/driver.rs"]
mod driver;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use object::KeyFiles;
use sops::{Keys, decrypt, is_encrypted};

const ENDINGS: [&str; 5] = ["yaml", "json", "env", "ini", "bin"];
const WORDS: [&str; 10] = [
    "ENC[AES256_GCM,data:",
    ",iv:",
    ",tag:",
    ",type:comment]",
    "sops:",
    "sops_age__list_0__map_enc=",
    "[sops]\n",
    "-> X25519 ",
    "--- ",
    "\n",
];

fn read(directory: &str, takes: fn(&str) -> bool) -> Vec<(String, Vec<u8>)> {
    let directory = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/sops")).join(directory);
    let paths = fs::read_dir(directory).expect("recorded files").flatten().map(|entry| entry.path());
    let name = |path: &Path| path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    let mut files: Vec<_> = paths.map(|path| (name(&path), fs::read(path).expect("a file"))).collect();
    files.retain(|(name, _)| takes(name));
    files.sort();
    files
}

/// Returns the keys of the recorded files.
fn keys() -> &'static Keys {
    static KEYS: OnceLock<Keys> = OnceLock::new();
    KEYS.get_or_init(|| {
        let files = read("keys", |name| name != "locked.asc").into_iter().collect();
        Keys::from_files(&KeyFiles(Arc::new(files))).expect("keys")
    })
}

#[test]
fn any_bytes_are_a_sops_file_or_refused() {
    let files = read("corpus", |name| !name.ends_with(".plain"));
    let seeds: Vec<_> = files.into_iter().map(|(_, bytes)| bytes).collect();
    driver::Target { name: "sops_file", run: &file, seeds: &seeds, words: &WORDS }.fuzz();
}

#[test]
fn any_bytes_are_keys_of_sops_or_refused() {
    let seeds: Vec<_> = read("keys", |_| true).into_iter().map(|(_, bytes)| bytes).collect();
    driver::Target { name: "keys_of_sops", run: &key, seeds: &seeds, words: &WORDS }.fuzz();
}

/// Decrypts any bytes in every format.
fn file(data: &[u8]) {
    for ending in ENDINGS {
        let path = format!("a.{ending}");
        is_encrypted(&path, data);
        if let Err(error) = decrypt(&path, data, keys()) {
            assert!(!error.to_string().is_empty());
        }
    }
}

/// Reads any bytes as keys of both kinds.
fn key(data: &[u8]) {
    for name in ["a.agekey", "a.asc"] {
        let files = KeyFiles(Arc::new(BTreeMap::from([(name.to_owned(), data.to_vec())])));
        if let Err(reason) = Keys::from_files(&files) {
            assert!(reason.starts_with("the"), "{reason}");
        }
    }
}
