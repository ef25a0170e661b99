//! Checks the tree against the rules in ARCHITECTURE.md, CONTRIBUTING.md and the pages on hazards.
//!
//! Each check is a function that returns the problems as sentences; a test next to it shows that it finds a seeded
//! mistake. The compiler enforces the edges between crates and [`imports`] enforces their table, so that a new
//! dependency is a deliberate decision.

mod controllers;
mod dependencies;
mod documents;
mod imports;
mod logs;
mod names;
mod pure;
mod specs;
mod tokens;

use std::collections::BTreeMap;
use std::path::Path;

/// The files of the tree: a map from the path below the root to the text.
type Files = BTreeMap<String, String>;

/// Reads the files in some directories whose names end with `end`.
fn read(directories: &[&str], end: &str) -> Files {
    let mut files = Files::new();
    for directory in directories {
        let paths = list(directory).into_iter().filter(|path| path.ends_with(end));
        files.extend(paths.map(|path| (path.clone(), std::fs::read_to_string(root().join(path)).unwrap())));
    }
    assert!(!files.is_empty(), "no file below {directories:?} ends with {end}");
    files
}

/// Returns the files below a directory.
fn list(directory: &str) -> Vec<String> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(root().join(directory)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = if directory.is_empty() { name.clone() } else { format!("{directory}/{name}") };
        if !entry.file_type().unwrap().is_dir() {
            files.push(path);
        } else if ![".git", "target"].contains(&name.as_str()) {
            files.extend(list(&path));
        }
    }
    files
}

/// Returns the sources of every crate, including tests and benches.
pub(crate) fn sources() -> Files {
    read(&["src", "crates", "examples", "tests", "benches"], ".rs")
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns true if a file contains only tests: it is in a `tests` folder, or is a `tests.rs`.
pub(crate) fn is_test(path: &str) -> bool {
    path.starts_with("tests/") || path.contains("/tests/") || path.ends_with("/tests.rs")
}

/// Returns a source text without the tests at its end.
pub(crate) fn production(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
}

/// Fails if there are problems, and lists each on its own line.
fn assert_none(problems: impl IntoIterator<Item = String>) {
    let problems: Vec<String> = problems.into_iter().collect();
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}
