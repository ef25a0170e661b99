//! Tests for fields with other owners.

use serde_json::{Value, json};

use super::hub::{Hub, commit, object, rendered, repo};
use crate::sync::ignore::FieldPath;
use crate::sync::{Desired, IgnoreRule, ignore, kubectl};
use api::names;
use object::Object;

const OURS: &str = names::CONFIG_REPO_MANAGER;

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
    let expected = deployment(5, ["web:9", "log:1"], json!([])).0["spec"].clone();
    assert_eq!(
        adopted(&desired, &by("Update"), &["/spec/replicas", IMAGE]),
        expected,
        "only an applier keeps a field"
    );
    let paused = json!({"f:spec": {"f:paused": {}, "f:template": {}}});
    let live = deployment(5, ["web:9", "log:9"], json!([entry("other", "Apply", paused)]));
    assert_eq!(adopted(&desired, &live, &["/spec/replicas"])["replicas"], 5, "they apply another field");
}

#[test]
fn fields_applied_by_kubectl_become_ours_and_fields_edited_by_people_stay() {
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

#[test]
fn a_rule_leaves_fields_out_of_the_comparison_of_the_objects_that_it_names() {
    let compared = |rule: Value| {
        let rule = IgnoreRule::read(&serde_json::from_value(rule).unwrap()).unwrap();
        let mut wanted = deployment(1, ["web:1", "log:1"], json!([]));
        wanted.metadata_mut().insert("namespace".into(), "ns".into());
        commit(&[wanted]).objects[0].compared(&[rule]).at(&["spec", "replicas"]).is_none()
    };
    let all = json!({"paths": ["/spec/replicas"], "group": "apps", "kind": "Deployment",
        "namespace": "ns", "name": "d"});
    for field in ["group", "kind", "namespace", "name"] {
        let (mut any, mut other) = (all.clone(), all.clone());
        any[field] = "".into();
        other[field] = "other".into();
        assert!(compared(any), "a rule without a {field} is about any");
        assert!(!compared(other), "another {field}");
    }
    assert!(compared(all));
    assert!(!compared(json!({"paths": ["/spec/paused"]})));
    let wrong = IgnoreRule::read(&serde_json::from_value(json!({"paths": ["spec"]})).unwrap());
    let hint = "write a path such as /spec/replicas or /spec/template/spec/containers/[name=web]/image";
    assert_eq!(wrong.unwrap_err(), format!("spec.ignore: \"spec\" is not a field path; {hint}"));
}

#[test]
fn a_path_leaves_out_a_field_an_item_or_a_field_of_items() {
    let items = json!([{"name": "web", "port": 80, "x": 1}, {"name": "web", "port": 81, "x": 2},
        {"name": "log", "x": 3}]);
    let without = |path: &str| {
        let path = FieldPath::parse(path).unwrap();
        let whole = object(json!({"kind": "K", "spec": {"a/b": 1, "~": 2, "items": items}}));
        ignore::without(&whole, &[&path]).0["spec"].clone()
    };
    let spec = |items: Value| json!({"a/b": 1, "~": 2, "items": items});
    assert_eq!(without("/spec/items"), json!({"a/b": 1, "~": 2}));
    assert_eq!(without("/spec/items/[name=web]"), spec(json!([items[2]])));
    assert_eq!(without("/spec/items/[name=web,port=80]"), spec(json!([items[1], items[2]])));
    let left = json!([{"name": "web", "port": 80}, {"name": "web", "port": 81}, {"name": "log", "x": 3}]);
    assert_eq!(without("/spec/items/[name=web]/x"), spec(left));
    assert_eq!(without("/spec/a~1b"), json!({"~": 2, "items": items}));
    assert_eq!(without("/spec/~0"), json!({"a/b": 1, "items": items}));
    for nothing in [
        "/spec/items/x",
        "/spec/[name=web]",
        "/[name=web]",
        "/spec/a~1b/x",
        "/spec/items/[port=8]",
        "/spec/none/x",
    ] {
        assert_eq!(without(nothing), spec(items.clone()), "{nothing}");
    }
}

#[test]
fn a_field_that_identifies_an_object_cannot_be_ignored() {
    for path in ["/apiVersion", "/kind", "/kind/x", "/metadata", "/metadata/name", "/metadata/namespace"] {
        let reason = format!("{path:?} cannot be ignored, because it identifies the object");
        assert_eq!(FieldPath::parse(path), Err(reason));
    }
    for path in ["", "/", "spec", "/spec//x", "/spec/[name", "/spec/[name]"] {
        assert!(FieldPath::parse(path).unwrap_err().contains("is not a field path"), "{path:?}");
    }
    assert!(FieldPath::parse("/metadata/labels").is_ok() && FieldPath::parse("/spec/name").is_ok());
}

#[test]
fn an_ignored_item_gets_the_live_value_of_the_item_with_all_of_its_keys() {
    let with = |items: Value| object(json!({"kind": "K", "spec": {"items": items}}));
    let desired = with(json!([{"name": "web", "port": 80, "x": 1}, {"name": "web", "port": 81, "x": 2}]));
    let live = with(json!([{"name": "web", "port": 81, "x": 9}, {"name": "web", "port": 80, "x": 8}]));
    let of = |path: &str| adopted(&desired, &live, &[path])["items"].clone();
    let first = json!([{"name": "web", "port": 80, "x": 8}, {"name": "web", "port": 81, "x": 2}]);
    assert_eq!(of("/spec/items/[name=web,port=80]/x"), first);
    assert_eq!(of("/spec/items/[name=web,port=80]"), first);
    assert_eq!(of("/spec/items/[name=web,port=82]/x"), desired.0["spec"]["items"], "no such item");
    let absent = adopted(&desired, &live, &["/spec/none/x"]);
    assert_eq!(absent, desired.0["spec"], "the commit does not have the field");
}

/// Returns the Deployment of a commit, with annotations.
fn wanted(replicas: i64, annotations: Value) -> Object {
    let mut wanted = deployment(replicas, ["web:1", "log:1"], json!([]));
    wanted.metadata_mut().insert("namespace".into(), "ns".into());
    wanted.metadata_mut().insert("annotations".into(), annotations);
    wanted
}

#[test]
fn the_annotation_of_an_object_names_fields_that_are_left_as_they_are() {
    let ignoring = |paths: &str| json!({names::IGNORE_FIELDS_ANNOTATION: paths});
    let desired = commit(&[wanted(1, ignoring("/spec/replicas  /spec/template"))]);
    assert_eq!(desired.objects[0].compared(&[]).0["spec"], json!({}));
    let wrong = vec![rendered(wanted(1, ignoring("/spec/replicas spec")), "x.yaml", 1)];
    let problems = Desired::complete(&repo(), "ns", wrong, false, None).unwrap_err();
    let start = format!(
        "the annotation {} of Deployment.apps ns/d: \"spec\" is not a field path",
        names::IGNORE_FIELDS_ANNOTATION
    );
    assert!(problems[0].message.starts_with(&start), "{}", problems[0]);
}

#[test]
fn an_apply_keeps_live_values_of_ignored_fields_and_takes_over_fields_of_kubectl_unless_it_merges() {
    let check = |annotations: Value, replicas: Option<i64>, takes: bool| {
        let mut hub = Hub::new();
        hub.settle(&commit(&[wanted(1, annotations.clone())]));
        let fields = json!({"f:spec": {"f:replicas": {}}});
        hub.edit("d", |live| {
            live.0["spec"]["replicas"] = 5.into();
            let entries = json!([entry("kubectl-client-side-apply", "Update", fields)]);
            live.metadata_mut().insert("managedFields".into(), entries);
        });
        let next = commit(&[wanted(2, annotations.clone())]);
        let plan = hub.plan(&next);
        let apply = &plan.apply[0][0];
        let adopted = apply.adopted.as_ref().map(|object| object.0["spec"]["replicas"].as_i64().unwrap());
        assert_eq!((adopted, apply.managed_fields.is_some()), (replicas, takes), "{annotations}");
    };
    check(json!({}), None, true);
    check(json!({names::IGNORE_FIELDS_ANNOTATION: "/spec/replicas"}), Some(5), true);
    check(json!({names::APPLY_ANNOTATION: "Merge"}), None, false);
}
