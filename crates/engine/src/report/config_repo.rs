//! The other ConfigRepos in a report.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::limits::MAX_FILES;
use api::condition::{Condition, find_condition};
use api::gitops::v1alpha1::ConfigRepo;
use api::names::gitops_conditions::READY;
use object::Key;
use object::text::{markdown, plain, short_commit};

/// A ConfigRepo other than the one of the report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigRepoState {
    /// The namespace and name.
    pub name: String,
    /// The commit that was applied last.
    pub applied: String,
    /// True if the condition Ready is true.
    pub ready: bool,
    /// The reason of the condition Ready.
    pub reason: String,
    /// The number of applied but unhealthy objects.
    pub unhealthy: i32,
}

impl ConfigRepoState {
    /// Reads the status of a ConfigRepo.
    pub fn read(repo: &ConfigRepo) -> Self {
        let status = repo.status.as_ref();
        let ready = status.and_then(|status| find_condition(&status.conditions, READY));
        let applied = status.and_then(|status| status.applied.as_ref());
        let unhealthy = status.and_then(|status| status.unhealthy.as_ref());
        Self {
            name: Key::of(repo).to_string(),
            applied: applied.map(|applied| applied.commit.clone()).unwrap_or_default(),
            ready: ready.is_some_and(Condition::is_true),
            reason: ready.map(|condition| condition.reason.clone()).unwrap_or_default(),
            unhealthy: unhealthy.map_or(0, |unhealthy| unhealthy.total),
        }
    }
}

/// Returns the table of ConfigRepos, or an empty string if there are none.
pub(super) fn table(repos: &[ConfigRepoState]) -> String {
    if repos.is_empty() {
        return String::new();
    }
    let mut table =
        "| Other ConfigRepo | Applied commit | Ready | Reason | Unhealthy objects |\n|---|---|---|---|---|\n"
            .to_owned();
    for ConfigRepoState { name, applied, ready, reason, unhealthy } in repos.iter().take(MAX_FILES) {
        let commit = if applied.is_empty() { "none" } else { short_commit(applied) };
        let ready = if *ready { "yes" } else { "no" };
        let (name, reason) = (markdown(name, 320), markdown(reason, 60));
        let _ = writeln!(table, "| {name} | `{commit}` | {ready} | {reason} | {unhealthy} |");
    }
    if repos.len() > MAX_FILES {
        let _ = writeln!(table, "\nand {} more.", repos.len() - MAX_FILES);
    }
    table
}

/// Returns up to `most` ConfigRepos as JSON, by name.
pub(super) fn values(repos: &[ConfigRepoState], most: usize) -> Map<String, Value> {
    let values = repos.iter().take(most).map(|repo| {
        let ConfigRepoState { name, applied, ready, reason, unhealthy } = repo;
        let reason = plain(reason, 60);
        let value = json!({"applied": applied, "ready": ready, "reason": reason, "unhealthy": unhealthy});
        (plain(name, 320), value)
    });
    values.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_config_repo_says_its_commit_its_reason_and_its_unhealthy_objects() {
        let repo = |name: &str, status: Value| -> ConfigRepoState {
            let repo = json!({
                "apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo",
                "metadata": {"namespace": "config", "name": name}, "spec": {"url": "https://git.example/a"},
                "status": status,
            });
            ConfigRepoState::read(&serde_json::from_value(repo).unwrap())
        };
        let ready = json!({"type": "Ready", "status": "False", "reason": "HealthTimeout", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let unhealthy = json!({"digest": "d", "total": 2});
        let commit = "a".repeat(40);
        let late = json!({"applied": {"commit": commit}, "conditions": [ready], "unhealthy": unhealthy});
        let all = [repo("late", late), repo("new", json!({}))];
        let rows = "| config/late | `aaaaaaaaaaaa` | no | HealthTimeout | 2 |\n| config/new | `none` | no |  | 0 |\n";
        assert!(table(&all).ends_with(rows), "{}", table(&all));
        let values = Value::Object(values(&all, 1));
        let late = json!({"applied": commit, "ready": false, "reason": "HealthTimeout", "unhealthy": 2});
        assert_eq!((&values["config/late"], &values["config/new"]), (&late, &Value::Null));
    }
}
