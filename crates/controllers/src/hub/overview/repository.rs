//! The summary of a ConfigRepo.

use serde::Serialize;

use super::MESSAGE;
use api::Condition;
use api::condition::find_condition;
use api::gitops::v1alpha1::{
    ConfigRepo, HeldDeletions, InventoryEntry, PushedReport, ReportStatus, Revision,
};
use api::names::{APPROVE_DELETION_ANNOTATION, gitops_conditions};
use engine::plural::counted;
use object::Key;
use object::text::{plain, short_commit};

/// A ConfigRepo.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Repository {
    /// Namespace and name.
    pub name: String,
    /// The URL that it fetches.
    pub url: String,
    /// The commit that was fetched last; empty before the first.
    pub seen: String,
    /// The commit that was applied last; empty before the first.
    pub applied: String,
    /// Whether the hub is as the repository says (condition Ready).
    pub ready: bool,
    /// Reason of its condition Ready.
    pub reason: String,
    /// Message of its condition Ready.
    pub message: String,
    /// Says that no operator has answered its present spec; empty if one has.
    pub unanswered: String,
    /// Whether a person has paused it.
    pub suspended: bool,
    /// Its deletions that wait.
    pub held_deletions: Option<HeldObjects>,
    /// Hash of the plan that waits for an approval; empty if none waits.
    pub held_plan: String,
    /// Its last report; empty before the first.
    pub report: String,
    /// Why the newest state could not be reported; empty if it was.
    pub report_error: String,
    /// Its last reports, the newest first.
    pub reports: Vec<ReportSummary>,
}

/// Deletions that wait.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldObjects {
    /// The value of the annotation that approves them.
    pub approval: String,
    /// The first of the objects.
    pub objects: Vec<String>,
    /// How many objects wait beside these.
    pub more: usize,
    /// Until when they wait, in UTC; empty if only an approval ends that.
    pub until: String,
}

impl HeldObjects {
    fn of(held: HeldDeletions) -> Self {
        let HeldDeletions { approval, total, objects, until, unknown: _ } = held;
        let total = usize::try_from(total).unwrap_or_default();
        let name = |entry: &InventoryEntry| {
            let InventoryEntry { kind, namespace, name, .. } = entry;
            plain(&format!("{kind} {}", Key::namespaced(namespace.as_str(), name.as_str())), MESSAGE)
        };
        Self {
            approval,
            more: total.saturating_sub(objects.len()),
            objects: objects.iter().map(name).collect(),
            until: until.map(|until| until.0.to_string()).unwrap_or_default(),
        }
    }

    /// Says how many objects wait, and for what.
    pub fn summary(&self) -> String {
        let Self { approval, objects, more, until } = self;
        let total = objects.len() + more;
        let wait = if total == 1 { "waits" } else { "wait" };
        let until = if until.is_empty() { String::new() } else { format!(" until {until}, or") };
        let total = counted(total, "deletion");
        format!("{total} {wait}{until} for the annotation {APPROVE_DELETION_ANNOTATION}={approval}")
    }
}

/// A report that was pushed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReportSummary {
    /// The first digits of its commit.
    pub commit: String,
    /// Time of the push, in UTC; empty if it is unknown.
    pub time: String,
    /// What it says.
    pub summary: String,
}

impl Repository {
    pub(super) fn of(repo: &ConfigRepo) -> Self {
        let status = repo.status.clone().unwrap_or_default();
        let ready = find_condition(&status.conditions, gitops_conditions::READY);
        let commit =
            |revision: &Option<Revision>| revision.as_ref().map(|r| r.commit.clone()).unwrap_or_default();
        let report = status.report.unwrap_or_default();
        Self {
            name: Key::of(repo).to_string(),
            url: repo.spec.url.clone(),
            seen: commit(&status.seen),
            applied: commit(&status.applied),
            ready: ready.is_some_and(Condition::is_true),
            reason: ready.map_or_else(|| "Unknown".into(), |ready| ready.reason.clone()),
            message: ready.map_or_else(
                || "no operator has reconciled it yet".into(),
                |ready| plain(&ready.message, MESSAGE),
            ),
            unanswered: unanswered(repo).unwrap_or_default(),
            suspended: repo.spec.suspend,
            held_deletions: status.held_deletions.map(HeldObjects::of),
            held_plan: status.held_plan,
            report: self::report(&report),
            report_error: plain(&report.error, MESSAGE),
            reports: report.history.iter().map(pushed).collect(),
        }
    }
}

/// Says that no operator has answered the present spec of a ConfigRepo, if one has answered an earlier
/// spec.
pub fn unanswered(repo: &ConfigRepo) -> Option<String> {
    let (seen, present) = (repo.status.as_ref()?.observed_generation?, repo.metadata.generation?);
    // Caches leave the managed fields out.
    let writes = repo.metadata.managed_fields.iter().flatten().filter(|entry| entry.subresource.is_none());
    let since = writes.filter_map(|entry| Some(entry.time.as_ref()?.0)).max();
    let since = since.map(|at| format!(", written at {at}")).unwrap_or_default();
    (seen < present).then(|| format!("no operator has answered generation {present} of its spec{since}"))
}

/// Names the commit of a report, and where it is.
fn report(report: &ReportStatus) -> String {
    let ReportStatus { branch, path, commit, .. } = report;
    if commit.is_empty() {
        return String::new();
    }
    let directory = if path.is_empty() { String::new() } else { format!(" in {path}") };
    let commit = short_commit(commit);
    plain(&format!("{commit} on {branch}{directory}"), MESSAGE)
}

fn pushed(report: &PushedReport) -> ReportSummary {
    let PushedReport { commit, time, summary, unknown: _ } = report;
    ReportSummary {
        commit: plain(short_commit(commit), MESSAGE),
        time: time.as_ref().map(|time| time.0.to_string()).unwrap_or_default(),
        summary: plain(summary, MESSAGE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_spec_that_no_operator_has_answered_is_told_with_the_time_of_its_last_write() {
        let entry = |time: &str, subresource: Option<&str>| json!({"time": time, "subresource": subresource});
        let fields =
            json!([entry("2026-02-01T00:00:00Z", Some("status")), entry("2026-01-02T03:04:05Z", None)]);
        for (observed, fields, said) in [
            (json!(2), json!(null), None),
            (json!(null), json!(null), None),
            (json!(1), json!(null), Some("no operator has answered generation 2 of its spec")),
            (
                json!(1),
                fields,
                Some("no operator has answered generation 2 of its spec, written at 2026-01-02T03:04:05Z"),
            ),
        ] {
            let repo = json!({"metadata": {"name": "r", "generation": 2, "managedFields": fields},
                "spec": {"url": "https://git.example.com/f.git"}, "status": {"observedGeneration": observed}});
            let repo: ConfigRepo = serde_json::from_value(repo).unwrap();
            assert_eq!(unanswered(&repo).as_deref(), said);
        }
    }
}
