//! Tests of server-side apply through the store. The expected entries were observed on a real API server.

use serde_json::json;

use super::*;

fn apply(world: &mut World, manager: &str, config: Value, force: bool) -> Result<Written, ApiError> {
    let target = world.target(&config);
    let options = WriteOptions { force, ..WriteOptions::manager(manager) };
    world.store.patch(&target, &Patch::Apply(config), &options, world.now)
}

fn labeled(label: &str, data: Value) -> Value {
    let mut body = config_map("a", data);
    body["metadata"]["labels"] = json!({ "l": label });
    body
}

#[test]
fn owners_are_recorded_as_by_a_real_server() {
    let mut world = World::new();
    let target = world.target(&config_map("a", json!({}))).named("");
    let body = Object::from_value(labeled("1", json!({ "x": "y" }))).unwrap();
    let created = world.store.create(&target, body, &WriteOptions::manager("t"), world.now).unwrap().object;
    let entry = json!({"manager": "t", "operation": "Update", "apiVersion": "v1", "time": "2026-01-02T03:04:05Z", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {".": {}, "f:x": {}}, "f:metadata": {"f:labels": {".": {}, "f:l": {}}}}});
    assert_eq!(created.at(&["metadata", "managedFields"]), Some(&json!([entry])));
    let conflict = apply(&mut world, "ap", config_map("a", json!({ "x": "z", "w": "1" })), false);
    refused(conflict, 409, "Conflict", "Apply failed with 1 conflict: conflict with \"t\" using v1: .data.x");
    let both = apply(&mut world, "ap", labeled("2", json!({ "x": "z", "w": "1" })), false).unwrap_err();
    assert_eq!(
        both.message(),
        "Apply failed with 2 conflicts: conflicts with \"t\" using v1:\n- .data.x\n- .metadata.labels.l"
    );
    assert_eq!(both.causes()[1].field.as_deref(), Some(".metadata.labels.l"));
    let applied = apply(&mut world, "ap", labeled("2", json!({ "x": "z", "w": "1" })), true).unwrap().object;
    let fields: Vec<_> = applied
        .at(&["metadata", "managedFields"])
        .unwrap()
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["fieldsV1"].clone())
        .collect();
    let expected = [
        json!({"f:data": {"f:w": {}, "f:x": {}}, "f:metadata": {"f:labels": {"f:l": {}}}}),
        json!({"f:data": {}, "f:metadata": {"f:labels": {}}}),
    ];
    assert_eq!(fields, expected);
    let third = apply(&mut world, "aq", labeled("3", json!({ "x": "zz", "w": "1" })), false).unwrap_err();
    assert_eq!(
        third.message(),
        "Apply failed with 2 conflicts: conflicts with \"ap\":\n- .data.x\n- .metadata.labels.l"
    );
}

#[test]
fn an_apply_creates_what_is_missing_and_writes_nothing_twice() {
    let mut world = World::new();
    let first = apply(&mut world, "ap", config_map("a", json!({ "x": "1" })), false).unwrap();
    assert!(first.created);
    let again = apply(&mut world, "ap", config_map("a", json!({ "x": "1" })), false).unwrap();
    assert_eq!((again.created, &again.object), (false, &first.object));
}

#[test]
fn fields_that_are_no_longer_applied_are_removed() {
    let mut world = World::new();
    apply(&mut world, "a", config_map("a", json!({ "x": "1", "y": "1" })), false).unwrap();
    apply(&mut world, "b", config_map("a", json!({ "y": "1" })), false).unwrap();
    let left = apply(&mut world, "a", config_map("a", json!({})), false).unwrap().object;
    assert_eq!(left.at(&["data"]), Some(&json!({ "y": "1" })));
}

#[test]
fn an_apply_is_refused_before_it_is_merged() {
    let mut world = World::new();
    let message =
        "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch";
    refused(apply(&mut world, "", config_map("b", json!({})), false), 422, "Invalid", message);
    let mut unknown = config_map("b", json!({}));
    unknown["foo"] = 1.into();
    let message =
        "failed to create typed patch object (/b; /v1, Kind=ConfigMap): .foo: field not declared in schema";
    refused(apply(&mut world, "ap", unknown.clone(), false), 500, "", message);
    unknown["bar"] = 1.into();
    let message =
        "failed to create typed patch object (/b; /v1, Kind=ConfigMap): .bar: field not declared in schema";
    refused(apply(&mut world, "ap", unknown, false), 500, "", message);
    let mut mistyped = config_map("b", json!({}));
    mistyped["metadata"]["finalizers"] = json!([true]);
    let message = "failed to create typed patch object (/b; /v1, Kind=ConfigMap): .metadata.finalizers[0]: expected string, got true";
    refused(apply(&mut world, "ap", mistyped, false), 500, "", message);
    let mut managed = config_map("b", json!({}));
    managed["metadata"]["managedFields"] = json!([]);
    refused(apply(&mut world, "ap", managed, false), 400, "BadRequest", "metadata.managedFields must be nil");
    let target = world.target(&config_map("b", json!({})));
    let other = Patch::Apply(json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "b" } }));
    let refusal = world.store.patch(&target, &other, &WriteOptions::manager("ap"), world.now);
    refused(refusal, 400, "BadRequest", "invalid object type: /v1, Kind=Secret");
}

#[test]
fn status_is_applied_through_its_subresource_alone() {
    let mut world = World::new();
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]}}},
        "status": {"replicas": 1}});
    let object = apply(&mut world, "ap", deployment.clone(), false).unwrap().object;
    assert_eq!(object.at(&["status", "replicas"]), None);
    let fields = json!({"f:spec": {"f:selector": {}, "f:template": {"f:metadata": {"f:labels": {"f:a": {}}}, "f:spec": {"f:containers": {
        "k:{\"name\":\"c\"}": {".": {}, "f:image": {}, "f:name": {}, "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {},
        "f:containerPort": {}}}}}}}}});
    assert_eq!(object.0["metadata"]["managedFields"][0]["fieldsV1"], fields);
    let target = world.target(&deployment).sub("status");
    let patch = Patch::Apply(
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": 7}, "status": {"replicas": 1}}),
    );
    let object = world.store.patch(&target, &patch, &WriteOptions::manager("ap2"), world.now).unwrap().object;
    let entry = &object.0["metadata"]["managedFields"][1];
    assert_eq!(
        (&entry["fieldsV1"], &entry["subresource"]),
        (&json!({"f:status": {"f:replicas": {}}}), &json!("status"))
    );
    assert_ne!(object.at(&["spec", "replicas"]), Some(&json!(7)));
    assert_eq!(object.generation(), 1);
}

#[test]
fn an_integral_float_and_the_integer_are_one_value() {
    let mut world = World::new();
    let lease = |seconds: Value| {
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l", "namespace": "default"},
            "spec": {"leaseDurationSeconds": seconds}})
    };
    apply(&mut world, "a", lease(json!(60.0)), false).unwrap();
    let shared = apply(&mut world, "b", lease(json!(60)), false).unwrap().object;
    assert_eq!(shared.at(&["spec", "leaseDurationSeconds"]).unwrap().to_string(), "60");
}
