use serde_json::{Value, json};

use super::*;

fn check(kind: &str, fields: Value, want: &str) {
    let (api_version, name) = kind.rsplit_once('/').unwrap();
    let mut object =
        json!({"apiVersion": api_version, "kind": name, "metadata": {"name": "a", "generation": 2}});
    json_patch(&mut object, fields.clone());
    let found = match ObjectHealth::of(&Object::from_value(object).unwrap()) {
        Current => "current".to_owned(),
        InProgress(why) => format!("in progress: {why}"),
        Failed(why) => format!("failed: {why}"),
    };
    assert_eq!(found, want, "{kind} {fields}");
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
        "in progress: its controller has not seen generation 2",
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
    let sized = |status: Value| json!({"spec": {"replicas": 3}, "status": status});
    let deployment = "apps/v1/Deployment";
    check(deployment, sized(json!({})), "in progress: 0 of 3 replicas are updated");
    check(
        deployment,
        sized(json!({"replicas": 4, "updatedReplicas": 3, "availableReplicas": 3})),
        "in progress: 1 old replicas are still there",
    );
    check(
        deployment,
        sized(json!({"replicas": 3, "updatedReplicas": 3, "availableReplicas": 2})),
        "in progress: 2 of 3 replicas are available",
    );
    check(deployment, sized(json!({"replicas": 3, "updatedReplicas": 3, "availableReplicas": 3})), "current");
    let exceeded = json!({"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "late"});
    check(deployment, sized(json!({"conditions": [exceeded]})), "failed: late");
    let unavailable = json!({"type": "Available", "status": "False", "reason": "Because"});
    check(deployment, sized(json!({"conditions": [unavailable, exceeded]})), "failed: late");
    check(
        "apps/v1/StatefulSet",
        sized(json!({"readyReplicas": 2})),
        "in progress: 2 of 3 replicas are ready",
    );
    check("apps/v1/StatefulSet", sized(json!({"readyReplicas": 3, "updatedReplicas": 3})), "current");
    let partition = json!({"spec": {"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": 2}}},
        "status": {"readyReplicas": 3, "updatedReplicas": 1}});
    check("apps/v1/StatefulSet", partition, "current");
    check("apps/v1/DaemonSet", json!({}), "in progress: no pod has been scheduled yet");
    let pods = json!({"desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberAvailable": 1});
    check("apps/v1/DaemonSet", json!({"status": pods}), "in progress: 1 of 2 pods are available");
    check("batch/v1/Job", json!({}), "in progress: it is not complete yet");
    check("batch/v1/Job", json!({"status": condition("Complete", "True", "")}), "current");
    check("batch/v1/Job", json!({"status": condition("Failed", "True", "no")}), "failed: no");
    check("v1/Pod", json!({}), "in progress: it is Pending");
    check("v1/Pod", json!({"status": {"phase": "Failed"}}), "failed: it has failed");
    check("v1/PersistentVolumeClaim", json!({"status": {"phase": "Bound"}}), "current");
    check("v1/PersistentVolumeClaim", json!({}), "in progress: it is Pending");
}

#[test]
fn an_object_takes_time_if_its_kind_has_a_controller_or_its_status_tells_of_one() {
    assert!(takes_time(&Gvk::parse("apps/v1", "Deployment"), None));
    assert!(!takes_time(&Gvk::parse("v1", "ConfigMap"), None));
    let widget = Gvk::parse("x.io/v1", "Widget");
    let takes_time = |status: Value| {
        let live =
            json!({"apiVersion": "x.io/v1", "kind": "Widget", "metadata": {"name": "a"}, "status": status});
        takes_time(&widget, Some(&Object::from_value(live).unwrap()))
    };
    assert!(takes_time(json!({"observedGeneration": 1})));
    assert!(takes_time(condition("Ready", "False", "")));
    assert!(!takes_time(condition("Other", "True", "")));
}
