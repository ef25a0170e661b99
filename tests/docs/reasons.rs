//! The page about the conditions of a ConfigRepo has the reasons that the code has.

use std::collections::BTreeSet;

use super::ROOT;

/// Files that set the reason of a condition, with words of the same form that are no reasons.
const FILES: &[&str] = &[
    "crates/controllers/src/hub/config_repo/commit.rs",
    "crates/controllers/src/hub/config_repo/identity.rs",
    "crates/controllers/src/hub/config_repo/observe.rs",
    "crates/controllers/src/hub/config_repo/plan.rs",
    "crates/controllers/src/hub/config_repo/status.rs",
    "crates/controllers/src/hub/report.rs",
    "crates/engine/src/sync/desired.rs",
    "crates/engine/src/sync/ownership.rs",
    "src/git/error.rs",
    "src/git/signature/refusal.rs",
];
const NO_REASONS: &[&str] =
    &["ConfigRepo", "CustomResourceDefinition", "ManagedCluster", "Namespace", "Namespaced", "Secret"];

/// The string literals of a source that are one word in CamelCase, before its tests.
fn words(source: &str) -> BTreeSet<&str> {
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    let is_word = |text: &&str| {
        text.len() > 3
            && text.starts_with(|c: char| c.is_ascii_uppercase())
            && text.chars().all(|c| c.is_ascii_alphabetic())
            && text.chars().any(|c| c.is_ascii_lowercase())
    };
    code.split('"').skip(1).step_by(2).filter(is_word).collect()
}

#[test]
fn every_reason_of_a_config_repo_is_explained() {
    let page = std::fs::read_to_string(format!("{ROOT}/docs/conditions.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let explained: BTreeSet<String> = rows.map(str::to_owned).collect();
    let mut used = BTreeSet::new();
    for file in FILES {
        let source = std::fs::read_to_string(format!("{ROOT}/{file}")).unwrap();
        used.extend(words(&source).into_iter().filter(|word| !NO_REASONS.contains(word)).map(str::to_owned));
    }
    let missing: Vec<_> = used.difference(&explained).collect();
    let gone: Vec<_> = explained.difference(&used).collect();
    assert!(
        missing.is_empty() && gone.is_empty(),
        "docs/conditions.md lacks {missing:?} and explains {gone:?}"
    );
}
