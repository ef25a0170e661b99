//! The status of a work: whether its objects are applied and exist, and their feedback values.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::conditions::{self, RULE};
use super::decision::ApplyRefusal;
use super::feedback::feedback;
use super::manifest::{Served, Wanted};
use super::pods::PodTrouble;
use api::Condition;
use api::condition::ConditionStatus::{False, True, Unknown};
use api::condition::{Observation, find_condition, set_condition};
use api::names::work_conditions::{APPLIED, AVAILABLE, COMPLETE, PODS_READY, STATUS_FEEDBACK_SYNCED};
use api::names::work_reasons;
use api::work::v1::{ManifestCondition, ManifestResourceMeta, ManifestWork, ManifestWorkStatus};
use object::Object;

/// The result of reconciling one manifest.
#[derive(Clone, Debug)]
pub struct ManifestResult<'a> {
    /// The latest state of its object.
    pub live: Live<'a>,
    /// The outcome of its write.
    pub attempt: Attempt,
    /// The information from the pods of its object.
    pub pods: Pods,
}

/// The information from the pods of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pods {
    /// The workload is healthy, or none of its pods is in trouble.
    Fine,
    /// The pods are in trouble.
    Trouble(PodTrouble),
    /// The pods have not been read or cannot be read.
    Unread,
}

/// The latest state of an object.
#[derive(Clone, Debug)]
pub enum Live<'a> {
    /// The object as read; `None` if it does not exist.
    Read(Option<&'a Object>),
    /// The object has not been read yet, or must not be reported.
    Unread,
    /// The cluster denies reading the object.
    Refused(String),
}

/// The outcome of writing a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The write succeeded, or none was needed.
    Done,
    /// The write failed, or was not allowed.
    Failed(ApplyRefusal),
    /// It is applied, but had to be corrected, and the named work has other content for the same object.
    Contested(String),
    /// The write was not attempted, so the status does not change.
    None,
}

/// Returns true if the current version of a manifest has been applied.
pub fn was_applied(work: &ManifestWork, meta: &ManifestResourceMeta) -> bool {
    let generation = work.metadata.generation;
    let applied = stored(work, meta).and_then(|manifest| find_condition(&manifest.conditions, APPLIED));
    applied.is_some_and(|applied| applied.is_true() && applied.observed_generation == generation)
}

/// Returns true if another work was found to change the object of a manifest.
pub fn is_contested(work: &ManifestWork, meta: &ManifestResourceMeta) -> bool {
    let applied = stored(work, meta).and_then(|manifest| find_condition(&manifest.conditions, APPLIED));
    applied.is_some_and(|applied| applied.reason == work_reasons::CONTESTED)
}

/// Returns true if a manifest is complete. It is then no longer applied.
pub fn is_complete(work: &ManifestWork, meta: &ManifestResourceMeta) -> bool {
    let complete = stored(work, meta).and_then(|manifest| find_condition(&manifest.conditions, COMPLETE));
    complete.is_some_and(|c| c.is_true() && c.observed_generation == work.metadata.generation)
}

fn stored<'a>(work: &'a ManifestWork, meta: &ManifestResourceMeta) -> Option<&'a ManifestCondition> {
    let manifests = &work.status.as_ref()?.resource_status.manifests;
    let same = |m: &ManifestResourceMeta| {
        (&m.group, &m.kind, &m.namespace, &m.name) == (&meta.group, &meta.kind, &meta.namespace, &meta.name)
    };
    let found = |manifest: &&ManifestCondition| same(&manifest.resource_meta);
    let in_place = manifests.iter().find(|m| found(m) && m.resource_meta.ordinal == meta.ordinal);
    in_place.or_else(|| manifests.iter().find(found))
}

/// Returns the status of a work after a reconciliation; `seen` has one entry for each of `wanted`.
pub fn work_status(
    work: &ManifestWork,
    wanted: &[Wanted],
    seen: &[ManifestResult<'_>],
    now: Timestamp,
) -> ManifestWorkStatus {
    let generation = work.metadata.generation.unwrap_or_default();
    let mut status = work.status.clone().unwrap_or_default();
    status.resource_status.manifests =
        wanted.iter().zip(seen).map(|(wanted, seen)| manifest_status(work, wanted, seen, now)).collect();
    let manifests: Vec<&[Condition]> =
        status.resource_status.manifests.iter().map(|manifest| manifest.conditions.as_slice()).collect();
    let of = |type_: &str| -> Vec<Option<&Condition>> {
        manifests.iter().map(|conditions| find_condition(conditions, type_)).collect()
    };
    let applied = of(APPLIED);
    let current = applied.iter().all(|c| c.is_some_and(|c| c.observed_generation == Some(generation)));
    let mut observed = Vec::new();
    if applied.iter().flatten().any(|c| c.is_false()) {
        let failed = Observation::new(APPLIED, False, "AppliedManifestWorkFailed");
        observed.push(failed.message("Failed to apply manifest work"));
    } else if current {
        let done = Observation::new(APPLIED, True, "AppliedManifestWorkComplete");
        observed.push(done.message("Apply manifest work complete"));
    }
    // Before the manifests are applied, availability would describe the previous generation.
    if current {
        observed.push(availability(&of(AVAILABLE)));
        let rules = wanted.iter().flat_map(|wanted| &wanted.conditions);
        let types: BTreeSet<&str> = rules.map(|rule| rule.condition.as_str()).collect();
        observed.extend(types.iter().filter_map(|type_| conditions::aggregate(type_, &manifests)));
    }
    drop_old_rules(&mut status.conditions, generation);
    for observation in observed {
        set_condition(&mut status.conditions, observation.at(generation), now);
    }
    status
}

/// Removes rule conditions of other generations.
fn drop_old_rules(conditions: &mut Vec<Condition>, generation: i64) {
    conditions.retain(|c| !c.reason.starts_with(RULE) || c.observed_generation == Some(generation));
}

fn manifest_status(
    work: &ManifestWork,
    wanted: &Wanted,
    seen: &ManifestResult<'_>,
    now: Timestamp,
) -> ManifestCondition {
    let generation = work.metadata.generation.unwrap_or_default();
    let mut manifest = stored(work, &wanted.meta).cloned().unwrap_or_default();
    manifest.resource_meta.clone_from(&wanted.meta);
    let failed =
        |reason: &str, message: String| Some(Observation::new(APPLIED, False, reason).message(message));
    let applied = match &seen.attempt {
        Attempt::Done => Some(
            Observation::new(APPLIED, True, "AppliedManifestComplete").message("Apply manifest complete"),
        ),
        Attempt::Contested(other) => {
            let message = format!(
                "the ManifestWork {other} has other content for this object, so each may undo the changes of the other"
            );
            Some(Observation::new(APPLIED, True, work_reasons::CONTESTED).message(message))
        }
        Attempt::Failed(ApplyRefusal::Rejected(error)) => {
            failed(work_reasons::REJECTED, format!("Failed to apply manifest: {error}"))
        }
        Attempt::Failed(ApplyRefusal::Failed(error)) => {
            failed(work_reasons::FAILED, format!("Failed to apply manifest: {error}"))
        }
        Attempt::Failed(ApplyRefusal::IgnoredFields(error)) => {
            failed(work_reasons::IGNORED_FIELDS, format!("Failed to process ignoreFields: {error}"))
        }
        Attempt::None => None,
    };
    if let Some(applied) = applied {
        restart_on_new_generation(&mut manifest.conditions, APPLIED, generation);
        set_condition(&mut manifest.conditions, applied.at(generation), now);
    }
    drop_old_rules(&mut manifest.conditions, generation);
    if let Some(available) = available(wanted, &seen.live) {
        set_condition(&mut manifest.conditions, available, now);
    }
    if let Live::Read(Some(live)) = seen.live {
        report(&mut manifest, wanted, live, now);
        // A rule evaluates the writes of this generation, not an earlier state.
        let judges = matches!(seen.attempt, Attempt::Done | Attempt::Contested(_));
        for rule in wanted.conditions.iter().filter(|_| judges) {
            let Some(observation) = conditions::evaluate(rule, live) else { continue };
            restart_on_new_generation(&mut manifest.conditions, &rule.condition, generation);
            set_condition(&mut manifest.conditions, observation.at(generation), now);
        }
    }
    report_pods(&mut manifest.conditions, &seen.pods, generation, now);
    manifest
}

/// Sets the condition for the pods of a workload while they are in trouble, and removes it afterward.
pub(super) fn report_pods(conditions: &mut Vec<Condition>, pods: &Pods, generation: i64, now: Timestamp) {
    restart_on_new_generation(conditions, PODS_READY, generation);
    match pods {
        Pods::Unread => {}
        Pods::Fine => conditions.retain(|condition| condition.type_ != PODS_READY),
        Pods::Trouble(trouble) => {
            let before =
                find_condition(conditions, PODS_READY).filter(|condition| condition.reason == trouble.reason);
            let message =
                trouble.message(before.map(|condition| condition.message.as_str()).unwrap_or_default());
            let observed = Observation::new(PODS_READY, False, &trouble.reason).message(message);
            set_condition(conditions, observed.at(generation), now);
        }
    }
}

fn available(wanted: &Wanted, live: &Live<'_>) -> Option<Observation> {
    let unknown = |reason| Observation::new(AVAILABLE, Unknown, reason);
    Some(match live {
        _ if wanted.served == Served::Not || wanted.meta.name.is_empty() => {
            unknown("IncompleteResourceMeta").message("Resource meta is incomplete")
        }
        Live::Read(Some(_)) => {
            Observation::new(AVAILABLE, True, "ResourceAvailable").message("Resource is available")
        }
        Live::Read(None) => {
            Observation::new(AVAILABLE, False, "ResourceNotAvailable").message("Resource is not available")
        }
        Live::Refused(message) => {
            unknown("FetchingResourceFailed").message(format!("Failed to fetch resource: {message}"))
        }
        Live::Unread => return None,
    })
}

/// Removes a condition of another generation, so that its transition time restarts.
fn restart_on_new_generation(conditions: &mut Vec<Condition>, type_: &str, generation: i64) {
    conditions.retain(|c| c.type_ != type_ || c.observed_generation == Some(generation));
}

fn report(manifest: &mut ManifestCondition, wanted: &Wanted, live: &Object, now: Timestamp) {
    let (values, errors) = feedback(live, &wanted.feedback, wanted.steps);
    let changed = manifest.status_feedback.values != values;
    manifest.status_feedback.values = values;
    let synced = if wanted.feedback.is_empty() {
        Observation::new(STATUS_FEEDBACK_SYNCED, True, "NoStatusFeedbackSynced")
    } else if errors.is_empty() {
        Observation::new(STATUS_FEEDBACK_SYNCED, True, "StatusFeedbackSynced")
    } else {
        let message = format!("Sync status feedback failed with error {}", errors.join("; "));
        Observation::new(STATUS_FEEDBACK_SYNCED, False, "StatusFeedbackSyncFailed").message(message)
    };
    if changed {
        manifest.conditions.retain(|c| c.type_ != STATUS_FEEDBACK_SYNCED);
    }
    set_condition(&mut manifest.conditions, synced, now);
}

fn availability(manifests: &[Option<&Condition>]) -> Observation {
    let total = manifests.len();
    let count = |is: fn(&Condition) -> bool| manifests.iter().flatten().filter(|c| is(c)).count();
    let (missing, present) = (count(Condition::is_false), count(Condition::is_true));
    let unknown = total - missing - present;
    let not_sure =
        |message: String| Observation::new(AVAILABLE, Unknown, "ResourcesStatusUnknown").message(message);
    if missing > 0 {
        let message = format!("{missing} of {total} resources are not available");
        Observation::new(AVAILABLE, False, "ResourcesNotAvailable").message(message)
    } else if unknown > 0 {
        not_sure(format!("{unknown} of {total} resources have unknown status"))
    } else if present == 0 {
        not_sure("cannot get any available resource ".into())
    } else {
        Observation::new(AVAILABLE, True, "ResourcesAvailable").message("All resources are available")
    }
}
