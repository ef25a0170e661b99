//! The health of an add-on on its cluster, judged from the status of its works.

use std::collections::BTreeMap;

use super::config::{Config, address, annotation};
use super::hosting::Place;
use super::{rules, works};
use api::Condition;
use api::condition::ConditionStatus::{False, True, Unknown};
use api::condition::{Observation, find_condition};
use api::names::addon_conditions::{AVAILABLE, HOSTING_MANIFEST_APPLIED, MANIFEST_APPLIED};
use api::names::{CONFIG_SPEC_HASH_ANNOTATION, work_conditions};
use api::work::v1::{FieldValue, ManifestCondition, ManifestWork};
use object::Object;

/// The state of the works of an add-on, compared with the configurations that are assigned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorksStatus {
    /// There are no works.
    NoWorks,
    /// At least one was made from other configurations.
    OtherConfig,
    /// The agent has not reported about these works or their workloads; the text says about which.
    Unreported(String),
    /// The agent has not applied every work, or not every object exists; the text says which and why.
    NotReady(String),
    /// The agent could not apply an object; the text is the agent's.
    Refused(String),
    /// All objects exist, but a workload does not run this configuration yet, or a rule of the template says
    /// that a work is not done; the text says which and why.
    NotHealthy(String),
    /// Every workload is healthy with exactly these configurations, and every rule of the template holds.
    Done,
}

/// Judges works by the configurations that they must be made from.
///
/// Each fact has a fence: conditions count for the current generation of the work, feedback for the address
/// of the configurations. Without `needs_health` it is enough that the objects exist, as in OCM. See
/// docs/hazards.md#applied-is-not-healthy.
pub fn works_status(works: &[&ManifestWork], configs: &[Config], needs_health: bool) -> WorksStatus {
    if works.is_empty() {
        return WorksStatus::NoWorks;
    }
    let hashes = annotation(configs);
    let made_from = |work: &ManifestWork| {
        work.metadata.annotations.as_ref().and_then(|a| a.get(CONFIG_SPEC_HASH_ANNOTATION)).cloned()
    };
    if works.iter().any(|work| made_from(work) != hashes)
        || configs.iter().any(|config| config.hash.is_empty())
    {
        return WorksStatus::OtherConfig;
    }
    if let Some(refusal) = works.iter().find_map(|work| refusal(work)) {
        return WorksStatus::Refused(refusal);
    }
    if let Some(why) = works.iter().find_map(|work| not_ready(work)) {
        return why;
    }
    if !needs_health {
        return WorksStatus::Done;
    }
    let (address, workloads) = (address(configs), workloads(works).collect::<Vec<_>>());
    if let Some(silent) = workloads.iter().find(|workload| !workload.is_about(&address)) {
        let ProbedWorkload { resource, name, .. } = silent;
        let why = format!("{resource} {name} has not reported about this configuration");
        return WorksStatus::Unreported(why);
    }
    let unhealthy = workloads.iter().find_map(unhealthy);
    let unfinished = || works.iter().find_map(|work| rules::unfinished(work));
    unhealthy.or_else(unfinished).map_or(WorksStatus::Done, WorksStatus::NotHealthy)
}

fn current<'a>(work: &'a ManifestWork, type_: &str) -> Option<&'a Condition> {
    let condition = find_condition(&work.status.as_ref()?.conditions, type_)?;
    (condition.observed_generation == work.metadata.generation).then_some(condition)
}

/// Returns why objects of a work are missing: the agent names one, or has not reported about this generation.
fn not_ready(work: &ManifestWork) -> Option<WorksStatus> {
    let name = work.metadata.name.as_deref().unwrap_or_default();
    for type_ in [work_conditions::APPLIED, work_conditions::AVAILABLE] {
        match current(work, type_) {
            None => {
                let why = format!("the agent has not reported {type_} for manifestWork {name}");
                return Some(WorksStatus::Unreported(why));
            }
            Some(condition) if !condition.is_true() => {
                let manifests = work.status.iter().flat_map(|status| &status.resource_status.manifests);
                let conditions = manifests.filter_map(|m| Some((m, find_condition(&m.conditions, type_)?)));
                let first = conditions.into_iter().find(|(_, condition)| !condition.is_true());
                let (object, condition) = first.map_or_else(
                    || (format!("manifestWork {name}"), condition),
                    |(m, condition)| {
                        (format!("{} {}", m.resource_meta.kind, m.resource_meta.name), condition)
                    },
                );
                let why = format!("{object} is not {type_}: {}", condition.message);
                return Some(WorksStatus::NotReady(why));
            }
            Some(_) => {}
        }
    }
    None
}

fn refusal(work: &ManifestWork) -> Option<String> {
    let applied = current(work, work_conditions::APPLIED).filter(|condition| condition.is_false())?;
    let manifests = &work.status.as_ref()?.resource_status.manifests;
    let failed =
        manifests.iter().filter_map(|m| Some((m, find_condition(&m.conditions, work_conditions::APPLIED)?)));
    let first = failed.into_iter().find(|(_, condition)| condition.is_false());
    Some(first.map_or_else(
        || match applied.message.as_str() {
            "" => "the agent cannot apply the work".into(),
            message => message.to_owned(),
        },
        |(m, c)| format!("{} {}: {}", m.resource_meta.kind, m.resource_meta.name, c.message),
    ))
}

/// A Deployment or DaemonSet of a work, with the feedback about it.
struct ProbedWorkload<'a> {
    resource: String,
    name: String,
    wanted_replicas: i64,
    is_daemon_set: bool,
    values: BTreeMap<&'a str, &'a FieldValue>,
}

impl ProbedWorkload<'_> {
    fn number(&self, name: &str) -> Option<i64> {
        self.values.get(name)?.integer
    }

    fn is_about(&self, address: &str) -> bool {
        self.values.get("ConfigAddress").and_then(|value| value.string.as_deref()) == Some(address)
    }
}

fn workloads<'a>(works: &'a [&ManifestWork]) -> impl Iterator<Item = ProbedWorkload<'a>> {
    works.iter().flat_map(|work| {
        let reported =
            work.status.iter().flat_map(|status| &status.resource_status.manifests).collect::<Vec<_>>();
        let manifests = work
            .spec
            .workload
            .manifests
            .iter()
            .map(|manifest| Object(manifest.clone()))
            .filter(works::is_workload);
        manifests.map(move |manifest| workload(&manifest, &reported)).collect::<Vec<_>>()
    })
}

fn workload<'a>(manifest: &Object, reported: &[&'a ManifestCondition]) -> ProbedWorkload<'a> {
    let same = |m: &&&ManifestCondition| {
        let meta = &m.resource_meta;
        (meta.kind.as_str(), meta.namespace.as_str(), meta.name.as_str())
            == (manifest.kind(), manifest.namespace(), manifest.name())
    };
    let values = reported.iter().find(same).into_iter().flat_map(|m| &m.status_feedback.values);
    ProbedWorkload {
        resource: if manifest.kind() == "DaemonSet" { "daemonsets".into() } else { "deployments".into() },
        name: format!("{}/{}", manifest.namespace(), manifest.name()),
        wanted_replicas: manifest.at(&["spec", "replicas"]).and_then(serde_json::Value::as_i64).unwrap_or(1),
        is_daemon_set: manifest.kind() == "DaemonSet",
        values: values.map(|value| (value.name.as_str(), &value.field_value)).collect(),
    }
}

/// Returns why a workload does not run the configurations that its feedback is about yet.
fn unhealthy(workload: &ProbedWorkload<'_>) -> Option<String> {
    let ProbedWorkload { resource, name, wanted_replicas, is_daemon_set, values: _ } = workload;
    let (generation, observed) = (workload.number("Generation"), workload.number("ObservedGeneration"));
    if observed < generation {
        return Some(format!("the controller of {resource} {name} has not observed its present generation"));
    }
    let (wanted, updated, ready) = if *is_daemon_set {
        let wanted = workload.number("DesiredNumberScheduled")?;
        (wanted, workload.number("UpdatedNumberScheduled"), workload.number("NumberReady"))
    } else {
        (*wanted_replicas, workload.number("UpdatedReplicas"), workload.number("AvailableReplicas"))
    };
    let all = if *is_daemon_set { wanted } else { workload.number("Replicas").unwrap_or(wanted) };
    let (updated, ready) = (updated.unwrap_or_default(), ready.unwrap_or_default());
    if updated < wanted {
        Some(format!("{updated} of {wanted} replicas of {resource} {name} are of this configuration"))
    } else if all > wanted {
        Some(format!("{resource} {name} has {} old replicas left", all - wanted))
    } else if ready < wanted {
        Some(format!("{ready} of {wanted} replicas of {resource} {name} are available"))
    } else {
        None
    }
}

/// Returns the availability of the add-on, in OCM's words and by OCM's rules: one ready replica is enough.
pub fn availability(addon: &str, works: &[&ManifestWork]) -> Observation {
    let unknown = |reason: &str, message: &str| Observation::new(AVAILABLE, Unknown, reason).message(message);
    if works.is_empty() {
        return unknown("WorkNotFound", "Addon manifestWork is not found");
    }
    for work in works {
        let available = work
            .status
            .as_ref()
            .and_then(|status| find_condition(&status.conditions, work_conditions::AVAILABLE));
        match available {
            None => return unknown("WorkNotApplied", "Addon manifestWork is not applied yet"),
            Some(condition) if condition.is_false() => {
                return Observation::new(AVAILABLE, False, "WorkNotApplied")
                    .message(condition.message.clone());
            }
            Some(_) => {}
        }
    }
    let probed: Vec<ProbedWorkload<'_>> =
        workloads(works).filter(|w| w.is_daemon_set || w.wanted_replicas != 0).collect();
    if !probed.is_empty() && probed.iter().all(|workload| workload.values.is_empty()) {
        return unknown("NoProbeResult", "Probe results are not returned");
    }
    let failed = probed.iter().filter(|workload| !workload.values.is_empty()).find_map(probe);
    match failed {
        Some(error) => Observation::new(AVAILABLE, False, "ProbeUnavailable")
            .message(format!("Probe addon unavailable with err {error}")),
        None => Observation::new(AVAILABLE, True, "ProbeAvailable")
            .message(format!("{addon} add-on is available.")),
    }
}

fn probe(workload: &ProbedWorkload<'_>) -> Option<String> {
    let (desired, ready) = if workload.is_daemon_set {
        (workload.number("DesiredNumberScheduled"), workload.number("NumberReady"))
    } else {
        (workload.number("Replicas"), workload.number("ReadyReplicas"))
    };
    let Some(desired) = desired else { return Some("desiredNumberReplicas is not probed".into()) };
    if desired == 0 {
        return None;
    }
    // A Deployment has no such field while no replica is ready.
    let ready = ready.unwrap_or_default();
    let enough = if workload.is_daemon_set { ready == desired } else { ready >= 1 };
    let message = || {
        format!(
            "desiredNumberReplicas is {desired} but readyReplica is {ready} for {} {}",
            workload.resource, workload.name
        )
    };
    (!enough).then(message)
}

/// Returns whether the objects of all works of a part of an add-on are applied, in OCM's words; OCM looks at
/// the last work only. `None` while a work has not reported. See docs/hazards.md#last-work-wins.
pub fn manifest_applied(place: Place, works: &[&ManifestWork]) -> Option<Observation> {
    let type_ = match place {
        Place::Managed => MANIFEST_APPLIED,
        Place::Hosting => HOSTING_MANIFEST_APPLIED,
    };
    let applied = |work: &&&ManifestWork| {
        work.status.as_ref().and_then(|s| find_condition(&s.conditions, work_conditions::APPLIED)).cloned()
    };
    if works.is_empty() {
        return Some(
            Observation::new(type_, True, "AddonManifestApplied").message("no manifest need to apply"),
        );
    }
    let conditions: Vec<Condition> = works.iter().map(|work| applied(&work)).collect::<Option<_>>()?;
    Some(if conditions.iter().all(Condition::is_true) {
        Observation::new(type_, True, "AddonManifestApplied")
            .message("manifests of addon are applied successfully")
    } else {
        Observation::new(type_, False, "AddonManifestAppliedFailed")
            .message("failed to apply the manifests of addon")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addon::config::ConfigKind;
    use object::Key;
    use serde_json::{Value, json};

    fn configs(hash: &str) -> Vec<Config> {
        let kind = ConfigKind { group: "g".into(), resource: "r".into() };
        vec![Config { kind, key: Key::cluster("t"), hash: hash.into() }]
    }

    fn condition(type_: &str, status: &str, generation: i64) -> Value {
        json!({"type": type_, "status": status, "reason": "R", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": generation})
    }

    /// Returns a work of generation 2 made from configuration `made`, whose Deployment reports these numbers
    /// about configuration `about`.
    fn work(made: &str, about: &str, numbers: &[(&str, i64)], conditions: &Value) -> ManifestWork {
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "n"}, "spec": {"replicas": 2}});
        let mut values = vec![
            json!({"name": "ConfigAddress", "fieldValue": {"type": "String", "string": address(&configs(about))}}),
        ];
        values.extend(
            numbers
                .iter()
                .map(|(name, n)| json!({"name": name, "fieldValue": {"type": "Integer", "integer": n}})),
        );
        let meta = json!({"ordinal": 0, "kind": "Deployment", "namespace": "n", "name": "d"});
        let manifest = json!({"resourceMeta": meta, "statusFeedback": {"values": values}, "conditions": []});
        serde_json::from_value(json!({
            "metadata": {"name": "w", "generation": 2, "annotations": {CONFIG_SPEC_HASH_ANNOTATION: annotation(&configs(made)).unwrap()}},
            "spec": {"workload": {"manifests": [deployment]}},
            "status": {"conditions": conditions, "resourceStatus": {"manifests": [manifest]}},
        }))
        .unwrap()
    }

    const GOOD: [(&str, i64); 6] = [
        ("Generation", 4),
        ("ObservedGeneration", 4),
        ("Replicas", 2),
        ("UpdatedReplicas", 2),
        ("AvailableReplicas", 2),
        ("ReadyReplicas", 2),
    ];

    fn applied() -> Value {
        json!([condition("Applied", "True", 2), condition("Available", "True", 2)])
    }

    fn with(name: &str, value: i64) -> Vec<(&str, i64)> {
        GOOD.iter().map(|(n, v)| if *n == name { (*n, value) } else { (*n, *v) }).collect()
    }

    fn check(work: ManifestWork, want: &str) {
        let status = works_status(&[&work], &configs("new"), true);
        assert!(format!("{status:?}").starts_with(want), "{status:?} is not {want}");
    }

    #[test]
    fn health_counts_only_for_the_configuration_it_was_measured_on() {
        check(work("new", "new", &GOOD, &applied()), "Done");
        check(work("old", "old", &GOOD, &applied()), "OtherConfig");
        check(work("new", "old", &GOOD, &applied()), "Unreported");
        let stale = json!([condition("Applied", "True", 1), condition("Available", "True", 1)]);
        check(work("new", "new", &GOOD, &stale), "Unreported");
    }

    #[test]
    fn old_pods_that_are_ready_are_no_success() {
        check(work("new", "new", &with("UpdatedReplicas", 1), &applied()), "NotHealthy");
        check(work("new", "new", &with("Replicas", 3), &applied()), "NotHealthy");
        check(work("new", "new", &with("AvailableReplicas", 1), &applied()), "NotHealthy");
        check(work("new", "new", &with("ObservedGeneration", 3), &applied()), "NotHealthy");
    }

    #[test]
    fn what_the_agent_cannot_apply_is_a_refusal() {
        let refused = json!([condition("Applied", "False", 2), condition("Available", "True", 2)]);
        check(work("new", "new", &GOOD, &refused), "Refused");
        let before = json!([condition("Applied", "False", 1), condition("Available", "True", 2)]);
        check(work("new", "new", &GOOD, &before), "Unreported");
    }

    #[test]
    fn a_work_that_is_not_ready_names_the_object_the_condition_and_the_message() {
        let missing = json!([condition("Applied", "True", 2), condition("Available", "False", 2)]);
        let mut work = work("new", "new", &GOOD, &missing);
        check(work.clone(), "NotReady(\"manifestWork w is not Available: m\")");
        let status = work.status.as_mut().unwrap();
        let unavailable = serde_json::from_value(condition("Available", "False", 2)).unwrap();
        status.resource_status.manifests[0].conditions.push(unavailable);
        check(work.clone(), "NotReady(\"Deployment d is not Available: m\")");
        work.status = None;
        check(work, "Unreported(\"the agent has not reported Applied for manifestWork w\")");
    }

    #[test]
    fn one_work_of_several_that_fails_shows() {
        let good = work("new", "new", &GOOD, &applied());
        let bad = work("new", "new", &GOOD, &json!([condition("Applied", "False", 2)]));
        assert_eq!(
            manifest_applied(Place::Managed, &[&bad, &good]).unwrap().reason,
            "AddonManifestAppliedFailed"
        );
        assert_eq!(manifest_applied(Place::Managed, &[&good, &good]).unwrap().reason, "AddonManifestApplied");
    }

    #[test]
    fn availability_is_reported_in_the_words_of_ocm() {
        let message =
            |numbers: &[(&str, i64)]| availability("a", &[&work("new", "new", numbers, &applied())]).message;
        assert_eq!(message(&GOOD), "a add-on is available.");
        let want = "Probe addon unavailable with err desiredNumberReplicas is 2 but readyReplica is 0 for deployments n/d";
        assert_eq!(message(&with("ReadyReplicas", 0)), want);
        assert_eq!(availability("a", &[]).message, "Addon manifestWork is not found");
    }
}
