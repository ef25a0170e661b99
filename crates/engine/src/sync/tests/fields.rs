//! Fields that others own.

use serde_json::{Value, json};

use super::hub::object;
use crate::sync::ignore::FieldPath;
use crate::sync::{ignore, kubectl};
use object::Object;

const OURS: &str = api::names::CONFIG_REPO_MANAGER;

/// Returns a Deployment with two containers.
fn deployment(replicas: i64, images: [&str; 2], managed_fields: Value) -> Object {
    let containers = json!([{"name": "web", "image": images[0]}, {"name": "log", "image": images[1]}]);
    let metadata = json!({"name": "d", "uid": "u", "resourceVersion": "7", "managedFields": managed_fields});
    let spec = json!({"replicas": replicas, "template": {"spec": {"containers": containers}}});
    object(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}))
}

fn entry(manager: &str, operation: &str, fields: Value) -> Value {
    json!({"manager": manager, "operation": operation, "apiVersion": "apps/v1", "time": "2026-01-02T03:04:05Z",
        "fieldsType": "FieldsV1", "fieldsV1": fields})
}

fn adopted(desired: &Object, live: &Object, paths: &[&str]) -> Value {
    let paths: Vec<_> = paths.iter().map(|path| FieldPath::parse(path).unwrap()).collect();
    ignore::adopted(desired, live, &paths.iter().collect::<Vec<_>>()).0["spec"].clone()
}

const IMAGE: &str = "/spec/template/spec/containers/[name=web]/image";

#[test]
fn an_ignored_field_gets_its_live_value_and_an_item_of_a_list_is_found_by_its_key() {
    let desired = deployment(1, ["web:1", "log:1"], json!([]));
    let mut live = deployment(5, ["web:9", "log:9"], json!([]));
    live.0["spec"]["template"]["spec"]["containers"].as_array_mut().unwrap().reverse();
    let spec = deployment(5, ["web:9", "log:1"], json!([])).0["spec"].clone();
    assert_eq!(adopted(&desired, &live, &["/spec/replicas", IMAGE]), spec);
}

#[test]
fn an_ignored_field_that_another_applies_is_left_out() {
    let container = json!({"k:{\"name\":\"web\"}": {"f:image": {}}});
    let theirs = json!({"f:spec": {"f:replicas": {}, "f:template": {"f:spec": {"f:containers": container}}}});
    let desired = deployment(1, ["web:1", "log:1"], json!([]));
    let by = |operation: &str| {
        deployment(5, ["web:9", "log:9"], json!([entry("other", operation, theirs.clone())]))
    };
    let left =
        json!({"template": {"spec": {"containers": [{"name": "web"}, {"name": "log", "image": "log:1"}]}}});
    assert_eq!(adopted(&desired, &by("Apply"), &["/spec/replicas", IMAGE]), left);
    let kept = deployment(5, ["web:9", "log:1"], json!([])).0["spec"].clone();
    assert_eq!(
        adopted(&desired, &by("Update"), &["/spec/replicas", IMAGE]),
        kept,
        "only an applier keeps a field"
    );
}

#[test]
fn the_fields_that_kubectl_applied_on_either_side_become_ours_and_those_of_people_stay() {
    let field = |name: &str| json!({"f:spec": {name: {}}});
    let people = entry("kubectl-edit", "Update", field("f:paused"));
    let scaled = json!({"manager": "kubectl", "operation": "Update", "apiVersion": "apps/v1", "subresource": "scale",
        "time": "2026-01-02T03:04:05Z", "fieldsType": "FieldsV1", "fieldsV1": field("f:replicas")});
    let entries = json!([
        entry(OURS, "Apply", field("f:selector")),
        entry("kubectl", "Apply", field("f:strategy")),
        entry("kubectl-client-side-apply", "Update", field("f:template")),
        people,
        scaled,
    ]);
    let live = deployment(1, ["a", "b"], entries);
    let taken = kubectl::take_over(&live, &live).unwrap();
    assert_eq!((taken.uid.as_str(), taken.resource_version.as_str()), ("u", "7"));
    let owned: Vec<(&str, &Value)> =
        taken.entries.iter().map(|entry| (entry["manager"].as_str().unwrap(), &entry["fieldsV1"])).collect();
    let ours = json!({"f:spec": {"f:selector": {}, "f:strategy": {}, "f:template": {}}});
    assert_eq!(owned[0], (OURS, &ours));
    let others: Vec<_> = owned[1..].iter().map(|(manager, _)| *manager).collect();
    assert_eq!(others, ["kubectl", "kubectl-edit"]);
    let after = deployment(1, ["a", "b"], json!(taken.entries));
    assert_eq!(kubectl::take_over(&after, &after), None);
}
