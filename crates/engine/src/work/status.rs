//! The status of a work: whether its objects are applied and exist, and the values read from them.

use jiff::Timestamp;

use super::feedback::feedback;
use super::manifest::Wanted;
use api::Condition;
use api::condition::ConditionStatus::{False, True, Unknown};
use api::condition::{Observation, find_condition, set_condition};
use api::names::work_conditions::{APPLIED, AVAILABLE, COMPLETE, STATUS_FEEDBACK_SYNCED};
use api::work::v1::{
    ConditionRule, ConditionRuleType, ManifestCondition, ManifestResourceMeta, ManifestWork,
    ManifestWorkStatus,
};
use object::Object;

/// The result of a reconcile for one manifest.
#[derive(Clone, Debug, Default)]
pub struct Seen<'a> {
    /// The newest state of its object; the outer `None` where the object could not be read.
    pub live: Option<Option<&'a Object>>,
    /// The result of the write; `None` where none was needed or possible.
    pub written: Option<Result<(), String>>,
}

/// Whether the present version of a manifest has been applied.
pub fn was_applied(work: &ManifestWork, meta: &ManifestResourceMeta) -> bool {
    let generation = work.metadata.generation;
    let applied = stored(work, meta).and_then(|manifest| find_condition(&manifest.conditions, APPLIED));
    applied.is_some_and(|applied| applied.is_true() && applied.observed_generation == generation)
}

fn stored<'a>(work: &'a ManifestWork, meta: &ManifestResourceMeta) -> Option<&'a ManifestCondition> {
    let manifests = &work.status.as_ref()?.resource_status.manifests;
    let same = |m: &ManifestResourceMeta| {
        (&m.group, &m.kind, &m.namespace, &m.name) == (&meta.group, &meta.kind, &meta.namespace, &meta.name)
    };
    manifests.iter().find(|manifest| same(&manifest.resource_meta))
}

/// The status of a work after a reconcile; `seen` has an entry for each of `wanted`.
pub fn work_status(
    work: &ManifestWork,
    wanted: &[Wanted],
    seen: &[Seen<'_>],
    now: Timestamp,
) -> ManifestWorkStatus {
    let generation = work.metadata.generation.unwrap_or_default();
    let mut status = work.status.clone().unwrap_or_default();
    let manifests =
        wanted.iter().zip(seen).map(|(wanted, seen)| manifest_status(work, wanted, seen, now)).collect();
    status.resource_status.manifests = manifests;
    let conditions = |type_: &str| -> Vec<Option<Condition>> {
        status
            .resource_status
            .manifests
            .iter()
            .map(|m| find_condition(&m.conditions, type_).cloned())
            .collect()
    };
    let applied = conditions(APPLIED);
    let current =
        applied.iter().all(|c| c.as_ref().is_some_and(|c| c.observed_generation == Some(generation)));
    let (available, complete) = (availability(&conditions(AVAILABLE)), completion(&conditions(COMPLETE)));
    if applied.iter().flatten().any(Condition::is_false) {
        let failed = Observation::new(APPLIED, False, "AppliedManifestWorkFailed")
            .message("Failed to apply manifest work");
        set_condition(&mut status.conditions, failed.at(generation), now);
    } else if current {
        let done = Observation::new(APPLIED, True, "AppliedManifestWorkComplete")
            .message("Apply manifest work complete");
        set_condition(&mut status.conditions, done.at(generation), now);
    }
    // Before the manifests are applied, availability would be that of the generation before.
    if current {
        set_condition(&mut status.conditions, available.at(generation), now);
        if let Some(complete) = complete {
            set_condition(&mut status.conditions, complete.at(generation), now);
        }
    }
    status
}

fn manifest_status(
    work: &ManifestWork,
    wanted: &Wanted,
    seen: &Seen<'_>,
    now: Timestamp,
) -> ManifestCondition {
    let generation = work.metadata.generation.unwrap_or_default();
    let mut manifest = stored(work, &wanted.meta).cloned().unwrap_or_default();
    manifest.resource_meta.clone_from(&wanted.meta);
    let applied = match (&seen.written, &seen.live) {
        (Some(Ok(())), _) | (None, Some(_)) => Some(
            Observation::new(APPLIED, True, "AppliedManifestComplete").message("Apply manifest complete"),
        ),
        (Some(Err(error)), _) => Some(
            Observation::new(APPLIED, False, "AppliedManifestFailed")
                .message(format!("Failed to apply manifest: {error}")),
        ),
        (None, None) => None,
    };
    if let Some(applied) = applied {
        restart_on_new_generation(&mut manifest.conditions, APPLIED, generation);
        set_condition(&mut manifest.conditions, applied.at(generation), now);
    }
    let Some(live) = seen.live else { return manifest };
    let exists = match live {
        Some(_) => Observation::new(AVAILABLE, True, "ResourceAvailable").message("Resource is available"),
        None => {
            Observation::new(AVAILABLE, False, "ResourceNotAvailable").message("Resource is not available")
        }
    };
    set_condition(&mut manifest.conditions, exists, now);
    if let Some(live) = live {
        report(&mut manifest, wanted, live, now);
        conclude(&mut manifest, wanted, live, generation, now);
    }
    manifest
}

/// Removes a condition of another generation, so that its transition time starts with this one.
fn restart_on_new_generation(conditions: &mut Vec<Condition>, type_: &str, generation: i64) {
    conditions.retain(|c| c.type_ != type_ || c.observed_generation == Some(generation));
}

fn report(manifest: &mut ManifestCondition, wanted: &Wanted, live: &Object, now: Timestamp) {
    let (values, errors) = feedback(live, &wanted.feedback);
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

/// Sets the conditions of the well-known rules: a Job or Pod that has run to its end is complete.
fn conclude(
    manifest: &mut ManifestCondition,
    wanted: &Wanted,
    live: &Object,
    generation: i64,
    now: Timestamp,
) {
    let well_known = |rule: &&ConditionRule| {
        rule.r#type == ConditionRuleType::WellKnownConditions && rule.condition == COMPLETE
    };
    for rule in wanted.conditions.iter().filter(well_known) {
        let Some((complete, message)) = completed(live) else { continue };
        let message = if rule.message.is_empty() { message } else { rule.message.clone() };
        restart_on_new_generation(&mut manifest.conditions, COMPLETE, generation);
        let observation = Observation::new(COMPLETE, complete.into(), "ConditionRuleEvaluated")
            .message(message)
            .at(generation);
        set_condition(&mut manifest.conditions, observation, now);
    }
}

fn completed(live: &Object) -> Option<(bool, String)> {
    match (live.api_version(), live.kind()) {
        ("batch/v1", "Job") => {
            let conditions = live
                .at(&["status", "conditions"])
                .and_then(serde_json::Value::as_array)
                .into_iter()
                .flatten();
            let text = |c: &serde_json::Value, field: &str| {
                c.get(field).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
            };
            let mut finished = conditions.filter(|c| {
                matches!(text(c, "type").as_str(), "Complete" | "Failed") && text(c, "status") == "True"
            });
            let is = finished.next().is_some();
            Some((is, if is { "Job is finished".into() } else { "Job is not finished".into() }))
        }
        ("v1", "Pod") => {
            let phase = live.at(&["status", "phase"]).and_then(serde_json::Value::as_str).unwrap_or_default();
            Some((matches!(phase, "Succeeded" | "Failed"), format!("Pod is in phase {phase}")))
        }
        _ => None,
    }
}

fn availability(manifests: &[Option<Condition>]) -> Observation {
    let total = manifests.len();
    let count = |is: fn(&Condition) -> bool| manifests.iter().flatten().filter(|c| is(c)).count();
    let (missing, present) = (count(Condition::is_false), count(Condition::is_true));
    let unknown = total - missing - present;
    let not_sure =
        |message: String| Observation::new(AVAILABLE, Unknown, "ResourcesStatusUnknown").message(message);
    match () {
        () if missing > 0 => {
            let message = format!("{missing} of {total} resources are not available");
            Observation::new(AVAILABLE, False, "ResourcesNotAvailable").message(message)
        }
        () if unknown > 0 => not_sure(format!("{unknown} of {total} resources have unknown status")),
        () if present == 0 => not_sure("cannot get any available resource ".into()),
        () => Observation::new(AVAILABLE, True, "ResourcesAvailable").message("All resources are available"),
    }
}

fn completion(manifests: &[Option<Condition>]) -> Option<Observation> {
    let rules: Vec<&Condition> = manifests.iter().flatten().collect();
    let message = match rules.as_slice() {
        [] => return None,
        [only] => only.message.clone(),
        several => format!("Aggregated from {} manifest conditions", several.len()),
    };
    let status = match () {
        () if rules.iter().any(|c| c.is_false()) => False,
        () if rules.iter().any(|c| !c.is_true()) => Unknown,
        () => True,
    };
    Some(Observation::new(COMPLETE, status, "ConditionRulesAggregated").message(message))
}
