use serde_json::{Value, json};

use super::*;
use crate::placement::filter::cel::Expressions;
use api::names::WORKLOAD_HEALTH_ANNOTATION;

fn check(kind: &str, fields: Value, want: &str) {
    let (api_version, name) = kind.rsplit_once('/').unwrap();
    let mut object =
        json!({"apiVersion": api_version, "kind": name, "metadata": {"name": "a", "generation": 2}});
    json_patch(&mut object, fields.clone());
    let live = Object::from_value(object).unwrap();
    let health = ObjectHealth::of(&live);
    let says = (health != ObjectHealth::Current, matches!(health, ObjectHealth::Failed(_)));
    if !live.is_terminating() {
        assert_eq!(by_agent(&live), says, "an agent judges as the hub: {kind} {fields}");
    }
    let found = match health {
        ObjectHealth::Current => "current".to_owned(),
        ObjectHealth::InProgress(reason) => format!("in progress: {reason}"),
        ObjectHealth::RollingOut(reason) => format!("rolling out: {reason}"),
        ObjectHealth::Failed(reason) => format!("failed: {reason}"),
    };
    assert_eq!(found, want, "{kind} {fields}");
}

/// Evaluates the expressions that agents use. Returns if the object is unhealthy, and if it has failed.
fn by_agent(live: &Object) -> (bool, bool) {
    let Some(row) = row(live) else { return (false, false) };
    let value = Value::Object(live.0.clone());
    let holds = |expression: String| {
        Expressions::compile(&[expression], &["object"]).unwrap().hold(&[("object", &value)]).unwrap()
    };
    (holds(row.not_healthy()), row.failed().is_some_and(holds))
}

fn json_patch(object: &mut Value, fields: Value) {
    for (name, value) in fields.as_object().unwrap() {
        object[name] = value.clone();
    }
}

fn condition(type_: &str, status: &str, message: &str) -> Value {
    json!({"conditions": [{"type": type_, "status": status, "reason": "Because", "message": message}]})
}

#[test]
fn an_object_is_as_healthy_as_kstatus_says() {
    check("v1/ConfigMap", json!({}), "current");
    check("batch/v1/CronJob", json!({}), "current");
    check("x.io/v1/Widget", json!({"status": {"conditions": []}}), "current");
    let widget = |type_, status| json!({"status": condition(type_, status, "words")});
    check("x.io/v1/Widget", widget("Ready", "True"), "current");
    check("x.io/v1/Widget", widget("Ready", "False"), "in progress: words");
    check("x.io/v1/Widget", widget("Reconciling", "True"), "in progress: words");
    check("x.io/v1/Widget", widget("Stalled", "True"), "failed: words");
    check(
        "gitops.wheelwright.dev/v1alpha1/ConfigRepo",
        widget("Reconciling", "True"),
        "in progress: Because",
    );
    check(
        "x.io/v1/Widget",
        json!({"status": {"observedGeneration": 1}}),
        "in progress: its controller has not observed generation 2 yet",
    );
    check(
        "x.io/v1/Widget",
        json!({"metadata": {"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        "in progress: it is being deleted",
    );
    let definition = "apiextensions.k8s.io/v1/CustomResourceDefinition";
    check(definition, json!({}), "in progress: it is not Established yet");
    check(definition, widget("Established", "True"), "current");
    check(definition, widget("NamesAccepted", "False"), "failed: words");
    check("apiregistration.k8s.io/v1/APIService", widget("Available", "False"), "in progress: words");
}

#[test]
fn a_workload_is_healthy_when_all_of_it_runs_as_its_spec_says() {
    let of = |spec: Value, status: &[(&str, i64)]| {
        let mut all = json!({"observedGeneration": 2});
        status.iter().for_each(|(field, number)| all[*field] = json!(number));
        json!({"spec": spec, "status": all})
    };
    let three = || json!({"replicas": 3});
    let deployment = |status: &[(&str, i64)], want: &str| {
        check("apps/v1/Deployment", of(three(), status), want);
    };
    let unseen = "in progress: its controller has not observed generation 2 yet";
    for kind in ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"] {
        check(&format!("apps/v1/{kind}"), json!({}), unseen);
        check(&format!("apps/v1/{kind}"), json!({"status": {"observedGeneration": 1}}), unseen);
    }
    deployment(&[], "in progress: 0 of 3 replicas are updated");
    let surge = [("replicas", 4), ("updatedReplicas", 3), ("availableReplicas", 3)];
    deployment(&surge, "in progress: 1 old replica left");
    let few = [("replicas", 3), ("updatedReplicas", 3), ("availableReplicas", 2)];
    deployment(&few, "in progress: 2 of 3 replicas are available");
    deployment(&[("replicas", 3), ("updatedReplicas", 3), ("availableReplicas", 3)], "current");
    let scaled = [("replicas", 5), ("updatedReplicas", 5), ("availableReplicas", 4)];
    deployment(&scaled, "in progress: 4 of 5 replicas are available");
    let paused = of(json!({"replicas": 3, "paused": true}), &[]);
    check("apps/v1/Deployment", paused, "in progress: 0 of 3 replicas are updated");
    check("apps/v1/Deployment", of(json!({"replicas": 0}), &[]), "current");
    let exceeded = json!({"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "late"});
    let unavailable = json!({"type": "Available", "status": "False", "reason": "Because"});
    for conditions in [json!([exceeded]), json!([unavailable, exceeded])] {
        let mut late = of(three(), &[]);
        late["status"]["conditions"] = conditions;
        check("apps/v1/Deployment", late.clone(), "failed: late");
        late["status"]["observedGeneration"] = json!(1);
        check("apps/v1/Deployment", late, unseen);
    }

    let set = |spec: Value, updated: i64, available: i64, want: &str| {
        let status = [("updatedReplicas", updated), ("availableReplicas", available)];
        check("apps/v1/StatefulSet", of(spec, &status), want);
    };
    set(three(), 3, 2, "in progress: 2 of 3 replicas are available");
    set(three(), 2, 3, "in progress: 2 of 3 replicas are updated");
    set(three(), 3, 3, "current");
    let rolling = json!({"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": 2}}});
    set(rolling.clone(), 1, 3, "current");
    set(rolling, 0, 3, "in progress: 0 of 1 replicas are updated");
    let on_delete = json!({"replicas": 3, "updateStrategy": {"type": "OnDelete"}});
    set(on_delete.clone(), 0, 3, "current");
    set(on_delete, 0, 2, "in progress: 2 of 3 replicas are available");

    let daemons = |spec: Value, updated: i64, available: i64, want: &str| {
        let wanted = ("desiredNumberScheduled", 2);
        let status = [wanted, ("updatedNumberScheduled", updated), ("numberAvailable", available)];
        check("apps/v1/DaemonSet", of(spec, &status), want);
    };
    daemons(json!({}), 1, 2, "in progress: 1 of 2 pods are updated");
    daemons(json!({}), 2, 1, "in progress: 1 of 2 pods are available");
    daemons(json!({}), 2, 2, "current");
    daemons(json!({"updateStrategy": {"type": "OnDelete"}}), 0, 2, "current");

    let replicas = |replicas: i64, available: i64, want: &str| {
        let status = [("replicas", replicas), ("availableReplicas", available)];
        check("apps/v1/ReplicaSet", of(three(), &status), want);
        check("v1/ReplicationController", of(three(), &status), want);
    };
    replicas(3, 2, "in progress: 2 of 3 replicas are available");
    replicas(4, 3, "in progress: 1 replica too many");
    replicas(3, 3, "current");
}

#[test]
fn a_set_is_healthy_once_its_controller_has_seen_the_change() {
    let set = |conditions: Value| {
        let metadata = json!({"name": "a", "namespace": "n", "generation": 2});
        let (api_version, kind) = ("work.open-cluster-management.io/v1alpha1", "ManifestWorkReplicaSet");
        let status = json!({"conditions": conditions});
        let set = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "status": status});
        ObjectHealth::of(&Object::from_value(set).unwrap())
    };
    let rolled_out = |generation: i64| json!({"type": "PlacementRolledOut", "status": "True", "observedGeneration": generation});
    let reconciling = json!({"type": "Reconciling", "status": "True", "message": "1 of 2 clusters done"});
    let unseen = ObjectHealth::InProgress("its controller has not observed generation 2 yet".into());
    assert_eq!(set(json!([])), unseen);
    assert_eq!(set(json!([rolled_out(1)])), unseen);
    assert_eq!(set(json!([rolled_out(2)])), ObjectHealth::Current);
    let rolling_out = ObjectHealth::RollingOut("1 of 2 clusters done".into());
    assert_eq!(set(json!([rolled_out(2), reconciling])), rolling_out);
    let no_placement = json!({"type": "PlacementVerified", "status": "False"});
    let in_progress = ObjectHealth::InProgress("1 of 2 clusters done".into());
    assert_eq!(set(json!([rolled_out(2), reconciling, no_placement])), in_progress);
}

#[test]
fn a_job_is_healthy_when_it_completes_unless_its_author_expects_no_end() {
    let running = || json!({"startTime": "2026-01-01T00:00:00Z", "active": 1});
    let started =
        json!({"name": "a", "generation": 2, "annotations": {WORKLOAD_HEALTH_ANNOTATION: "started"}});
    let job = |metadata: Option<&Value>, status: Value, want: &str| {
        let mut fields = json!({"status": status});
        if let Some(metadata) = metadata {
            fields["metadata"] = metadata.clone();
        }
        check("batch/v1/Job", fields, want);
    };
    check("batch/v1/Job", json!({}), "in progress: it is not complete yet");
    job(None, running(), "in progress: it is not complete yet");
    job(None, condition("Suspended", "True", ""), "in progress: it is not complete yet");
    job(None, condition("Complete", "True", ""), "current");
    job(None, condition("Failed", "True", "no"), "failed: no");
    job(Some(&started), json!({}), "in progress: it has not started yet");
    job(Some(&started), running(), "current");
    job(Some(&started), condition("Failed", "True", "no"), "failed: no");
}

#[test]
fn a_pod_and_a_claim_are_healthy_in_their_last_phase() {
    let pod = |phase: &str, ready: &str, want: &str| {
        let mut status = condition("Ready", ready, "words");
        status["phase"] = json!(phase);
        check("v1/Pod", json!({"status": status}), want);
    };
    check("v1/Pod", json!({}), "in progress: it is Pending");
    check("v1/Pod", json!({"status": {"phase": "Running"}}), "in progress: it is not Ready yet");
    pod("Running", "False", "in progress: words");
    pod("Running", "True", "current");
    pod("Succeeded", "False", "current");
    pod("Failed", "False", "failed: it has failed");
    check("v1/PersistentVolumeClaim", json!({"status": {"phase": "Bound"}}), "current");
    check("v1/PersistentVolumeClaim", json!({"status": {"phase": "Lost"}}), "in progress: it is Lost");
    check("v1/PersistentVolumeClaim", json!({}), "in progress: it is Pending");
}

#[test]
fn an_object_that_its_author_ignores_is_healthy() {
    let ignored = json!({"name": "a", "annotations": {WORKLOAD_HEALTH_ANNOTATION: "ignore"}});
    check("apps/v1/Deployment", json!({"metadata": ignored}), "current");
}

#[test]
fn a_status_of_unexpected_types_is_not_a_success() {
    let object = json!({"apiVersion": "x.io/v1", "kind": "Widget", "metadata": {"name": "a"},
        "status": {"conditions": [{"type": "Ready"}]}});
    let ObjectHealth::InProgress(reason) = ObjectHealth::of(&Object::from_value(object).unwrap()) else {
        panic!("it is no success");
    };
    assert!(reason.starts_with("cannot evaluate its status: "), "{reason}");
}
