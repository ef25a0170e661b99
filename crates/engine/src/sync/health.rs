//! The health of live objects, as [kstatus] judges it.
//!
//! [kstatus]: https://github.com/kubernetes-sigs/cli-utils/tree/master/pkg/kstatus

use serde_json::Value;

use api::names::GITOPS_GROUP;
use object::{Gvk, Object};

/// The health of a live object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectHealth {
    /// Its controller has done what the spec asks for, or it has no controller.
    Current,
    /// Its controller is at work, for the reason given.
    InProgress(String),
    /// Its controller has given up, for the reason given.
    Failed(String),
}

use ObjectHealth::{Current, Failed, InProgress};

impl ObjectHealth {
    /// Judges a live object.
    ///
    /// A Job is current when it is complete; kstatus is content with one that has started.
    pub fn of(live: &Object) -> Self {
        if live.is_terminating() {
            return InProgress("it is being deleted".into());
        }
        let generation = live.at(&["metadata", "generation"]).and_then(Value::as_i64);
        let observed = number(live, "observedGeneration");
        if let (Some(generation), Some(observed)) = (generation, observed)
            && generation != observed
        {
            return InProgress(format!("its controller has not seen generation {generation}"));
        }
        if let Some(why) = condition_message(live, "Stalled", "True") {
            return Failed(why);
        }
        if let Some(why) = condition_message(live, "Reconciling", "True") {
            return InProgress(why);
        }
        let gvk = live.gvk();
        match (gvk.group.as_str(), gvk.kind.as_str()) {
            ("apiextensions.k8s.io", "CustomResourceDefinition") => definition(live),
            ("apiregistration.k8s.io", "APIService") => needs(live, "Available"),
            ("apps", "Deployment") => deployment(live),
            ("apps", "StatefulSet") => stateful_set(live),
            ("apps", "DaemonSet") => daemon_set(live),
            ("batch", "Job") => job(live),
            ("", "Pod") => pod(live),
            ("", "PersistentVolumeClaim") => match text(live, "phase") {
                "Bound" => Current,
                phase => InProgress(format!("it is {}", or_pending(phase))),
            },
            _ if live.condition("Ready").is_some() => needs(live, "Ready"),
            _ => Current,
        }
    }
}

/// Returns whether an object that is applied now may become healthy later. `live` is the object before.
pub(super) fn takes_time(gvk: &Gvk, live: Option<&Object>) -> bool {
    let is_slow = matches!(
        (gvk.group.as_str(), gvk.kind.as_str()),
        ("apiextensions.k8s.io", "CustomResourceDefinition")
            | ("apiregistration.k8s.io", "APIService")
            | ("apps", "Deployment" | "StatefulSet" | "DaemonSet")
            | ("batch", "Job")
            | ("", "Pod" | "PersistentVolumeClaim")
            | (GITOPS_GROUP, "ConfigRepo")
    );
    let reports =
        |live: &Object| number(live, "observedGeneration").is_some() || live.condition("Ready").is_some();
    is_slow || live.is_some_and(reports)
}

fn number(live: &Object, field: &str) -> Option<i64> {
    live.at(&["status", field]).and_then(Value::as_i64)
}

fn text<'a>(live: &'a Object, field: &str) -> &'a str {
    live.at(&["status", field]).and_then(Value::as_str).unwrap_or_default()
}

fn or_pending(phase: &str) -> &str {
    if phase.is_empty() { "Pending" } else { phase }
}

fn field<'a>(condition: &'a Value, name: &str) -> &'a str {
    condition.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Returns a condition if it has this status.
fn condition<'a>(live: &'a Object, type_: &str, status: &str) -> Option<&'a Value> {
    live.condition(type_).filter(|condition| field(condition, "status") == status)
}

/// Returns the message of a condition with a status; its reason if it has no message. For a ConfigRepo it
/// returns the reason, because the messages of two ConfigRepos could otherwise contain each other without
/// end.
fn condition_message(live: &Object, type_: &str, status: &str) -> Option<String> {
    let found = condition(live, type_, status)?;
    let message = if live.gvk().group == GITOPS_GROUP { "" } else { field(found, "message") };
    let words = [message, field(found, "reason"), type_];
    words.into_iter().find(|words| !words.is_empty()).map(str::to_owned)
}

/// Returns Current when a condition is true.
fn needs(live: &Object, type_: &str) -> ObjectHealth {
    if condition_message(live, type_, "True").is_some() {
        return Current;
    }
    let why = condition_message(live, type_, "False").or_else(|| condition_message(live, type_, "Unknown"));
    InProgress(why.unwrap_or_else(|| format!("it is not {type_} yet")))
}

fn definition(live: &Object) -> ObjectHealth {
    match condition_message(live, "NamesAccepted", "False") {
        Some(why) => Failed(why),
        None => needs(live, "Established"),
    }
}

fn wanted_replicas(live: &Object) -> i64 {
    live.at(&["spec", "replicas"]).and_then(Value::as_i64).unwrap_or(1)
}

/// Returns InProgress when fewer than `all` of something are there.
fn all_are(all: i64, found: i64, words: &str) -> Option<ObjectHealth> {
    (found < all).then(|| InProgress(format!("{found} of {all} {words}")))
}

fn deployment(live: &Object) -> ObjectHealth {
    if let Some(progressing) = condition(live, "Progressing", "False")
        && field(progressing, "reason") == "ProgressDeadlineExceeded"
    {
        return Failed(condition_message(live, "Progressing", "False").unwrap_or_default());
    }
    let count = |field| number(live, field).unwrap_or_default();
    let wanted = wanted_replicas(live);
    let outdated = count("replicas") - count("updatedReplicas");
    all_are(wanted, count("updatedReplicas"), "replicas are updated")
        .or_else(|| (outdated > 0).then(|| InProgress(format!("{outdated} old replicas are still there"))))
        .or_else(|| all_are(wanted, count("availableReplicas"), "replicas are available"))
        .unwrap_or(Current)
}

fn stateful_set(live: &Object) -> ObjectHealth {
    let strategy = live.at(&["spec", "updateStrategy", "type"]).and_then(Value::as_str);
    if strategy == Some("OnDelete") {
        return Current;
    }
    let count = |field| number(live, field).unwrap_or_default();
    let wanted = wanted_replicas(live);
    let partition = live.at(&["spec", "updateStrategy", "rollingUpdate", "partition"]);
    let updated = (wanted - partition.and_then(Value::as_i64).unwrap_or_default()).max(0);
    all_are(wanted, count("readyReplicas"), "replicas are ready")
        .or_else(|| all_are(updated, count("updatedReplicas"), "replicas are updated"))
        .unwrap_or(Current)
}

fn daemon_set(live: &Object) -> ObjectHealth {
    let Some(wanted) = number(live, "desiredNumberScheduled") else {
        return InProgress("no pod has been scheduled yet".into());
    };
    let count = |field| number(live, field).unwrap_or_default();
    all_are(wanted, count("updatedNumberScheduled"), "pods are updated")
        .or_else(|| all_are(wanted, count("numberAvailable"), "pods are available"))
        .unwrap_or(Current)
}

fn job(live: &Object) -> ObjectHealth {
    if let Some(why) = condition_message(live, "Failed", "True") {
        return Failed(why);
    }
    match condition_message(live, "Complete", "True") {
        Some(_) => Current,
        None => InProgress("it is not complete yet".into()),
    }
}

fn pod(live: &Object) -> ObjectHealth {
    match text(live, "phase") {
        "Succeeded" => Current,
        "Failed" => Failed("it has failed".into()),
        "Running" => needs(live, "Ready"),
        phase => InProgress(format!("it is {}", or_pending(phase))),
    }
}

#[cfg(test)]
#[path = "tests/health.rs"]
mod tests;
