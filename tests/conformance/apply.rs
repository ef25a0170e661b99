//! Server-side apply: the owners of fields.

use serde_json::{Value, json};

use super::api::{APPLY, Api, MERGE, config_map, widget};
use super::cases;

cases![
    an_apply_creates_what_is_not_there,
    an_apply_needs_a_manager,
    an_apply_of_the_same_changes_nothing,
    an_apply_removes_what_it_no_longer_names,
    an_apply_that_does_not_fit_the_schema_is_an_error_that_names_the_field,
    an_apply_of_anothers_field_conflicts,
    a_forced_apply_takes_the_field,
    the_same_value_is_shared,
    an_update_owns_what_it_changed,
    an_apply_merges_lists_by_their_keys,
    an_apply_merges_sets,
    an_apply_replaces_atomic_lists_whole,
    an_apply_through_status_owns_status_alone,
    managed_fields_name_manager_operation_and_version,
    managed_fields_can_be_cleared,
];

fn managers(body: &Value) -> Vec<(String, String)> {
    let entries =
        body.pointer("/metadata/managedFields").and_then(Value::as_array).cloned().unwrap_or_default();
    entries
        .iter()
        .map(|e| (e["manager"].as_str().unwrap().to_owned(), e["operation"].as_str().unwrap().to_owned()))
        .collect()
}

async fn an_apply_creates_what_is_not_there(api: Api) {
    let reply = api.apply(&api.config_map("a"), "one", &config_map("a", json!({ "k": "v" }))).await.is(201);
    assert_eq!(managers(&reply.body), [("one".to_owned(), "Apply".to_owned())]);
    let fields = reply.at("/metadata/managedFields/0/fieldsV1");
    assert_eq!(fields, json!({ "f:data": { "f:k": {} } }));
}

async fn an_apply_needs_a_manager(api: Api) {
    let reply =
        api.patch(&api.config_map("a"), APPLY, &config_map("a", json!({}))).await.refused(422, "Invalid");
    reply.blames("fieldManager", "FieldValueRequired");
}

async fn an_apply_of_the_same_changes_nothing(api: Api) {
    let first = api.apply(&api.widget("a"), "one", &widget("a", json!({ "size": 4 }))).await.is(201);
    let second = api.apply(&api.widget("a"), "one", &widget("a", json!({ "size": 4 }))).await.is(200);
    assert_eq!(first.version(), second.version());
}

async fn an_apply_removes_what_it_no_longer_names(api: Api) {
    api.apply(&api.config_map("a"), "one", &config_map("a", json!({ "k": "v", "l": "w" }))).await.is(201);
    api.patch(&api.config_map("a"), MERGE, &json!({ "data": { "other": "x" } })).await.is(200);
    let reply = api.apply(&api.config_map("a"), "one", &config_map("a", json!({ "k": "v" }))).await.is(200);
    reply.has("/data", json!({ "k": "v", "other": "x" }));
}

async fn an_apply_that_does_not_fit_the_schema_is_an_error_that_names_the_field(api: Api) {
    let unknown = "field not declared in schema";
    let map = |field: &str, value: Value| {
        let mut map = config_map("a", json!({}));
        map[field] = value;
        map
    };
    let of_map = "failed to create typed patch object (/a; /v1, Kind=ConfigMap): ";
    let of_widget = "failed to create typed patch object (/a; conformance.wheelwright.dev/v1, Kind=Widget): ";
    let (maps, widgets) = (api.config_map("a"), api.widget("a"));
    for (path, object, message) in [
        (&maps, map("dat", json!({})), format!("{of_map}.dat: {unknown}")),
        (&maps, map("immutable", json!("yes")), format!("{of_map}.immutable: expected boolean, got ")),
        (&maps, map("data", json!([])), format!("{of_map}.data: expected map, got ")),
        (&widgets, widget("a", json!({ "siz": 1 })), format!("{of_widget}.spec.siz: {unknown}")),
        (
            &widgets,
            widget("a", json!({ "size": "three" })),
            format!("{of_widget}.spec.size: expected numeric (int or float), got "),
        ),
        (&widgets, widget("a", json!({ "siz": 1, "sze": 1 })), format!("{of_widget}.spec.s")),
    ] {
        for options in ["fieldManager=one", "fieldManager=one&dryRun=All&force=true"] {
            let reply = api.patch(&format!("{path}?{options}"), APPLY, &object).await.is(500).says(&message);
            assert_eq!(reply.body["reason"], Value::Null, "{}", reply.body);
        }
    }
}

async fn an_apply_of_anothers_field_conflicts(api: Api) {
    api.apply(&api.config_map("a"), "one", &config_map("a", json!({ "k": "v" }))).await.is(201);
    let reply = api
        .apply(&api.config_map("a"), "two", &config_map("a", json!({ "k": "w" })))
        .await
        .refused(409, "Conflict");
    reply
        .blames(".data.k", "FieldManagerConflict")
        .says("Apply failed with 1 conflict: conflict with \"one\": .data.k");
}

async fn a_forced_apply_takes_the_field(api: Api) {
    api.apply(&api.config_map("a"), "one", &config_map("a", json!({ "k": "v", "l": "w" }))).await.is(201);
    let path = format!("{}?fieldManager=two&force=true", api.config_map("a"));
    let reply = api
        .patch(&path, APPLY, &config_map("a", json!({ "k": "w" })))
        .await
        .is(200)
        .has("/data/k", json!("w"));
    assert_eq!(managers(&reply.body).len(), 2);
    // When the first manager drops a field that it has lost, the field stays.
    let reply = api.apply(&api.config_map("a"), "one", &config_map("a", json!({ "l": "w" }))).await.is(200);
    reply.has("/data", json!({ "k": "w", "l": "w" }));
}

async fn the_same_value_is_shared(api: Api) {
    api.apply(&api.config_map("a"), "one", &config_map("a", json!({ "k": "v" }))).await.is(201);
    api.apply(&api.config_map("a"), "two", &config_map("a", json!({ "k": "v" }))).await.is(200);
    api.apply(&api.config_map("a"), "one", &config_map("a", json!({})))
        .await
        .is(200)
        .has("/data/k", json!("v"));
    api.apply(&api.config_map("a"), "two", &config_map("a", json!({})))
        .await
        .is(200)
        .has("/data/k", json!(null));
}

async fn an_update_owns_what_it_changed(api: Api) {
    api.apply(&api.config_map("a"), "one", &config_map("a", json!({ "k": "v", "l": "w" }))).await.is(201);
    let path = format!("{}?fieldManager=editor", api.config_map("a"));
    let reply = api.patch(&path, MERGE, &json!({ "data": { "k": "x" } })).await.is(200);
    assert_eq!(managers(&reply.body), [("one".into(), "Apply".into()), ("editor".into(), "Update".into())]);
    api.apply(&api.config_map("a"), "one", &config_map("a", json!({ "k": "v", "l": "w" })))
        .await
        .refused(409, "Conflict")
        .says("\"editor\"");
}

async fn an_apply_merges_lists_by_their_keys(api: Api) {
    let port = |port: i64, name: &str| json!({ "port": port, "name": name });
    api.apply(&api.widget("a"), "one", &widget("a", json!({ "ports": [port(80, "a")] }))).await.is(201);
    let reply =
        api.apply(&api.widget("a"), "two", &widget("a", json!({ "ports": [port(81, "b")] }))).await.is(200);
    let want = json!([{ "port": 80, "name": "a", "protocol": "TCP" }, { "port": 81, "name": "b", "protocol": "TCP" }]);
    let reply = reply.has("/spec/ports", want);
    let owned = reply.at("/metadata/managedFields/1/fieldsV1/f:spec/f:ports");
    assert_eq!(
        owned,
        json!({ r#"k:{"port":81,"protocol":"TCP"}"#: { ".": {}, "f:name": {}, "f:port": {} } })
    );
    let reply = api.apply(&api.widget("a"), "one", &widget("a", json!({}))).await.is(200);
    reply.has("/spec/ports", json!([{ "port": 81, "name": "b", "protocol": "TCP" }]));
}

async fn an_apply_merges_sets(api: Api) {
    api.apply(&api.widget("a"), "one", &widget("a", json!({ "tags": ["a", "b"] }))).await.is(201);
    api.apply(&api.widget("a"), "two", &widget("a", json!({ "tags": ["b", "c"] })))
        .await
        .is(200)
        .has("/spec/tags", json!(["a", "b", "c"]));
    api.apply(&api.widget("a"), "one", &widget("a", json!({ "tags": [] })))
        .await
        .is(200)
        .has("/spec/tags", json!(["b", "c"]));
}

async fn an_apply_replaces_atomic_lists_whole(api: Api) {
    api.apply(&api.widget("a"), "one", &widget("a", json!({ "steps": ["a", "b"] }))).await.is(201);
    api.apply(&api.widget("a"), "one", &widget("a", json!({ "steps": ["c"] })))
        .await
        .is(200)
        .has("/spec/steps", json!(["c"]));
    api.apply(&api.widget("a"), "two", &widget("a", json!({ "steps": ["d"] })))
        .await
        .refused(409, "Conflict")
        .blames(".spec.steps", "FieldManagerConflict");
}

async fn an_apply_through_status_owns_status_alone(api: Api) {
    api.apply(&api.widget("a"), "one", &widget("a", json!({ "size": 4 }))).await.is(201);
    let mut body = widget("a", json!({ "size": 9 }));
    body["status"] = json!({ "phase": "Up" });
    let reply = api.apply(&format!("{}/status", api.widget("a")), "two", &body).await.is(200);
    let reply = reply
        .has("/spec/size", json!(4))
        .has("/status/phase", json!("Up"))
        .has("/metadata/managedFields/1/subresource", json!("status"));
    assert_eq!(reply.at("/metadata/managedFields/1/fieldsV1"), json!({ "f:status": { "f:phase": {} } }));
    // Applying the object itself ignores its status.
    let mut body = widget("a", json!({ "size": 4 }));
    body["status"] = json!({ "phase": "Down" });
    api.apply(&api.widget("a"), "one", &body).await.is(200).has("/status/phase", json!("Up"));
}

async fn managed_fields_name_manager_operation_and_version(api: Api) {
    let path = format!("{}?fieldManager=creator", api.config_map(""));
    let reply = api.post(&path, &config_map("a", json!({ "k": "v" }))).await.is(201);
    let entry = reply.at("/metadata/managedFields/0");
    assert_eq!(
        (&entry["manager"], &entry["operation"], &entry["apiVersion"]),
        (&json!("creator"), &json!("Update"), &json!("v1"))
    );
    assert_eq!(
        (&entry["fieldsType"], &entry["fieldsV1"]),
        (&json!("FieldsV1"), &json!({ "f:data": { ".": {}, "f:k": {} } }))
    );
}

async fn managed_fields_can_be_cleared(api: Api) {
    api.apply(&api.config_map("a"), "one", &config_map("a", json!({ "k": "v" }))).await.is(201);
    let reply = api
        .patch(&api.config_map("a"), MERGE, &json!({ "metadata": { "managedFields": [{}] } }))
        .await
        .is(200);
    reply.has("/metadata/managedFields", json!(null));
}
