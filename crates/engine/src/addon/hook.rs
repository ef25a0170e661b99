//! Pre-delete hooks: the jobs of an add-on that run on its cluster before it is deleted.
//!
//! Hooks are marked manifests of kind Job or Pod. They are in a separate work, which exists from the deletion of
//! the add-on until the jobs are complete.

use std::fmt::{Display, Formatter, Write as _};

use jiff::{SignedDuration, Timestamp};

use super::hosting::{Place, Target};
use super::works::{is_as_wanted, is_hook};
use crate::resource::identifier;
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::condition::ConditionStatus::False;
use api::condition::{Condition, Observation, find_condition, set_condition};
use api::names::addon_conditions::HOOK_MANIFEST_COMPLETED;
use api::names::work_conditions;
use api::work::v1::{
    FeedbackRule, FeedbackType, JsonPath, ManifestCondition, ManifestConfigOption, ManifestWork,
    ManifestWorkSpec, ManifestsTemplate, ResourceIdentifier,
};
use object::duration::later;
use object::{Key, Object};

/// The time limit of the jobs. An event reports jobs that take longer.
const HOOK_TIMEOUT: SignedDuration = SignedDuration::from_mins(10);
/// The feedback value with the message of a failed Job, and its path.
const JOB_FAILED: (&str, &str) = ("JobFailed", r#".status.conditions[?(@.type=="Failed")].message"#);

/// Returns the work with the jobs among the manifests for a cluster; `None` if there are none. They run as the
/// executor of `author`.
pub(super) fn build(
    target: &Target<'_>,
    manifests: &[Object],
    author: &ManifestWorkSpec,
) -> Option<ManifestWork> {
    let hooks: Vec<&Object> = manifests.iter().filter(|manifest| is_hook(manifest)).collect();
    if hooks.is_empty() {
        return None;
    }
    let metadata = target.metadata(target.place.hook_name(&Key::of(target.addon)));
    let config = |hook: &&Object| ManifestConfigOption {
        resource_identifier: identifier(hook),
        feedback_rules: feedback_rules(hook),
        ..ManifestConfigOption::default()
    };
    let spec = ManifestWorkSpec {
        manifest_configs: hooks.iter().map(config).collect(),
        workload: ManifestsTemplate {
            manifests: hooks.iter().map(|hook| hook.0.clone()).collect(),
            ..ManifestsTemplate::default()
        },
        executor: author.executor.clone(),
        ..ManifestWorkSpec::default()
    };
    Some(ManifestWork { metadata, spec, ..ManifestWork::default() })
}

/// Returns the feedback rules: OCM's, and for a Job also its failure message, which OCM's rules omit.
fn feedback_rules(hook: &Object) -> Vec<FeedbackRule> {
    let (name, path) = JOB_FAILED;
    let path = JsonPath { name: name.into(), path: path.into(), ..JsonPath::default() };
    let failed =
        FeedbackRule { r#type: FeedbackType::JsonPaths, json_paths: vec![path], ..FeedbackRule::default() };
    let is_job = hook.kind() == "Job";
    std::iter::once(FeedbackRule::default()).chain(is_job.then_some(failed)).collect()
}

/// The wait for the jobs of an add-on that is being deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookWait {
    /// The message for people, which says how to skip the wait.
    message: String,
    /// True if a job failed, so that the wait cannot end without help.
    pub(super) has_failed: bool,
    /// True if the work with the jobs has yet to be written.
    pub(super) is_unwritten: bool,
}

impl HookWait {
    /// Returns the wait for the jobs in one part of an add-on. `reason` is the reason for the wait.
    pub(super) fn new(addon: &Key, place: Place, reason: &str) -> Self {
        let (work, finalizer) = (place.hook_name(addon), place.hook_finalizer());
        let message = format!(
            "hook manifestWork {work} is not completed: {reason}. To delete the add-on without it, remove the finalizer {finalizer}."
        );
        Self { message, has_failed: false, is_unwritten: false }
    }

    /// Returns the report on the wait of an add-on that is being deleted. An event is sent once after the time
    /// limit, or immediately when a job has failed, because a failed job never completes.
    pub fn report(&self, addon: &ManagedClusterAddOn, now: Timestamp) -> WaitReport {
        let deleted = addon.metadata.deletion_timestamp.as_ref().map_or(now, |deleted| deleted.0);
        let until = later(deleted, HOOK_TIMEOUT);
        let is_late = until <= now && !self.has_failed;
        let mut message = self.message.clone();
        if is_late {
            let _ = write!(message, " It is taking longer than {} minutes.", HOOK_TIMEOUT.as_mins());
        }
        let reason = match (self.has_failed, is_late) {
            (true, _) => Some("HookFailed"),
            (false, true) => Some("HookNotCompleted"),
            (false, false) => None,
        };
        let wake = reason.is_none().then_some(until);
        let mut reported = addon.clone();
        let open = Observation::new(HOOK_MANIFEST_COMPLETED, False, "HookManifestIsNotCompleted");
        set_condition(&mut reported.status.get_or_insert_default().conditions, open.message(&*message), now);
        WaitReport { reported, warning: reason.map(|reason| (reason, message)), wake }
    }
}

/// The status and the warning to report while a deletion waits for jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitReport {
    /// The add-on with the condition. The reason and the prefix of the message are OCM's.
    pub reported: ManagedClusterAddOn,
    /// The reason and message of the warning event, if one is due.
    pub warning: Option<(&'static str, String)>,
    /// The end of the time limit, if no warning is due yet.
    pub wake: Option<Timestamp>,
}

/// Returns the wait for the jobs in one part of an add-on; `None` if they are complete. `live` is their work on
/// the hub.
pub(super) fn wait(
    addon: &Key,
    place: Place,
    wanted: &ManifestWork,
    live: Option<&ManifestWork>,
) -> Option<HookWait> {
    let Some(live) = live.filter(|live| is_as_wanted(live, wanted)) else {
        let wait = HookWait::new(addon, place, "it has just been written");
        return Some(HookWait { is_unwritten: true, ..wait });
    };
    let open = unfinished(live);
    let first = open.first()?;
    let wait = HookWait::new(addon, place, &first.to_string());
    Some(HookWait { has_failed: first.failure.is_some(), ..wait })
}

/// A job that is not known to be complete.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OpenJob {
    /// The resource, namespace and name of the job.
    name: String,
    /// The failure that the cluster reports, if the job failed. A failed job never completes.
    failure: Option<String>,
}

impl Display for OpenJob {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match &self.failure {
            Some(reason) => write!(f, "{} failed: {reason}", self.name),
            None => write!(f, "{} has not completed", self.name),
        }
    }
}

/// Returns the incomplete jobs of a work, failed jobs first.
fn unfinished(work: &ManifestWork) -> Vec<OpenJob> {
    let status = work.status.as_ref();
    let available = status.and_then(|status| find_condition(&status.conditions, work_conditions::AVAILABLE));
    let is_current = |condition: &&Condition| condition.observed_generation == work.metadata.generation;
    let is_available = available.filter(is_current).is_some_and(Condition::is_true);
    let reported = status.map(|status| status.resource_status.manifests.as_slice()).unwrap_or_default();
    let reported = if is_available { reported } else { &[] };
    let jobs = work.spec.manifest_configs.iter().map(|config| &config.resource_identifier);
    let open =
        jobs.filter(|job| !reported.iter().any(|manifest| is_complete(job, manifest))).map(|job| OpenJob {
            name: format!("{} {}/{}", job.resource, job.namespace, job.name),
            failure: reported.iter().find_map(|manifest| failure(job, manifest)),
        });
    let mut open: Vec<OpenJob> = open.collect();
    open.sort_by_key(|job| job.failure.is_none());
    open
}

/// Returns the string value of a job's feedback.
fn value<'a>(job: &ResourceIdentifier, manifest: &'a ManifestCondition, name: &str) -> Option<&'a str> {
    let meta = &manifest.resource_meta;
    let is_it = (&meta.group, &meta.resource, &meta.namespace, &meta.name)
        == (&job.group, &job.resource, &job.namespace, &job.name);
    let mut values = manifest.status_feedback.values.iter().filter(|value| is_it && value.name == name);
    values.next()?.field_value.string.as_deref()
}

fn is_complete(job: &ResourceIdentifier, manifest: &ManifestCondition) -> bool {
    let (name, want) =
        if job.resource == "pods" { ("PodPhase", "Succeeded") } else { ("JobComplete", "True") };
    value(job, manifest, name) == Some(want)
}

fn failure(job: &ResourceIdentifier, manifest: &ManifestCondition) -> Option<String> {
    if job.resource == "pods" {
        return (value(job, manifest, "PodPhase") == Some("Failed"))
            .then(|| "its phase is Failed".to_owned());
    }
    value(job, manifest, JOB_FAILED.0).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::addon::v1alpha1::ManagedClusterAddOn;
    use api::names::ADDON_PRE_DELETE;
    use serde_json::{Value, json};

    fn manifest(kind: &str, metadata: Value) -> Object {
        Object::from_value(json!({"apiVersion": "batch/v1", "kind": kind, "metadata": metadata})).unwrap()
    }

    fn work() -> ManifestWork {
        let hook = json!({"name": "clean", "namespace": "ns", "annotations": {ADDON_PRE_DELETE: ""}});
        let addon: ManagedClusterAddOn = serde_json::from_value(
            json!({"metadata": {"name": "a", "namespace": "c1", "uid": "u"}, "spec": {}}),
        )
        .unwrap();
        let manifests = [manifest("Job", hook), manifest("Job", json!({"name": "other"}))];
        build(&Target::managed(&addon, &[]), &manifests, &ManifestWorkSpec::default()).unwrap()
    }

    #[test]
    fn only_marked_jobs_and_pods_run_before_the_deletion() {
        let hooks = work().spec.workload.manifests;
        assert_eq!(hooks.iter().map(|hook| &hook["metadata"]["name"]).collect::<Vec<_>>(), ["clean"]);
        let label = json!({"name": "x", "labels": {ADDON_PRE_DELETE: ""}});
        assert!(is_hook(&manifest("Pod", label.clone())) && !is_hook(&manifest("ConfigMap", label)));
    }

    #[test]
    fn a_wait_says_how_far_the_jobs_are_and_how_to_skip_them() {
        let addon = Key::namespaced("c1", "a");
        let waits = |live: Option<&ManifestWork>| wait(&addon, Place::Managed, &work(), live).unwrap();
        assert!(waits(None).is_unwritten);
        let open = waits(Some(&work()));
        assert!(!open.is_unwritten && !open.has_failed);
        assert_eq!(
            open.message,
            "hook manifestWork addon-a-pre-delete is not completed: jobs ns/clean has not completed. \
             To delete the add-on without it, remove the finalizer addon.open-cluster-management.io/addon-pre-delete."
        );
    }

    #[test]
    fn a_job_is_complete_when_its_cluster_reports_so_for_this_work() {
        let mut work = work();
        work.metadata.generation = Some(2);
        assert_eq!(unfinished(&work)[0].to_string(), "jobs ns/clean has not completed");
        let mut open_jobs = |generation: i64, (name, complete): (&str, &str)| {
            let value = json!({"name": name, "fieldValue": {"type": "String", "string": complete}});
            let meta = json!({"ordinal": 0, "group": "batch", "resource": "jobs", "name": "clean", "namespace": "ns"});
            let available = json!({
                "type": "Available", "status": "True", "reason": "R", "message": "", "observedGeneration": generation,
                "lastTransitionTime": "2026-01-02T03:04:05Z",
            });
            work.status = Some(
                serde_json::from_value(json!({
                    "conditions": [available],
                    "resourceStatus": {"manifests": [{"resourceMeta": meta, "conditions": [], "statusFeedback": {"values": [value]}}]},
                }))
                .unwrap(),
            );
            unfinished(&work).iter().map(OpenJob::to_string).collect::<Vec<_>>()
        };
        let open = ["jobs ns/clean has not completed"];
        assert_eq!(open_jobs(2, ("JobComplete", "False")), open);
        assert_eq!(open_jobs(1, ("JobComplete", "True")), open);
        assert!(open_jobs(2, ("JobComplete", "True")).is_empty());
        assert_eq!(open_jobs(2, ("JobFailed", "limit reached")), ["jobs ns/clean failed: limit reached"]);
    }
}
