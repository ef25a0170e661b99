use serde_json::{Value, json};

use super::*;

#[test]
fn an_object_takes_time_if_its_kind_has_a_controller_or_its_status_shows_one() {
    let takes_time = |version: &str, kind: &str, status: Option<Value>| {
        let desired = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}});
        let live = status.map(|status| {
            let mut live = desired.clone();
            live["status"] = status;
            Object::from_value(live).unwrap()
        });
        takes_time(&Object::from_value(desired).unwrap(), live.as_ref())
    };
    assert!(takes_time("apps/v1", "Deployment", None));
    assert!(takes_time("gitops.wheelwright.dev/v1alpha1", "ConfigRepo", None));
    assert!(!takes_time("v1", "ConfigMap", None));
    let widget = |status: Value| takes_time("x.io/v1", "Widget", Some(status));
    let condition = |type_: &str| json!({"conditions": [{"type": type_, "status": "False"}]});
    assert!(widget(json!({"observedGeneration": 1})));
    assert!(widget(condition("Ready")));
    assert!(!widget(condition("Other")));
}
