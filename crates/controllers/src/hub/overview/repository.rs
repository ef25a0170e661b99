//! The summary of a ConfigRepo.

use std::cmp::Reverse;

use serde::Serialize;

use crate::MESSAGE;
use api::Condition;
use api::condition::find_condition;
use api::gitops::v1alpha1::{
    ChangedField, ConfigRepo, ConfigRepoStatus, CorrectedObject, HeldChanges, HeldDeletions, InventoryEntry,
    ListedObjects, PushedReport, RecentDeletion, RecentResult, RenderedPath, ReportStatus, Revision,
    SharedChange, UnhealthyObjects,
};
use api::names::fetch_reasons::TRANSIENT;
use api::names::{APPROVE_DELETION_ANNOTATION, gitops_conditions};
use engine::plural::counted;
use engine::sync::ObjectId;
use object::Key;
use object::text::{plain, short_commit};

/// Maximum number of objects in a list.
const LISTED: usize = 20;

/// The summary of a ConfigRepo.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Repository {
    /// Namespace and name.
    pub name: String,
    /// The URL of the git repository.
    pub url: String,
    /// The branch, tag, version range or commit that it follows. Omitted in the JSON of `wheelwright status`.
    #[serde(skip)]
    pub follows: String,
    /// All conditions. Omitted in the JSON of `wheelwright status`.
    #[serde(skip)]
    pub conditions: Vec<ConditionSummary>,
    /// The last fetched commit; empty before the first.
    pub seen: String,
    /// When that commit was first seen, in UTC; empty if unknown.
    pub seen_at: String,
    /// The last applied commit; empty before the first.
    pub applied: String,
    /// The last commit whose objects were all healthy; empty before the first.
    pub healthy: String,
    /// True if the hub matches the repository (condition Ready).
    pub ready: bool,
    /// When `ready` last changed, in UTC; empty if unknown.
    pub ready_since: String,
    /// True if the operator is working on it and no person has to act (condition Reconciling).
    pub reconciling: bool,
    /// Reason of the condition Ready.
    pub reason: String,
    /// Message of the condition Ready.
    pub message: String,
    /// A message if no operator has processed the current spec; empty if one has.
    pub unanswered: String,
    /// True if a person has suspended it.
    pub suspended: bool,
    /// The waiting deletions.
    pub held_deletions: Option<HeldObjects>,
    /// Hash of the plan that waits for an approval; empty if none does.
    pub held_plan: String,
    /// The objects that the waiting plan creates, changes and deletes.
    pub held_changes: Vec<ObjectList>,
    /// The fields that the waiting plan changes. Omitted in the JSON of `wheelwright status`.
    #[serde(skip)]
    pub held_fields: HeldFields,
    /// The directories that match `spec.paths`, with the numbers of their objects.
    pub directories: Vec<DirectorySummary>,
    /// The last results of commits, newest first.
    pub history: Vec<CommitSummary>,
    /// Other objects in the status: unhealthy, corrected, recreated and deleted ones.
    pub objects: Vec<ObjectList>,
    /// The last report; empty before the first.
    pub report: String,
    /// The reason that the latest state could not be reported; empty if it was.
    pub report_error: String,
    /// The URL of the git repository with the reports. Omitted in the JSON of `wheelwright status`.
    #[serde(skip)]
    pub report_url: String,
    /// The branch with the reports, and the directory on it. Omitted in the JSON of `wheelwright status`.
    #[serde(skip)]
    pub report_place: (String, String),
    /// The last reports, newest first.
    pub reports: Vec<ReportSummary>,
}

/// A condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConditionSummary {
    /// Type of the condition.
    pub type_: String,
    /// True, False or Unknown.
    pub status: String,
    /// The reason.
    pub reason: String,
    /// The message; may be empty.
    pub message: String,
    /// When the status last changed, in UTC.
    pub since: String,
}

impl ConditionSummary {
    /// Returns the summary of a condition of any kind.
    pub fn of(condition: &Condition) -> Self {
        Self {
            type_: condition.type_.clone(),
            status: condition.status.as_str().to_owned(),
            reason: plain(&condition.reason, MESSAGE),
            message: plain(&condition.message, MESSAGE),
            since: condition.last_transition_time.0.to_string(),
        }
    }
}

/// Objects to which the same statement in the status of a ConfigRepo applies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectList {
    /// The statement, with the number of objects.
    pub what: String,
    /// The first objects of the list.
    pub objects: Vec<String>,
    /// Number of further objects.
    pub more: usize,
}

impl ObjectList {
    /// Returns a list of up to [`LISTED`] objects; `None` if there are none.
    fn new(total: usize, objects: impl Iterator<Item = String>, what: &str) -> Option<Self> {
        let objects: Vec<_> = objects.take(LISTED).map(|object| plain(&object, MESSAGE)).collect();
        let what = format!("{} {what}", counted(total, "object"));
        (total > 0).then(|| Self { what, more: total.saturating_sub(objects.len()), objects })
    }

    /// Returns the lists of the changes in a held plan.
    fn from_held_changes(changes: &HeldChanges) -> Vec<Self> {
        let HeldChanges { created, changed, deleted, unknown: _ } = changes;
        let lists = [(created, "to create or take over"), (changed, "to change"), (deleted, "to delete")];
        let list = |(listed, what): (&Option<ListedObjects>, &str)| {
            let ListedObjects { total, objects, changes: _, unknown: _ } = listed.as_ref()?;
            Self::new(number(*total), objects.iter().map(named), what)
        };
        lists.into_iter().filter_map(list).collect()
    }

    /// Returns the lists of a status, except held deletions and the changes of a held plan.
    fn all(status: &ConfigRepoStatus) -> Vec<Self> {
        let unhealthy = status.unhealthy.as_ref().and_then(|unhealthy| {
            let UnhealthyObjects { digest: _, since, total, objects, unknown: _ } = unhealthy;
            let since = since.as_ref().map(|since| format!(" since {}", since.0)).unwrap_or_default();
            Self::new(number(*total), objects.iter().map(named), &format!("not healthy{since}"))
        });
        let corrected = status.drift.iter().flat_map(|drift| &drift.corrected);
        let mut deleted: Vec<_> = status.recent_deletions.iter().collect();
        deleted.sort_by_key(|deleted| Reverse(deleted.time.0));
        let lists = [
            unhealthy,
            Self::new(
                corrected.clone().count(),
                corrected.map(corrected_object),
                "changed on the hub by others and corrected",
            ),
            Self::new(status.recreate.len(), std::iter::empty(), "recreated because of an immutable field"),
            Self::new(
                deleted.len(),
                deleted.iter().copied().map(deleted_object),
                "recently deleted without an approval and counted against the budget",
            ),
        ];
        lists.into_iter().flatten().collect()
    }
}

/// The fields that a held plan changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldFields {
    /// The different changes, those of existing objects first.
    pub changes: Vec<HeldChange>,
    /// Number of new and changed objects whose fields are not listed.
    pub unlisted: usize,
}

/// A change of fields that is the same in some objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldChange {
    /// True if the objects are created or taken over.
    pub is_new: bool,
    /// The first objects.
    pub objects: Vec<String>,
    /// Number of further objects.
    pub more: usize,
    /// The first fields.
    pub fields: Vec<HeldField>,
    /// Number of further fields.
    pub more_fields: usize,
}

/// A field that changes, with its values as JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldField {
    /// The path of the field.
    pub path: String,
    /// The value before; empty if there is none.
    pub before: String,
    /// The value after; empty if there is none.
    pub after: String,
}

impl HeldFields {
    fn from_held_changes(changes: &HeldChanges) -> Self {
        let HeldChanges { created, changed, deleted: _, unknown: _ } = changes;
        let mut fields = Self::default();
        for (listed, is_new) in [(changed, false), (created, true)] {
            let Some(ListedObjects { total, objects: _, changes, unknown: _ }) = listed else { continue };
            let listed: usize = changes.iter().map(|change| number(change.total)).sum();
            fields.unlisted += number(*total).saturating_sub(listed);
            fields.changes.extend(changes.iter().map(|change| HeldChange::new(change, is_new)));
        }
        fields
    }

    /// Returns the number of objects whose fields are listed.
    pub fn total(&self) -> usize {
        self.changes.iter().map(HeldChange::total).sum()
    }
}

impl HeldChange {
    fn new(change: &SharedChange, is_new: bool) -> Self {
        let SharedChange { total, objects, fields, more_fields, unknown: _ } = change;
        Self {
            is_new,
            objects: objects.iter().map(|entry| plain(&named(entry), MESSAGE)).collect(),
            more: number(*total).saturating_sub(objects.len()),
            fields: fields.iter().map(HeldField::new).collect(),
            more_fields: number(*more_fields),
        }
    }

    /// Returns the number of objects.
    pub fn total(&self) -> usize {
        self.objects.len() + self.more
    }
}

impl HeldField {
    fn new(ChangedField { path, before, after, unknown: _ }: &ChangedField) -> Self {
        let [path, before, after] = [path, before, after].map(|text| plain(text, MESSAGE));
        Self { path, before, after }
    }
}

fn number(count: i32) -> usize {
    usize::try_from(count).unwrap_or_default()
}

fn named(entry: &InventoryEntry) -> String {
    let InventoryEntry { kind, namespace, name, .. } = entry;
    format!("{kind} {}", Key::namespaced(namespace.as_str(), name.as_str()))
}

fn corrected_object(corrected: &CorrectedObject) -> String {
    let CorrectedObject { object, corrections, last_time, changed_by, unknown: _ } = corrected;
    let last = last_time.as_ref().map(|time| format!(", last at {}", time.0)).unwrap_or_default();
    let by = if changed_by.is_empty() { String::new() } else { format!("; {changed_by}") };
    format!("{}: {}{last}{by}", in_words(object), counted(corrections, "correction"))
}

fn deleted_object(deleted: &RecentDeletion) -> String {
    let RecentDeletion { object, time, unknown: _ } = deleted;
    format!("{} at {}", in_words(object), time.0)
}

/// Returns the readable name of an object from `group/Kind/namespace/name`.
fn in_words(path: &str) -> String {
    ObjectId::from_path(path).map_or_else(|| path.to_owned(), |id| id.to_string())
}

/// Waiting deletions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldObjects {
    /// The value of the annotation that approves them.
    pub approval: String,
    /// The first objects.
    pub objects: Vec<String>,
    /// Number of further objects.
    pub more: usize,
    /// Until when they wait, in UTC; empty if only an approval ends the wait.
    pub until: String,
}

impl HeldObjects {
    fn from_deletions(held: HeldDeletions) -> Self {
        let HeldDeletions { approval, total, objects, until, unknown: _ } = held;
        Self {
            approval,
            more: number(total).saturating_sub(objects.len()),
            objects: objects.iter().map(|entry| plain(&named(entry), MESSAGE)).collect(),
            until: until.map(|until| until.0.to_string()).unwrap_or_default(),
        }
    }

    /// Returns the number of waiting objects.
    pub fn total(&self) -> usize {
        self.objects.len() + self.more
    }

    /// Describes how many objects wait, and for what.
    pub fn summary(&self) -> String {
        let Self { approval, objects: _, more: _, until } = self;
        let total = self.total();
        let wait = if total == 1 { "waits" } else { "wait" };
        let until = if until.is_empty() { String::new() } else { format!(" until {until}, or") };
        let total = counted(total, "deletion");
        format!("{total} {wait}{until} for the annotation {APPROVE_DELETION_ANNOTATION}={approval}")
    }
}

/// A directory that was rendered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DirectorySummary {
    /// The path; `.` for the root of the repository.
    pub path: String,
    /// The number of its objects.
    pub objects: usize,
}

impl DirectorySummary {
    fn new(RenderedPath { path, objects, unknown: _ }: &RenderedPath) -> Self {
        Self { path: plain(path, MESSAGE), objects: number(*objects) }
    }
}

/// The result of a commit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CommitSummary {
    /// The commit id.
    pub commit: String,
    /// The reason of the condition Ready, such as Applied.
    pub reason: String,
    /// When the commit last got this result, in UTC; empty if unknown.
    pub time: String,
}

/// A pushed report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReportSummary {
    /// The first digits of the report's commit.
    pub commit: String,
    /// Time of the push, in UTC; empty if unknown.
    pub time: String,
    /// The summary in the report.
    pub summary: String,
}

impl Repository {
    /// Returns true if it makes progress. A failed fetch is retried too, but that is not progress.
    pub fn is_under_way(&self) -> bool {
        self.reconciling && !TRANSIENT.contains(&self.reason.as_str())
    }

    /// Returns the summary of a ConfigRepo.
    pub fn from_config_repo(repo: &ConfigRepo) -> Self {
        let status = repo.status.clone().unwrap_or_default();
        let ready = find_condition(&status.conditions, gitops_conditions::READY);
        let commit =
            |revision: &Option<Revision>| revision.as_ref().map(|r| r.commit.clone()).unwrap_or_default();
        let is_true = |type_| find_condition(&status.conditions, type_).is_some_and(Condition::is_true);
        let seen_at = status.seen.as_ref().and_then(|seen| seen.since.as_ref());
        let history = status.history.iter().map(judged).collect();
        let held_changes = status.held_changes.clone().unwrap_or_default();
        let objects = ObjectList::all(&status);
        let report = status.report.unwrap_or_default();
        Self {
            name: Key::of(repo).to_string(),
            url: repo.spec.url.clone(),
            follows: repo.spec.r#ref.name().to_owned(),
            conditions: status.conditions.iter().map(ConditionSummary::of).collect(),
            seen: commit(&status.seen),
            seen_at: seen_at.map(|at| at.0.to_string()).unwrap_or_default(),
            applied: commit(&status.applied),
            healthy: commit(&status.healthy),
            ready: ready.is_some_and(Condition::is_true),
            ready_since: ready.map(|ready| ready.last_transition_time.0.to_string()).unwrap_or_default(),
            reconciling: is_true(gitops_conditions::RECONCILING) && !is_true(gitops_conditions::STALLED),
            reason: ready.map_or_else(|| "Unknown".into(), |ready| ready.reason.clone()),
            message: ready.map_or_else(
                || "no operator has reconciled it yet".into(),
                |ready| plain(&ready.message, MESSAGE),
            ),
            unanswered: unanswered(repo).unwrap_or_default(),
            suspended: repo.spec.suspend,
            held_deletions: status.held_deletions.map(HeldObjects::from_deletions),
            held_plan: status.held_plan,
            held_changes: ObjectList::from_held_changes(&held_changes),
            held_fields: HeldFields::from_held_changes(&held_changes),
            directories: status.paths.iter().map(DirectorySummary::new).collect(),
            history,
            objects,
            report: self::report(&report),
            report_error: plain(&report.error, MESSAGE),
            reports: report.history.iter().map(pushed).collect(),
            report_url: if report.url.is_empty() { repo.spec.url.clone() } else { report.url },
            report_place: (report.branch, report.path),
        }
    }
}

/// Returns a message if no operator has processed the current spec of a ConfigRepo, but one has processed an
/// earlier one.
pub fn unanswered(repo: &ConfigRepo) -> Option<String> {
    let (seen, present) = (repo.status.as_ref()?.observed_generation?, repo.metadata.generation?);
    // Caches omit the managed fields.
    let writes = repo.metadata.managed_fields.iter().flatten().filter(|entry| entry.subresource.is_none());
    let since = writes.filter_map(|entry| Some(entry.time.as_ref()?.0)).max();
    let since = since.map(|at| format!(", written at {at}")).unwrap_or_default();
    (seen < present).then(|| format!("no operator has processed generation {present} of the spec{since}"))
}

/// Returns the commit of a report and its location.
fn report(report: &ReportStatus) -> String {
    let ReportStatus { branch, path, commit, .. } = report;
    if commit.is_empty() {
        return String::new();
    }
    let directory = if path.is_empty() { String::new() } else { format!(" in {path}") };
    let commit = short_commit(commit);
    plain(&format!("{commit} on {branch}{directory}"), MESSAGE)
}

fn judged(result: &RecentResult) -> CommitSummary {
    let RecentResult { commit, digest: _, reason, since, unknown: _ } = result;
    CommitSummary {
        commit: plain(commit, MESSAGE),
        reason: plain(reason, MESSAGE),
        time: since.as_ref().map(|since| since.0.to_string()).unwrap_or_default(),
    }
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
    fn objects_in_the_status_are_listed_and_counted() {
        let time = "2026-01-02T03:04:05Z";
        let mut deleted: Vec<_> =
            (0..25).map(|n| json!({"object": format!("/ConfigMap/n/m{n}"), "time": time})).collect();
        deleted[7]["time"] = json!("2026-01-02T03:04:06Z");
        let web = json!({"version": "v1", "kind": "Deployment", "namespace": "n", "name": "web"});
        let repo = json!({"metadata": {"name": "r"}, "spec": {"url": "https://git.example.com/f.git"}, "status": {
            "unhealthy": {"digest": "d", "since": time, "total": 2, "objects": [web]},
            "drift": {"corrected": [{"object": "/ConfigMap/n/m", "corrections": 3, "lastTime": time}], "corrections": 0},
            "recreate": [{"uid": "u", "digest": "d"}], "recentDeletions": deleted}});
        let repository = Repository::from_config_repo(&serde_json::from_value(repo).unwrap());
        let reported: Vec<_> = repository
            .objects
            .iter()
            .map(|list| (list.what.as_str(), list.objects.first().map_or("", String::as_str), list.more))
            .collect();
        assert_eq!(
            reported,
            [
                ("2 objects not healthy since 2026-01-02T03:04:05Z", "Deployment n/web", 1),
                (
                    "1 object changed on the hub by others and corrected",
                    "ConfigMap n/m: 3 corrections, last at 2026-01-02T03:04:05Z",
                    0,
                ),
                ("1 object recreated because of an immutable field", "", 1),
                (
                    "25 objects recently deleted without an approval and counted against the budget",
                    "ConfigMap n/m7 at 2026-01-02T03:04:06Z",
                    5,
                ),
            ]
        );
        let nothing = json!({"metadata": {"name": "r"}, "spec": {"url": "https://git.example.com/f.git"}});
        assert_eq!(Repository::from_config_repo(&serde_json::from_value(nothing).unwrap()).objects, []);
    }

    #[test]
    fn the_results_of_commits_match_the_status() {
        let (old, new) = ("1".repeat(40), "2".repeat(40));
        let repo = json!({"metadata": {"name": "r"}, "spec": {"url": "https://git.example.com/f.git"}, "status": {"history": [
            {"commit": new, "reason": "RenderFailed", "since": "2026-01-02T03:04:05Z"},
            {"commit": old, "digest": "d", "reason": "Applied"}]}});
        let repository = Repository::from_config_repo(&serde_json::from_value(repo).unwrap());
        let result = |commit: &str, reason: &str, time: &str| CommitSummary {
            commit: commit.into(),
            reason: reason.into(),
            time: time.into(),
        };
        let newest = result(&new, "RenderFailed", "2026-01-02T03:04:05Z");
        assert_eq!(repository.history, [newest, result(&old, "Applied", "")]);
    }

    #[test]
    fn directories_match_the_status() {
        let paths = json!([{"path": "addons", "objects": 1}, {"path": "clusters/\u{202e}eu", "objects": 12}]);
        let repo = json!({"metadata": {"name": "r"}, "spec": {"url": "https://git.example.com/f.git"}, "status": {"paths": paths}});
        let repository = Repository::from_config_repo(&serde_json::from_value(repo).unwrap());
        let directory = |path: &str, objects| DirectorySummary { path: path.into(), objects };
        assert_eq!(repository.directories, [directory("addons", 1), directory("clusters/eu", 12)]);
    }

    #[test]
    fn the_effects_of_a_held_plan_are_listed_and_counted() {
        let map = json!({"version": "", "kind": "ConfigMap", "namespace": "n", "name": "m\nx"});
        let repo = json!({"metadata": {"name": "r"}, "spec": {"url": "https://git.example.com/f.git"}, "status": {
            "heldPlan": "c0de", "heldChanges": {
                "created": {"total": 12, "objects": [map]}, "deleted": {"total": 1, "objects": [map]}}}});
        let repository = Repository::from_config_repo(&serde_json::from_value(repo).unwrap());
        let list = |what: &str, more| ObjectList {
            what: what.into(),
            objects: vec!["ConfigMap n/m x".into()],
            more,
        };
        let lists = [list("12 objects to create or take over", 11), list("1 object to delete", 0)];
        assert_eq!(repository.held_changes, lists);
    }

    #[test]
    fn the_fields_of_a_held_plan_are_those_of_its_status_and_other_objects_are_counted() {
        let map = json!({"version": "", "kind": "ConfigMap", "namespace": "n", "name": "m"});
        let field = json!({"path": "data.k", "before": "\"1\"", "after": "\"2\u{202e}\""});
        let change = json!({"total": 3, "objects": [map], "fields": [field], "moreFields": 4});
        let repo = json!({"metadata": {"name": "r"}, "spec": {"url": "https://git.example.com/f.git"}, "status": {
            "heldPlan": "c0de", "heldChanges": {"created": {"total": 2}, "deleted": {"total": 7},
                "changed": {"total": 8, "objects": [map], "changes": [change]}}}});
        let repository = Repository::from_config_repo(&serde_json::from_value(repo).unwrap());
        let field = HeldField { path: "data.k".into(), before: "\"1\"".into(), after: "\"2\"".into() };
        let change = HeldChange {
            is_new: false,
            objects: vec!["ConfigMap n/m".into()],
            more: 2,
            fields: vec![field],
            more_fields: 4,
        };
        assert_eq!(repository.held_fields, HeldFields { changes: vec![change], unlisted: 5 + 2 });
        assert_eq!(repository.held_fields.total(), 3);
    }

    #[test]
    fn a_spec_that_no_operator_has_processed_is_reported_with_the_time_of_its_last_write() {
        let entry = |time: &str, subresource: Option<&str>| json!({"time": time, "subresource": subresource});
        let fields =
            json!([entry("2026-02-01T00:00:00Z", Some("status")), entry("2026-01-02T03:04:05Z", None)]);
        for (observed, fields, said) in [
            (json!(2), json!(null), None),
            (json!(null), json!(null), None),
            (json!(1), json!(null), Some("no operator has processed generation 2 of the spec")),
            (
                json!(1),
                fields,
                Some("no operator has processed generation 2 of the spec, written at 2026-01-02T03:04:05Z"),
            ),
        ] {
            let repo = json!({"metadata": {"name": "r", "generation": 2, "managedFields": fields},
                "spec": {"url": "https://git.example.com/f.git"}, "status": {"observedGeneration": observed}});
            let repo: ConfigRepo = serde_json::from_value(repo).unwrap();
            assert_eq!(unanswered(&repo).as_deref(), said);
        }
    }
}
