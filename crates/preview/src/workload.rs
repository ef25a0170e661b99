//! Simulates the status that Kubernetes' controllers and kubelets report for the workloads of a cluster without
//! nodes.
//!
//! A workload becomes ready some time after its pods change, if all its images are known. With an unknown image,
//! it keeps running what it ran before, as in a rolling update, and never becomes ready. The simulation creates no
//! pods.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use object::duration::later;
use object::hex;
use object::{Object, merge_diff};
use store::{ListOptions, Patch, ResourcePath, Store, WriteOptions};

/// The environment of all workloads in a cluster.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// Images that can be pulled.
    pub images: BTreeSet<String>,
    /// The time that pods take to become ready after a change.
    pub ready_after: SignedDuration,
    /// The number of nodes on which a DaemonSet runs.
    pub nodes: i32,
}

/// Kinds whose status is written by the cluster's own controllers.
const WORKLOADS: [(&str, &str, &str); 6] = [
    ("apps", "v1", "daemonsets"),
    ("apps", "v1", "deployments"),
    ("apps", "v1", "replicasets"),
    ("apps", "v1", "statefulsets"),
    ("batch", "v1", "jobs"),
    ("", "v1", "pods"),
];

/// The annotation that records when a workload's pods last changed, and to what.
pub(crate) const ROLLED_AT: &str = "sim.wheelwright.dev/rolled-at";

/// The next status of a workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// Merge patch for `metadata`, set if the pods changed.
    pub metadata: Option<Value>,
    /// Merge patch for `status`.
    pub status: Option<Value>,
    /// The time of the next change that needs no write.
    pub wake_at: Option<Timestamp>,
}

/// Advances every workload of a cluster; returns when the next one changes without a write.
pub fn run(store: &mut Store, environment: &Environment, now: Timestamp) -> Option<Timestamp> {
    let options = WriteOptions::manager("kube-controller-manager");
    let mut next: Option<Timestamp> = None;
    for (group, version, resource) in WORKLOADS {
        let all = ResourcePath::resource(group, version, resource);
        let Ok(list) = store.list(&all, &ListOptions::default()) else { continue };
        for object in &list.items {
            let step = step(object, environment, now);
            let target = all.clone().at(&object.key());
            // If the object changed in the meantime, the next round handles it.
            if let Some(metadata) = step.metadata {
                let _ = store.patch(&target, &Patch::Merge(json!({ "metadata": metadata })), &options, now);
            }
            if let Some(status) = step.status {
                let _ = store.patch(
                    &target.sub("status"),
                    &Patch::Merge(json!({ "status": status })),
                    &options,
                    now,
                );
            }
            next = next.into_iter().chain(step.wake_at).min();
        }
    }
    next
}

/// Advances one Deployment, StatefulSet, DaemonSet, Job or Pod; other kinds report nothing.
pub fn step(object: &Object, environment: &Environment, now: Timestamp) -> Step {
    let gvk = object.gvk();
    if object.is_terminating() {
        return Step::default();
    }
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("apps", "Deployment" | "StatefulSet" | "ReplicaSet" | "DaemonSet") | ("batch", "Job") => {}
        // Tests play the role of the kubelet for a controller's pods.
        ("", "Pod") if !has_controller(object) => {}
        _ => return Step::default(),
    }
    let pod = pod_spec(object);
    let revision = hex(Sha256::digest(pod.to_string().as_bytes())).get(..16).unwrap_or_default().to_owned();
    let marked = object
        .annotations()
        .get(ROLLED_AT)
        .and_then(|mark| mark.split_once('@'))
        .map(|(r, at)| (r.to_owned(), at.to_owned()));
    let (changed_at, metadata) = match marked {
        Some((of, at)) if of == revision => (at.parse().unwrap_or(now), None),
        _ => (now, Some(json!({"annotations": {ROLLED_AT: format!("{revision}@{now}")}}))),
    };
    let ready_at = later(changed_at, environment.ready_after);
    let progress = if !images(pod).all(|image| environment.images.contains(image)) {
        Progress::Stuck
    } else if ready_at > now {
        Progress::Starting
    } else {
        Progress::Ready
    };
    let before = object.at(&["status"]).cloned().unwrap_or_else(|| json!({}));
    let after = status(object, &before, progress, environment, now);
    let wake_at = (progress == Progress::Starting).then_some(ready_at);
    Step { metadata, status: merge_diff(&before, &after), wake_at }
}

fn has_controller(object: &Object) -> bool {
    let owners = object.at(&["metadata", "ownerReferences"]).and_then(Value::as_array);
    owners.into_iter().flatten().any(|owner| owner.get("controller") == Some(&Value::Bool(true)))
}

/// Returns the status of a workload whose newest pods are ready; `None` for other kinds.
pub(crate) fn ready(object: &Object, now: Timestamp) -> Option<Value> {
    let is_workload = matches!(
        (object.api_version(), object.kind()),
        ("apps/v1", "Deployment" | "StatefulSet" | "ReplicaSet" | "DaemonSet")
            | ("batch/v1", "Job")
            | ("v1", "Pod")
    );
    let environment = Environment { nodes: 1, ..Environment::default() };
    is_workload.then(|| status(object, &json!({}), Progress::Ready, &environment, now))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// An image cannot be pulled, so the pods never progress.
    Stuck,
    Starting,
    Ready,
}

fn pod_spec(object: &Object) -> &Value {
    const NONE: &Value = &Value::Null;
    let path: &[&str] = if object.kind() == "Pod" { &["spec"] } else { &["spec", "template", "spec"] };
    object.at(path).unwrap_or(NONE)
}

fn images(pod: &Value) -> impl Iterator<Item = &str> {
    let lists = ["initContainers", "containers"].into_iter().filter_map(|list| pod.get(list)?.as_array());
    lists.flatten().filter_map(|container| container.get("image")?.as_str())
}

fn status(
    object: &Object,
    before: &Value,
    progress: Progress,
    environment: &Environment,
    now: Timestamp,
) -> Value {
    let generation = object.generation();
    let wanted = object.at(&["spec", "replicas"]).and_then(Value::as_i64).unwrap_or(1);
    let old = |field: &str| before.get(field).and_then(Value::as_i64).unwrap_or_default();
    let ready = progress == Progress::Ready;
    let condition = |type_: &str, status: bool, reason: &str| condition(before, type_, status, reason, now);
    match object.kind() {
        "Deployment" | "StatefulSet" | "ReplicaSet" => {
            // A rolling update adds one new pod and keeps the old ones until it is ready.
            let running = if ready { wanted } else { old("readyReplicas").min(wanted) };
            let updated = if ready { wanted } else { 1.min(wanted) };
            let available = running >= wanted;
            let moving = if ready { "NewReplicaSetAvailable" } else { "ReplicaSetUpdated" };
            json!({
                "observedGeneration": generation,
                "replicas": if ready { wanted } else { running + updated },
                "updatedReplicas": updated,
                "readyReplicas": running,
                "availableReplicas": running,
                "conditions": [
                    condition("Available", available, if available { "MinimumReplicasAvailable" } else { "MinimumReplicasUnavailable" }),
                    condition("Progressing", true, moving),
                ],
            })
        }
        "DaemonSet" => {
            let nodes = i64::from(environment.nodes);
            let running = if ready { nodes } else { 0 };
            json!({
                "observedGeneration": generation,
                "desiredNumberScheduled": nodes,
                "currentNumberScheduled": nodes,
                "numberMisscheduled": 0,
                "updatedNumberScheduled": nodes,
                "numberReady": running,
                "numberAvailable": running,
            })
        }
        "Job" if ready => {
            json!({"succeeded": 1, "conditions": [condition("Complete", true, "CompletionsReached")]})
        }
        "Job" => json!({"active": 1}),
        _ => json!({
            "phase": if ready { "Running" } else { "Pending" },
            "conditions": [condition("Ready", ready, if ready { "Running" } else { "ContainersNotReady" })],
        }),
    }
}

fn condition(before: &Value, type_: &str, status: bool, reason: &str, now: Timestamp) -> Value {
    let status = if status { "True" } else { "False" };
    let same = |c: &&Value| {
        c.get("type").and_then(Value::as_str) == Some(type_)
            && c.get("status").and_then(Value::as_str) == Some(status)
    };
    let existing = before.get("conditions").and_then(Value::as_array).into_iter().flatten().find(same);
    let since = existing
        .and_then(|c| c.get("lastTransitionTime"))
        .cloned()
        .unwrap_or_else(|| serde_json::to_value(Time(now)).unwrap_or_default());
    json!({"type": type_, "status": status, "reason": reason, "lastTransitionTime": since})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn environment() -> Environment {
        Environment {
            images: ["app:1".to_owned(), "app:2".to_owned()].into(),
            ready_after: SignedDuration::from_secs(3),
            nodes: 2,
        }
    }

    fn deployment(image: &str) -> Object {
        let spec =
            json!({"replicas": 2, "template": {"spec": {"containers": [{"name": "c", "image": image}]}}});
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "generation": 1}, "spec": spec});
        Object::from_value(object).unwrap()
    }

    /// Applies the patches of a step, as an API server would.
    fn run(object: &mut Object, second: i64) -> Step {
        let step = step(object, &environment(), at(second));
        let mut whole = object.clone().into_value();
        for (field, patch) in [("metadata", &step.metadata), ("status", &step.status)] {
            if let Some(patch) = patch {
                json_patch::merge(&mut whole, &json!({field: patch}));
            }
        }
        *object = Object::from_value(whole).unwrap();
        step
    }

    fn ready(object: &Object) -> i64 {
        object.at(&["status", "readyReplicas"]).and_then(Value::as_i64).unwrap()
    }

    #[test]
    fn a_deployment_becomes_ready_after_its_delay_and_then_rests() {
        let mut object = deployment("app:1");
        assert_eq!(run(&mut object, 10).wake_at, Some(at(13)));
        assert_eq!(ready(&object), 0);
        run(&mut object, 13);
        assert_eq!(ready(&object), 2);
        assert_eq!(run(&mut object, 99), Step::default());
    }

    #[test]
    fn an_unknown_image_never_becomes_ready_and_keeps_the_old_pods() {
        let mut object = deployment("app:1");
        run(&mut object, 0);
        run(&mut object, 3);
        object.field_mut("spec").extend(deployment("app:nope").field_mut("spec").clone());
        object.metadata_mut().insert("generation".into(), json!(2));
        assert_eq!(run(&mut object, 5).wake_at, None);
        run(&mut object, 1000);
        let field = |name: &str| object.at(&["status", name]).and_then(Value::as_i64).unwrap();
        assert_eq!(
            (
                field("observedGeneration"),
                field("updatedReplicas"),
                field("readyReplicas"),
                field("replicas")
            ),
            (2, 1, 2, 3)
        );
    }

    #[test]
    fn other_kinds_report_nothing() {
        let object =
            Object::from_value(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}))
                .unwrap();
        assert_eq!(step(&object, &environment(), at(0)), Step::default());
    }
}
