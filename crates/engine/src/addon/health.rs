//! The health of an add-on on its cluster, derived from the status of its works.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::config::{Config, address, annotation};
use super::hosting::Place;
use super::live::LiveAddOn;
use super::works_status::WorksStatus;
use super::{rules, works};
use crate::health::ObjectHealth;
use crate::resource::identifier;
use crate::work::{culprit, rejection};
use api::Condition;
use api::addon::v1alpha1::{HealthCheckMode, ManagedClusterAddOn};
use api::condition::ConditionStatus::{False, True, Unknown};
use api::condition::{Conditions as _, Observation, find_condition, set_condition};
use api::names::addon_conditions::{
    AVAILABLE, HOSTING_MANIFEST_APPLIED, MANIFEST_APPLIED, REGISTRATION_APPLIED,
};
use api::names::{CONFIG_SPEC_HASH_ANNOTATION, work_conditions};
use api::work::v1::{FieldValue, IgnoreField, ManifestCondition, ManifestConfigOption, ManifestWork};
use object::Object;
use object::text::plain;

/// The maximum number of characters in a cause that a cluster reports.
const CAUSE: usize = 600;

/// Evaluates works against the configurations that they should be rendered from.
///
/// Each fact is fenced: conditions count only for the current generation of the work, and feedback only for the
/// current hash of the configurations. Without `needs_health`, it is enough that the objects exist, as in OCM.
/// See docs/hazards.md#applied-is-not-healthy.
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
    if let Some(rejection) = works.iter().find_map(|work| rejection(work)) {
        return WorksStatus::Refused(rejection);
    }
    if let Some(reason) = works.iter().find_map(|work| not_ready(work)) {
        return reason;
    }
    if !needs_health {
        return WorksStatus::Done;
    }
    let (address, workloads) = (address(configs), workloads(works).collect::<Vec<_>>());
    if let Some(silent) = workloads.iter().find(|workload| !workload.is_about(&address)) {
        let ProbedWorkload { resource, name, .. } = silent;
        let reason = format!("{resource} {name} has not reported on this configuration");
        return WorksStatus::Unreported(reason);
    }
    let unhealthy = workloads.iter().find_map(unhealthy);
    unhealthy.or_else(|| rules::unfinished(works)).unwrap_or(WorksStatus::Done)
}

fn current<'a>(work: &'a ManifestWork, type_: &str) -> Option<&'a Condition> {
    let condition = find_condition(&work.status.as_ref()?.conditions, type_)?;
    (condition.observed_generation == work.metadata.generation).then_some(condition)
}

/// Returns the reason that objects of a work are missing: the agent reports one, or has not reported this
/// generation.
fn not_ready(work: &ManifestWork) -> Option<WorksStatus> {
    let name = work.metadata.name.as_deref().unwrap_or_default();
    for type_ in [work_conditions::APPLIED, work_conditions::AVAILABLE] {
        match current(work, type_) {
            None => {
                let reason = format!("the agent has not reported {type_} for manifestWork {name}");
                return Some(WorksStatus::Unreported(reason));
            }
            Some(condition) if !condition.is_true() => {
                let (object, condition) = culprit(work, type_, |condition| !condition.is_true())
                    .unwrap_or_else(|| (format!("manifestWork {name}"), condition));
                let reason = format!("{object} is not {type_}: {}", condition.message);
                return Some(WorksStatus::NotReady(reason));
            }
            Some(_) => {}
        }
    }
    None
}

/// A Deployment or DaemonSet in a work, with its feedback.
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

    /// Returns the workload condition that explains missing pods, with a sanitized message.
    fn cause(&self) -> Option<String> {
        let reported = |name: &'static str| Some((name, self.values.get(name)?.string.as_deref()?));
        let (name, message) = works::CAUSES.iter().find_map(|(name, _)| reported(name))?;
        Some(format!("{name}: {}", plain(message, CAUSE)))
    }

    /// Returns the object, reconstructed from its feedback.
    fn object(&self) -> Object {
        let status: [(&str, &[&str]); 8] = [
            ("observedGeneration", &["ObservedGeneration"]),
            ("replicas", &["Replicas"]),
            ("updatedReplicas", &["UpdatedReplicas"]),
            ("availableReplicas", &["AvailableReplicas"]),
            ("desiredNumberScheduled", &["DesiredNumberScheduled"]),
            ("updatedNumberScheduled", &["UpdatedNumberScheduled"]),
            ("numberAvailable", &["NumberAvailable", "NumberReady"]),
            ("numberReady", &["NumberReady"]),
        ];
        let numbers = status.into_iter().filter_map(|(field, names)| {
            Some((field.to_owned(), Value::from(names.iter().find_map(|name| self.number(name))?)))
        });
        let mut status: Map<String, Value> = numbers.collect();
        let reason = works::DEADLINE_EXCEEDED;
        if self.values.contains_key(reason) {
            status.insert("conditions".into(), json!([{"type": "Progressing", "reason": reason}]));
        }
        let object = json!({
            "apiVersion": "apps/v1",
            "kind": if self.is_daemon_set { "DaemonSet" } else { "Deployment" },
            "metadata": {"generation": self.number("Generation").unwrap_or_default()},
            "spec": {"replicas": self.wanted_replicas},
            "status": status,
        });
        Object(object.as_object().cloned().unwrap_or_default())
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
            .filter(|manifest| works::is_workload(manifest))
            .map(|manifest| Object(manifest.clone()));
        let configs = &work.spec.manifest_configs;
        manifests.map(move |manifest| workload(&manifest, configs, &reported)).collect::<Vec<_>>()
    })
}

fn workload<'a>(
    manifest: &Object,
    configs: &[ManifestConfigOption],
    reported: &[&'a ManifestCondition],
) -> ProbedWorkload<'a> {
    let same = |m: &&&ManifestCondition| {
        let meta = &m.resource_meta;
        (meta.kind.as_str(), meta.namespace.as_str(), meta.name.as_str())
            == (manifest.kind(), manifest.namespace(), manifest.name())
    };
    let values = reported.iter().find(same).into_iter().flat_map(|m| &m.status_feedback.values);
    ProbedWorkload {
        resource: if manifest.kind() == "DaemonSet" { "daemonsets".into() } else { "deployments".into() },
        name: format!("{}/{}", manifest.namespace(), manifest.name()),
        wanted_replicas: wanted_replicas(manifest, configs),
        is_daemon_set: manifest.kind() == "DaemonSet",
        values: values.map(|value| (value.name.as_str(), &value.field_value)).collect(),
    }
}

/// Returns the replicas that a manifest requests. One is enough if the manifest leaves them to the cluster, as
/// for an autoscaler.
fn wanted_replicas(manifest: &Object, configs: &[ManifestConfigOption]) -> i64 {
    let asked = manifest.at(&["spec", "replicas"]).and_then(Value::as_i64);
    let named = identifier(manifest);
    let config = configs.iter().find(|config| config.resource_identifier == named);
    let apply = config.and_then(|config| config.update_strategy.as_ref()?.server_side_apply.as_ref());
    let is_left = apply.is_some_and(|apply| apply.ignore_fields.iter().any(names_replicas));
    asked.filter(|asked| *asked == 0 || !is_left).unwrap_or(1)
}

fn names_replicas(ignored: &IgnoreField) -> bool {
    let paths = ignored.json_paths.iter().chain(&ignored.jq_path_expressions);
    ignored.json_pointers.iter().any(|pointer| pointer == "/spec/replicas")
        || paths.into_iter().any(|path| [".spec.replicas", "$.spec.replicas"].contains(&path.as_str()))
}

/// Returns the health of a workload that has current feedback, if it is not healthy yet. An autoscaler may
/// request more replicas than the manifest.
fn unhealthy(workload: &ProbedWorkload<'_>) -> Option<WorksStatus> {
    let ProbedWorkload { resource, name, .. } = workload;
    let is_observed = workload.number("ObservedGeneration") >= workload.number("Generation");
    let cause = workload.cause().filter(|_| is_observed);
    match (ObjectHealth::of(&workload.object()), cause) {
        (ObjectHealth::Current, _) => None,
        (ObjectHealth::InProgress(reason) | ObjectHealth::RollingOut(reason), None) => {
            Some(WorksStatus::NotHealthy(format!("{resource} {name}: {reason}")))
        }
        (ObjectHealth::InProgress(reason) | ObjectHealth::RollingOut(reason), Some(cause)) => {
            Some(WorksStatus::NotHealthy(format!("{resource} {name}: {reason}: {cause}")))
        }
        (ObjectHealth::Failed(reason), cause) => {
            Some(WorksStatus::Failed(format!("{resource} {name}: {}", cause.unwrap_or(reason))))
        }
    }
}

/// Returns the reason that a manager's add-on is not available: its condition says so, or its agent has not
/// written one. A manager that determines health itself without a probe never writes the condition.
pub fn unavailable(addon: &ManagedClusterAddOn) -> Option<String> {
    let check = addon.status.as_ref().and_then(|status| status.health_check.as_ref());
    let needs_none = check.is_some_and(|check| check.mode == HealthCheckMode::Customized);
    match addon.condition(AVAILABLE) {
        Some(available) if available.is_true() => None,
        Some(available) => Some(format!("the add-on is not available: {}", available.message)),
        None if needs_none => None,
        None => Some("the add-on is not available: its agent has not reported".to_owned()),
    }
}

/// Returns the availability of the add-on, with OCM's messages and rules: one ready replica is enough.
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
        // A DaemonSet reports 0 before its controller has looked for nodes.
        let is_observed = workload.number("ObservedGeneration") >= workload.number("Generation");
        let ProbedWorkload { resource, name, .. } = workload;
        return (!is_observed)
            .then(|| format!("the controller of {resource} {name} has not observed it yet"));
    }
    // A Deployment omits this field while no replica is ready.
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

/// Reports that the registration of the agent is configured, and for each part of an add-on whether its objects
/// are applied, if known. `empty` lists the places that need no works, or has the reason that no objects could be
/// built.
pub fn report_deployment(
    conditions: &mut Vec<Condition>,
    live: &LiveAddOn,
    is_registered: bool,
    empty: Result<&[Place], &str>,
    now: Timestamp,
) {
    if is_registered {
        let registered = Observation::new(REGISTRATION_APPLIED, True, "SetPermissionApplied")
            .message("Registration of the addon agent is configured");
        set_condition(conditions, registered, now);
    }
    let empty = match empty {
        Ok(empty) => empty,
        Err(reason) => {
            let failed = Observation::new(MANIFEST_APPLIED, False, "ManifestWorkApplyFailed");
            set_condition(conditions, failed.message(reason), now);
            return;
        }
    };
    let hosting = live.host.name().map(|_| Place::Hosting);
    for place in [Place::Managed].into_iter().chain(hosting) {
        let works = live.works_at(place);
        let is_known = !works.is_empty() || empty.contains(&place);
        if let Some(applied) = manifest_applied(place, &works).filter(|_| is_known) {
            set_condition(conditions, applied, now);
        }
    }
}

/// Returns the condition that all objects in one part of an add-on are applied, with OCM's messages; `None`
/// while a work has not reported. OCM looks only at the last work. See docs/hazards.md#last-work-wins.
fn manifest_applied(place: Place, works: &[&ManifestWork]) -> Option<Observation> {
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
mod tests;
