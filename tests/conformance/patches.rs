//! JSON, merge and strategic patches.

use serde_json::json;

use super::api::{Api, JSON_PATCH, MERGE, STRATEGIC, config_map, widget};
use super::cases;

cases![
    a_merge_patch_changes_what_it_names,
    a_merge_patch_with_an_old_version_conflicts,
    a_json_patch_changes_what_it_points_at,
    a_json_patch_whose_test_fails_is_refused,
    a_json_patch_that_points_nowhere_is_refused,
    a_strategic_patch_merges_lists_by_key,
    a_strategic_patch_deletes_by_directive,
    a_strategic_patch_of_a_custom_resource_is_refused,
    a_patch_of_an_unknown_type_is_refused,
    a_patch_of_nothing_is_not_found,
    a_patch_that_changes_nothing_keeps_the_version,
    a_patch_may_not_move_an_object,
];

async fn a_merge_patch_changes_what_it_names(api: Api) {
    api.post(&api.config_map(""), &config_map("a", json!({ "k": "v", "l": "w" }))).await.is(201);
    let reply = api.patch(&api.config_map("a"), MERGE, &json!({ "data": { "k": "x", "l": null } })).await;
    reply.is(200).has("/data", json!({ "k": "x" }));
}

async fn a_merge_patch_with_an_old_version_conflicts(api: Api) {
    let created = api.post(&api.config_map(""), &config_map("a", json!({}))).await.is(201);
    let patch =
        |value: &str| json!({ "metadata": { "resourceVersion": created.version() }, "data": { "k": value } });
    api.patch(&api.config_map("a"), MERGE, &patch("1")).await.is(200);
    api.patch(&api.config_map("a"), MERGE, &patch("2")).await.refused(409, "Conflict");
}

async fn a_json_patch_changes_what_it_points_at(api: Api) {
    api.post(&api.widgets(), &widget("a", json!({ "steps": ["a", "b"] }))).await.is(201);
    let patch = json!([
        { "op": "test", "path": "/spec/steps/0", "value": "a" },
        { "op": "add", "path": "/spec/steps/-", "value": "c" },
        { "op": "remove", "path": "/spec/steps/0" },
        { "op": "replace", "path": "/spec/size", "value": 5 },
    ]);
    api.patch(&api.widget("a"), JSON_PATCH, &patch)
        .await
        .is(200)
        .has("/spec/steps", json!(["b", "c"]))
        .has("/spec/size", json!(5));
}

async fn a_json_patch_whose_test_fails_is_refused(api: Api) {
    api.post(&api.config_map(""), &config_map("a", json!({ "k": "v" }))).await.is(201);
    let patch = json!([{ "op": "test", "path": "/data/k", "value": "other" }]);
    api.patch(&api.config_map("a"), JSON_PATCH, &patch).await.refused(422, "Invalid");
}

async fn a_json_patch_that_points_nowhere_is_refused(api: Api) {
    api.post(&api.config_map(""), &config_map("a", json!({ "k": "v" }))).await.is(201);
    let patch = json!([{ "op": "remove", "path": "/data/none" }]);
    api.patch(&api.config_map("a"), JSON_PATCH, &patch).await.refused(422, "Invalid");
}

fn deployment() -> serde_json::Value {
    let container = |name: &str| json!({ "name": name, "image": format!("{name}:1") });
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": "a" },
        "spec": {
            "selector": { "matchLabels": { "app": "a" } },
            "template": { "metadata": { "labels": { "app": "a" } }, "spec": { "containers": [container("one"), container("two")] } },
        },
    })
}

async fn a_strategic_patch_merges_lists_by_key(api: Api) {
    let path = api.group("apps/v1", "deployments", "");
    api.post(&path, &deployment()).await.is(201);
    let patch = json!({ "spec": { "template": { "spec": { "containers": [{ "name": "two", "image": "two:2" }] } } } });
    let reply = api.patch(&format!("{path}/a"), STRATEGIC, &patch).await.is(200);
    let images: Vec<_> = reply
        .at("/spec/template/spec/containers")
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["image"].clone())
        .collect();
    assert_eq!(json!(images), json!(["one:1", "two:2"]));
}

async fn a_strategic_patch_deletes_by_directive(api: Api) {
    let path = api.group("apps/v1", "deployments", "");
    api.post(&path, &deployment()).await.is(201);
    let patch = json!({ "spec": { "template": { "spec": { "containers": [{ "name": "one", "$patch": "delete" }] } } } });
    let reply = api.patch(&format!("{path}/a"), STRATEGIC, &patch).await.is(200);
    assert_eq!(reply.at("/spec/template/spec/containers").as_array().unwrap().len(), 1);
}

async fn a_strategic_patch_of_a_custom_resource_is_refused(api: Api) {
    api.post(&api.widgets(), &widget("a", json!({}))).await.is(201);
    api.patch(&api.widget("a"), STRATEGIC, &json!({ "spec": { "size": 2 } }))
        .await
        .refused(415, "UnsupportedMediaType");
}

async fn a_patch_of_an_unknown_type_is_refused(api: Api) {
    api.post(&api.config_map(""), &config_map("a", json!({}))).await.is(201);
    api.patch(&api.config_map("a"), "application/json", &json!({}))
        .await
        .refused(415, "UnsupportedMediaType");
}

async fn a_patch_of_nothing_is_not_found(api: Api) {
    api.patch(&api.config_map("a"), MERGE, &json!({ "data": {} })).await.refused(404, "NotFound");
}

async fn a_patch_that_changes_nothing_keeps_the_version(api: Api) {
    let created = api.post(&api.config_map(""), &config_map("a", json!({ "k": "v" }))).await.is(201);
    let reply = api.patch(&api.config_map("a"), MERGE, &json!({ "data": { "k": "v" } })).await.is(200);
    assert_eq!(reply.version(), created.version());
}

async fn a_patch_may_not_move_an_object(api: Api) {
    api.post(&api.config_map(""), &config_map("a", json!({}))).await.is(201);
    api.patch(&api.config_map("a"), MERGE, &json!({ "metadata": { "namespace": "default" } }))
        .await
        .refused(400, "BadRequest");
    api.patch(&api.config_map("a"), MERGE, &json!({ "metadata": { "name": "b" } }))
        .await
        .refused(400, "BadRequest");
}
