//! The page about the conditions of a ConfigRepo lists the reasons of the code.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::ROOT;

/// Directories and files that set the reasons of conditions.
const SOURCES: &[&str] = &[
    "crates/controllers/src/hub/config_repo",
    "crates/engine/src/sync",
    "crates/controllers/src/hub/report.rs",
    "src/git/error.rs",
    "src/git/signature/refusal.rs",
];
/// The texts before a reason in the code.
const BEFORE: &[&str] = &[
    "of_commit(",
    "reason:",
    "=>",
    "=> {",
    "True,",
    "False,",
    "&str =",
    "else { (",
    "new(",
    "refuse(",
    "map_or(",
];
/// A reason that stands behind another text.
const BEHIND_A_TEXT: &str = "Fetching";

fn files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for source in SOURCES.iter().map(|path| PathBuf::from(ROOT).join(path)) {
        match source.is_dir() {
            true => files.extend(std::fs::read_dir(&source).unwrap().map(|entry| entry.unwrap().path())),
            false => files.push(source),
        }
    }
    files.retain(|path| path.extension().is_some_and(|end| end == "rs") && !path.ends_with("tests.rs"));
    files
}

/// Returns whether a text is one word in CamelCase.
fn is_word(text: &str) -> bool {
    text.len() > 3
        && text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.chars().all(|c| c.is_ascii_alphabetic())
        && text.chars().any(|c| c.is_ascii_lowercase())
}

/// Returns the reasons in a source file, without its tests.
fn reasons(source: &str) -> BTreeSet<String> {
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    let parts: Vec<&str> = code.split('"').collect();
    let texts = parts.windows(2).step_by(2).filter(|pair| is_word(pair[1]));
    let is_reason = |before: &str| {
        let before = before.split_whitespace().collect::<Vec<_>>().join(" ");
        let near = before.get(before.len().saturating_sub(40)..).unwrap_or(&before);
        let is_argument = before.ends_with(',') && (near.contains("Phase::") || near.contains(".wait("));
        is_argument || BEFORE.iter().any(|end| before.ends_with(end))
    };
    let found = texts.filter(|pair| is_reason(pair[0]) || pair[1] == BEHIND_A_TEXT);
    found.map(|pair| pair[1].to_owned()).collect()
}

#[test]
fn every_reason_of_a_config_repo_is_explained() {
    let page = std::fs::read_to_string(format!("{ROOT}/docs/conditions.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let explained: BTreeSet<String> = rows.map(str::to_owned).collect();
    let used: BTreeSet<String> =
        files().iter().flat_map(|file| reasons(&std::fs::read_to_string(file).unwrap())).collect();
    let missing: Vec<_> = used.difference(&explained).collect();
    let gone: Vec<_> = explained.difference(&used).collect();
    assert!(
        missing.is_empty() && gone.is_empty(),
        "docs/conditions.md lacks {missing:?} and explains {gone:?}"
    );
}
