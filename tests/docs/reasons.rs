//! Checks that the pages about conditions and events list the reasons in the code.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::ROOT;
use crate::tidy::{is_test, production, sources};
use api::names::work_reasons;

/// The pages with the reasons of ConfigRepos, and of other kinds.
const PAGES: &[&str] = &["docs/conditions.md", "docs/conditions-of-git.md"];
const OBJECT_PAGES: &[&str] = &[
    "docs/conditions-of-addons.md",
    "docs/conditions-of-clusters.md",
    "docs/conditions-of-klusterlets.md",
    "docs/conditions-of-works.md",
];
/// Directories and files that set the reasons of conditions.
const SOURCES: &[&str] = &[
    "crates/api/src/names/approval_reasons.rs",
    "crates/controllers/src/hub/config_repo",
    "crates/engine/src/sync",
    "crates/controllers/src/hub/report.rs",
    "crates/controllers/src/hub/commit_status.rs",
    "crates/controllers/src/hub/notification.rs",
    "src/git/error.rs",
    "src/git/signature/refusal.rs",
];
/// The texts that precede a reason in the code.
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
    "reconciling(",
    "stalled(",
    "map_or(",
];
/// Files that set the reasons of conditions of other kinds.
const OBJECT_SOURCES: &[&str] = &[
    "crates/addon-sdk/src/hub/status.rs",
    "crates/controllers/src/agent/addon_lease.rs",
    "crates/controllers/src/agent/cluster_status.rs",
    "crates/controllers/src/agent/managed_namespace.rs",
    "crates/controllers/src/agent/work/status.rs",
    "crates/controllers/src/hub/addon_config/config_problem.rs",
    "crates/controllers/src/addon_creation.rs",
    "crates/controllers/src/addon_deletion.rs",
    "crates/controllers/src/hub/addon_deploy/status.rs",
    "crates/controllers/src/hub/cluster.rs",
    "crates/controllers/src/hub/cluster_lease.rs",
    "crates/controllers/src/hub/clusterset.rs",
    "crates/controllers/src/hub/clusterset_binding.rs",
    "crates/controllers/src/hub/policy_status.rs",
    "crates/controllers/src/hub/replica_set/mod.rs",
    "crates/controllers/src/hub/replica_set/write.rs",
    "crates/controllers/src/registration_operator/cluster_manager.rs",
    "crates/controllers/src/registration_operator/klusterlet.rs",
    "crates/engine/src/addon/degraded.rs",
    "crates/engine/src/addon/health.rs",
    "crates/engine/src/addon/hook.rs",
    "crates/engine/src/addon/hosting.rs",
    "crates/engine/src/addon/progress.rs",
    "crates/engine/src/addon/token.rs",
    "crates/engine/src/cluster_manager/conditions.rs",
    "crates/engine/src/klusterlet/conditions.rs",
    "crates/engine/src/placement/status.rs",
    "crates/engine/src/replica_set/status.rs",
    "crates/engine/src/work/conditions.rs",
    "crates/engine/src/work/status.rs",
    "src/agent/addon_status.rs",
];
/// The texts that precede a reason in these files.
const BEFORE_IN_OBJECTS: &[&str] = &[
    "True,",
    "False,",
    "Unknown,",
    "failed(",
    "unknown(",
    "degraded(",
    "unsatisfied(",
    "&str =",
    "Some((",
    "=> {",
    "if is_empty {",
    "} else {",
    "|| (",
    "(TOKEN,",
    "(CERTIFICATE,",
];
/// Words in these files that follow such a text but are not reasons: types of conditions and parts of types, and
/// reasons of events.
const NO_REASONS: &[&str] = &[
    "ClusterCertificateRotated",
    "ConditionRule",
    "Deployment",
    "FieldsIgnored",
    "HubConnectionDegraded",
    "Placement",
    "ReadyToApply",
    "Registration",
    "RegistrationDesiredDegraded",
    "TokenRefreshed",
    "ValidFeatureGates",
    "WorkDesiredDegraded",
];
/// Files that set the reasons of events.
const EVENT_SOURCES: &[&str] = &[
    "crates/addon-sdk/src/hub/request.rs",
    "crates/controllers/src/agent/cluster_status.rs",
    "crates/controllers/src/hub/addon_config/config_problem.rs",
    "crates/controllers/src/hub/addon_install.rs",
    "crates/controllers/src/hub/argo_pull/cluster.rs",
    "crates/controllers/src/hub/cluster.rs",
    "crates/controllers/src/hub/cluster_decision.rs",
    "crates/controllers/src/hub/cluster_secret.rs",
    "crates/controllers/src/hub/cluster_lease.rs",
    "crates/controllers/src/hub/config_repo/event.rs",
    "crates/controllers/src/hub/csr.rs",
    "crates/controllers/src/hub/replica_set/write.rs",
    "crates/controllers/src/hub/report.rs",
    "crates/controllers/src/rollout_events.rs",
    "crates/engine/src/addon/hook.rs",
    "crates/engine/src/placement/events.rs",
    "crates/reconcile/src/dispatcher/feed.rs",
    "src/operator/signer.rs",
];
/// The texts that precede the reason of an event in the code.
const BEFORE_EVENT: &[&str] = &[
    "EventType::Normal,",
    "EventType::Warning,",
    "MISSING: &str =",
    "INVALID: &str =",
    "ROLLED_BACK: &str =",
    "event:",
    "reason:",
    "has_failed {",
    "} else {",
    "true => (",
    "false => (",
    "normal(",
    "let reason =",
    "=> Some(",
];
/// Files that create conditions or events with reasons from another file, and that file.
const REASONS_OF_OTHERS: &[(&str, &str)] = &[
    ("crates/addon-lifecycle/src/deletion.rs", "crates/engine/src/addon/hook.rs"),
    (
        "crates/controllers/src/hub/addon_config/write.rs",
        "crates/controllers/src/hub/addon_config/config_problem.rs",
    ),
    ("crates/controllers/src/hub/addon_health.rs", "the condition of the cluster"),
    ("crates/controllers/src/hub/cluster_profile.rs", "the condition of the cluster"),
    ("crates/controllers/src/hub/placement/plan.rs", "crates/engine/src/placement/events.rs"),
    ("crates/shell/src/events.rs", "the controllers, whose events it writes"),
    ("crates/preview/src/spokes.rs", "crates/engine/src/addon/progress.rs"),
];

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

/// Returns true if a text is one word in CamelCase.
fn is_word(text: &str) -> bool {
    text.len() > 3
        && text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.chars().all(|c| c.is_ascii_alphabetic())
        && text.chars().any(|c| c.is_ascii_lowercase())
}

/// Returns the words in the strings of a source file, excluding its tests, and the code before each.
fn words(source: &str) -> Vec<(String, &str)> {
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    let parts: Vec<&str> = code.split('"').collect();
    let texts = parts.chunks_exact(2).filter(|pair| is_word(pair[1]));
    texts.map(|pair| (pair[0].split_whitespace().collect::<Vec<_>>().join(" "), pair[1])).collect()
}

/// Returns the reasons of conditions in a source file.
fn reasons(source: &str) -> BTreeSet<String> {
    let is_reason = |before: &str| {
        let near = before.get(before.len().saturating_sub(40)..).unwrap_or(before);
        let is_argument = before.ends_with(',') && near.contains("Phase::");
        is_argument || BEFORE.iter().any(|end| before.ends_with(end))
    };
    let found = words(source).into_iter().filter(|(before, _)| is_reason(before));
    found.map(|(_, word)| word.to_owned()).collect()
}

/// Returns the words in the first column of the tables on some pages.
fn explained(pages: &[&str]) -> BTreeSet<String> {
    let text: String =
        pages.iter().map(|page| std::fs::read_to_string(format!("{ROOT}/{page}")).unwrap()).collect();
    let cells =
        text.lines().filter_map(|line| line.strip_prefix("| `")?.split('|').next().map(str::to_owned));
    cells
        .flat_map(|cell| cell.split('`').filter(|word| is_word(word)).map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

#[test]
fn every_file_that_makes_conditions_or_events_is_listed() {
    let lists = [
        (&["Observation::new("][..], OBJECT_SOURCES),
        (&["EventType::Normal", "EventType::Warning"][..], EVENT_SOURCES),
    ];
    let files = sources();
    let mut unlisted = BTreeSet::new();
    for (path, source) in files.iter().filter(|(path, _)| format!("/{path}").contains("/src/")) {
        let is_of_repo = SOURCES.iter().any(|listed| path.starts_with(listed));
        for (signs, listed) in lists {
            let makes = signs.iter().any(|sign| production(source).contains(sign));
            if makes && !is_test(path) && !is_of_repo && !listed.contains(&path.as_str()) {
                unlisted.insert(path.as_str());
            }
        }
    }
    let excepted: BTreeSet<&str> = REASONS_OF_OTHERS.iter().map(|(path, _)| *path).collect();
    assert_eq!(unlisted, excepted, "list a file with the reasons that it sets, or say whose they are");
}

#[test]
fn every_reason_of_clusters_placements_addons_and_works_is_explained() {
    let mut used = BTreeSet::new();
    for file in OBJECT_SOURCES {
        let source = std::fs::read_to_string(format!("{ROOT}/{file}")).unwrap();
        let is_reason = |before: &str| BEFORE_IN_OBJECTS.iter().any(|end| before.ends_with(end));
        let found = words(&source).into_iter().filter(|(before, _)| is_reason(before));
        let found: BTreeSet<String> = found.map(|(_, word)| word.to_owned()).collect();
        assert!(!found.is_empty(), "no reason in {file}");
        used.extend(found);
    }
    let unused: Vec<_> = NO_REASONS.iter().filter(|word| !used.remove(**word)).collect();
    assert!(unused.is_empty(), "no file has {unused:?}");
    // The agent refers to these by constants.
    used.extend(
        [work_reasons::CONTESTED, work_reasons::FAILED, work_reasons::REJECTED, work_reasons::IGNORED_FIELDS]
            .map(str::to_owned),
    );
    assert_eq!(explained(OBJECT_PAGES), used);
}

#[test]
fn every_reason_of_an_event_is_explained() {
    let mut used = BTreeSet::new();
    for file in EVENT_SOURCES {
        let source = std::fs::read_to_string(format!("{ROOT}/{file}")).unwrap();
        let is_reason = |before: &str| BEFORE_EVENT.iter().any(|end| before.ends_with(end));
        let found = words(&source).into_iter().filter(|(before, _)| is_reason(before));
        let found: BTreeSet<String> = found.map(|(_, word)| word.to_owned()).collect();
        assert!(!found.is_empty(), "no reason in {file}");
        used.extend(found);
    }
    assert_eq!(explained(&["docs/events.md"]), used);
}

#[test]
fn every_reason_of_a_config_repo_is_explained() {
    let explained = explained(PAGES);
    let used: BTreeSet<String> =
        files().iter().flat_map(|file| reasons(&std::fs::read_to_string(file).unwrap())).collect();
    let missing: Vec<_> = used.difference(&explained).collect();
    let gone: Vec<_> = explained.difference(&used).collect();
    assert!(missing.is_empty() && gone.is_empty(), "{PAGES:?} lack {missing:?} and explain {gone:?}");
}
