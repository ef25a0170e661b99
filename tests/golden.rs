//! Compares texts with golden files.
//!
//! The crates that have golden files include this file by path. A separate crate would have to be built before
//! each of them.
#![allow(dead_code, reason = "some crates only compare")]

use std::path::{Path, PathBuf};

/// Returns the files with an extension in a folder of `tests/golden`, in name order.
pub(crate) fn cases(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut cases: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.retain(|path| path.extension().is_some_and(|found| found == extension));
    cases.sort();
    cases
}

/// Returns true if golden files are written instead of compared.
pub(crate) fn is_blessing() -> bool {
    std::env::var_os("BLESS").is_some()
}

/// Compares each text with its file. `BLESS=1` writes the files instead; people review them like code.
pub(crate) fn check(texts: impl IntoIterator<Item = (PathBuf, String)>) {
    let mut wrong = Vec::new();
    for (file, found) in texts {
        let expected = std::fs::read_to_string(&file).unwrap_or_default();
        if expected == found {
            continue;
        }
        if is_blessing() {
            std::fs::write(&file, &found).unwrap();
        } else {
            let file = file.display();
            wrong.push(format!("{file}\n--- expected\n{expected}\n--- found\n{found}"));
        }
    }
    assert!(wrong.is_empty(), "run with BLESS=1 and review:\n{}", wrong.join("\n"));
}
