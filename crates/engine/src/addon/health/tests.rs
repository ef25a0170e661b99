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

/// Returns a work of generation 2 that was rendered from configuration `made`, and whose Deployment reports
/// these numbers for configuration `about`.
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
fn old_pods_that_are_ready_are_not_a_success() {
    check(work("new", "new", &with("UpdatedReplicas", 1), &applied()), "NotHealthy");
    check(work("new", "new", &with("Replicas", 3), &applied()), "NotHealthy");
    check(work("new", "new", &with("AvailableReplicas", 1), &applied()), "NotHealthy");
    check(work("new", "new", &with("ObservedGeneration", 3), &applied()), "NotHealthy");
}

#[test]
fn a_workload_that_an_autoscaler_scaled_is_healthy_and_one_with_old_pods_is_not() {
    let status = |spec: Value, replicas: i64, updated: i64, available: i64| {
        let numbers = [
            ("Generation", 4),
            ("ObservedGeneration", 4),
            ("Replicas", replicas),
            ("UpdatedReplicas", updated),
            ("AvailableReplicas", available),
        ];
        let mut work = work("new", "new", &numbers, &applied());
        let identifier = json!({"group": "apps", "resource": "deployments", "name": "d", "namespace": "n"});
        let rule = json!({"condition": "OnSpokeChange", "jsonPointers": ["/spec/replicas"]});
        let apply = json!({"type": "ServerSideApply", "serverSideApply": {"ignoreFields": [rule]}});
        if spec["ignored"] == true {
            let config = json!([{"resourceIdentifier": identifier, "updateStrategy": apply}]);
            work.spec.manifest_configs = serde_json::from_value(config).unwrap();
        }
        work.spec.workload.manifests[0].insert("spec".into(), spec);
        works_status(&[&work], &configs("new"), true)
    };
    let not = |reason: &str| WorksStatus::NotHealthy(reason.to_owned());
    assert_eq!(status(json!({}), 5, 5, 5), WorksStatus::Done);
    assert_eq!(status(json!({"replicas": 2}), 5, 5, 5), WorksStatus::Done);
    assert_eq!(status(json!({}), 5, 3, 5), not("deployments n/d: 2 old replicas left"));
    assert_eq!(status(json!({}), 5, 5, 3), not("deployments n/d: 3 of 5 replicas are available"));
    let asked = not("deployments n/d: 1 of 2 replicas are updated");
    assert_eq!(status(json!({"replicas": 2}), 1, 1, 1), asked);
    assert_eq!(status(json!({"replicas": 2, "ignored": true}), 1, 1, 1), WorksStatus::Done);
    let asked = not("deployments n/d: 0 of 1 replicas are updated");
    assert_eq!(status(json!({"replicas": 2, "ignored": true}), 0, 0, 0), asked);
}

#[test]
fn a_deployment_that_fails_names_its_condition_and_the_message() {
    let status = |numbers: &[(&str, i64)], causes: &[(&str, &str)]| {
        let mut work = work("new", "new", numbers, &applied());
        let values = &mut work.status.as_mut().unwrap().resource_status.manifests[0].status_feedback.values;
        for (name, message) in causes {
            let value = json!({"name": name, "fieldValue": {"type": "String", "string": message}});
            values.push(serde_json::from_value(value).unwrap());
        }
        match works_status(&[&work], &configs("new"), true) {
            WorksStatus::NotHealthy(reason) => reason,
            WorksStatus::Failed(reason) => format!("failed: {reason}"),
            other => format!("{other:?}"),
        }
    };
    let late = ("ProgressDeadlineExceeded", "ReplicaSet \"d\" has timed out progressing.");
    let quota = ("ReplicaFailure", "pods \"d-1\" is forbidden: exceeded quota: q");
    let surplus = with("Replicas", 3);
    let old = "deployments n/d: 1 old replica left";
    assert_eq!(status(&surplus, &[]), old);
    let exceeded =
        "failed: deployments n/d: ProgressDeadlineExceeded: ReplicaSet \"d\" has timed out progressing.";
    assert_eq!(status(&surplus, &[late]), exceeded);
    let root = "deployments n/d: ReplicaFailure: pods \"d-1\" is forbidden: exceeded quota: q";
    assert_eq!(status(&surplus, &[late, quota]), format!("failed: {root}"), "the quota is why it is late");
    let few = "deployments n/d: 1 of 2 replicas are available: ReplicaFailure: ";
    assert!(status(&with("AvailableReplicas", 1), &[quota]).starts_with(few));
    let few = "deployments n/d: 1 of 2 replicas are updated: ReplicaFailure: ";
    assert!(status(&with("UpdatedReplicas", 1), &[quota]).starts_with(few));
    assert_eq!(status(&GOOD, &[quota]), "Done", "a workload that runs lacks nothing");
    let before = status(&with("ObservedGeneration", 3), &[late]);
    assert!(!before.contains("ProgressDeadlineExceeded"), "it is about the generation before: {before}");
}

#[test]
fn the_message_of_a_condition_is_bounded_and_controls_no_terminal() {
    let mut work = work("new", "new", &with("Replicas", 3), &applied());
    let message = "\u{1b}[31mx\n".repeat(1000);
    let value = json!({"name": "ReplicaFailure", "fieldValue": {"type": "String", "string": message}});
    let reported = &mut work.status.as_mut().unwrap().resource_status.manifests[0].status_feedback.values;
    reported.push(serde_json::from_value(value).unwrap());
    let WorksStatus::NotHealthy(reason) = works_status(&[&work], &configs("new"), true) else { panic!() };
    let head = "deployments n/d: 1 old replica left: ReplicaFailure: ";
    assert!(reason.starts_with(head) && !reason.chars().any(char::is_control), "{reason}");
    assert_eq!(reason.chars().count(), head.chars().count() + CAUSE);
}

#[test]
fn a_rejection_by_the_cluster_is_a_refusal_and_other_failures_are_not_ready() {
    let failed = json!([condition("Applied", "False", 2), condition("Available", "True", 2)]);
    let of_manifest = |reason: &str, generation: i64| {
        let mut work = work("new", "new", &GOOD, &failed);
        let mut applied = condition("Applied", "False", generation);
        applied["reason"] = json!(reason);
        let manifests = &mut work.status.as_mut().unwrap().resource_status.manifests;
        manifests[0].conditions.push(serde_json::from_value(applied).unwrap());
        work
    };
    check(of_manifest("AppliedManifestRejected", 2), "Refused(\"Deployment d: m\")");
    check(of_manifest("AppliedManifestFailed", 2), "NotReady(\"Deployment d is not Applied: m\")");
    check(of_manifest("AppliedManifestRejected", 1), "NotReady");
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
fn a_daemon_set_that_no_controller_has_observed_is_not_available() {
    let available = |observed: &[(&str, i64)]| {
        let numbers =
            [&[("Generation", 1), ("DesiredNumberScheduled", 0), ("NumberReady", 0)], observed].concat();
        let mut work = work("new", "new", &numbers, &applied());
        work.spec.workload.manifests[0].insert("kind".into(), json!("DaemonSet"));
        work.status.as_mut().unwrap().resource_status.manifests[0].resource_meta.kind = "DaemonSet".into();
        availability("a", &[&work]).reason
    };
    assert_eq!(available(&[]), "ProbeUnavailable");
    assert_eq!(available(&[("ObservedGeneration", 1)]), "ProbeAvailable");
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
