//! Create, get, update: names, versions, generations, preconditions.

use axum::http::Method;
use serde_json::json;

use super::api::{Api, config_map, widget};
use super::cases;

cases![
    a_created_object_gets_identity_and_time,
    a_name_is_taken_once,
    a_generated_name_begins_as_asked,
    an_object_without_a_name_is_refused,
    a_name_that_is_no_subdomain_is_refused,
    the_body_must_be_of_the_kind_of_the_path,
    the_body_must_be_of_the_namespace_of_the_path,
    a_body_that_is_no_json_is_refused,
    a_resource_version_is_nothing_to_create_with,
    a_namespace_must_exist,
    an_absent_object_is_not_found,
    an_update_replaces_everything_but_the_system_fields,
    an_update_from_an_old_version_conflicts,
    an_update_without_a_version_overwrites,
    an_update_that_changes_nothing_keeps_the_version,
    an_update_may_not_change_the_name,
    an_update_of_another_uid_conflicts,
    an_update_of_nothing_is_not_found,
    generation_counts_changes_of_the_spec,
    built_in_kinds_without_a_spec_have_no_generation,
    labels_must_be_valid,
    an_immutable_config_map_stays_as_it_is,
    a_secret_takes_text_and_keeps_bytes,
    unknown_resources_are_not_found,
    methods_that_mean_nothing_are_not_allowed,
    a_lease_counts_time_in_microseconds,
];

async fn a_created_object_gets_identity_and_time(api: Api) {
    let reply = api.post(&api.config_map(""), &config_map("a", json!({ "k": "v" }))).await.is(201);
    let reply = reply
        .has("/kind", json!("ConfigMap"))
        .has("/metadata/namespace", json!(api.namespace))
        .has("/data/k", json!("v"));
    assert_eq!(
        (reply.text("/metadata/uid").len(), reply.text("/metadata/creationTimestamp").len()),
        (36, 20)
    );
    assert!(reply.version().parse::<u64>().unwrap() > 0);
    api.get(&api.config_map("a")).await.is(200).has("/metadata/uid", reply.at("/metadata/uid"));
}

async fn a_name_is_taken_once(api: Api) {
    api.post(&api.config_map(""), &config_map("a", json!({}))).await.is(201);
    let reply =
        api.post(&api.config_map(""), &config_map("a", json!({}))).await.refused(409, "AlreadyExists");
    reply
        .says("configmaps \"a\" already exists")
        .has("/details/name", json!("a"))
        .has("/details/kind", json!("configmaps"));
}

async fn a_generated_name_begins_as_asked(api: Api) {
    let mut body = config_map("", json!({}));
    body["metadata"] = json!({ "generateName": "made-" });
    let name = api.post(&api.config_map(""), &body).await.is(201).text("/metadata/name");
    assert!(name.starts_with("made-") && name.len() == 10, "{name}");
}

async fn an_object_without_a_name_is_refused(api: Api) {
    let mut body = config_map("", json!({}));
    body["metadata"] = json!({});
    api.post(&api.config_map(""), &body)
        .await
        .refused(422, "Invalid")
        .says("name or generateName is required");
}

async fn a_name_that_is_no_subdomain_is_refused(api: Api) {
    let reply =
        api.post(&api.config_map(""), &config_map("No_Name", json!({}))).await.refused(422, "Invalid");
    reply.blames("metadata.name", "FieldValueInvalid").says("a lowercase RFC 1123 subdomain must consist of");
}

async fn the_body_must_be_of_the_kind_of_the_path(api: Api) {
    api.post(&api.config_map(""), &widget("a", json!({}))).await.refused(400, "BadRequest");
}

async fn the_body_must_be_of_the_namespace_of_the_path(api: Api) {
    let mut body = config_map("a", json!({}));
    body["metadata"]["namespace"] = json!("default");
    api.post(&api.config_map(""), &body)
        .await
        .refused(400, "BadRequest")
        .says("does not match the namespace");
}

async fn a_body_that_is_no_json_is_refused(api: Api) {
    let headers = [("content-type", "application/json")];
    api.send(Method::POST, &api.config_map(""), &headers, Some("{".into())).await.refused(400, "BadRequest");
    let headers = [("content-type", "text/plain")];
    api.send(Method::POST, &api.config_map(""), &headers, Some("{}".into()))
        .await
        .refused(415, "UnsupportedMediaType");
}

async fn a_resource_version_is_nothing_to_create_with(api: Api) {
    let mut body = config_map("a", json!({}));
    body["metadata"]["resourceVersion"] = json!("1");
    let reply = api.post(&api.config_map(""), &body).await.is(500);
    reply.says("resourceVersion should not be set on objects to be created");
}

async fn a_namespace_must_exist(api: Api) {
    let reply = api
        .post("/api/v1/namespaces/nowhere/configmaps", &config_map("a", json!({})))
        .await
        .refused(404, "NotFound");
    reply.says("namespaces \"nowhere\" not found");
}

async fn an_absent_object_is_not_found(api: Api) {
    let reply = api.get(&api.config_map("a")).await.refused(404, "NotFound");
    reply.says("configmaps \"a\" not found").has("/details", json!({ "name": "a", "kind": "configmaps" }));
    let reply = api.get(&api.widget("a")).await.refused(404, "NotFound");
    reply
        .says("widgets.conformance.wheelwright.dev \"a\" not found")
        .has("/details/group", json!("conformance.wheelwright.dev"));
}

async fn an_update_replaces_everything_but_the_system_fields(api: Api) {
    let created =
        api.post(&api.config_map(""), &config_map("a", json!({ "k": "v", "l": "w" }))).await.is(201);
    let mut body = config_map("a", json!({ "k": "x" }));
    body["metadata"]["labels"] = json!({ "new": "yes" });
    body["metadata"]["creationTimestamp"] = json!("2001-01-01T00:00:00Z");
    let updated = api
        .put(&api.config_map("a"), &body)
        .await
        .is(200)
        .has("/data", json!({ "k": "x" }))
        .has("/metadata/labels/new", json!("yes"));
    let updated = updated.has("/metadata/uid", created.at("/metadata/uid"));
    let updated = updated.has("/metadata/creationTimestamp", created.at("/metadata/creationTimestamp"));
    assert_ne!(created.version(), updated.version());
}

async fn an_update_from_an_old_version_conflicts(api: Api) {
    let created = api.post(&api.config_map(""), &config_map("a", json!({}))).await.is(201);
    let mut body = created.body.clone();
    body["data"] = json!({ "k": "1" });
    api.put(&api.config_map("a"), &body).await.is(200);
    body["data"] = json!({ "k": "2" });
    let reply = api.put(&api.config_map("a"), &body).await.refused(409, "Conflict");
    reply.says("Operation cannot be fulfilled on configmaps \"a\": the object has been modified");
}

async fn an_update_without_a_version_overwrites(api: Api) {
    api.post(&api.config_map(""), &config_map("a", json!({}))).await.is(201);
    api.put(&api.config_map("a"), &config_map("a", json!({ "k": "1" }))).await.is(200);
    api.post(&api.widgets(), &widget("a", json!({}))).await.is(201);
    let reply = api.put(&api.widget("a"), &widget("a", json!({ "size": 4 }))).await.refused(422, "Invalid");
    reply.blames("metadata.resourceVersion", "FieldValueInvalid").says("must be specified for an update");
}

async fn an_update_that_changes_nothing_keeps_the_version(api: Api) {
    let created = api.post(&api.config_map(""), &config_map("a", json!({ "k": "v" }))).await.is(201);
    api.put(&api.config_map("a"), &created.body)
        .await
        .is(200)
        .has("/metadata/resourceVersion", json!(created.version()));
}

async fn an_update_may_not_change_the_name(api: Api) {
    api.post(&api.config_map(""), &config_map("a", json!({}))).await.is(201);
    api.put(&api.config_map("a"), &config_map("b", json!({})))
        .await
        .refused(400, "BadRequest")
        .says("the name of the object (b) does not match the name on the URL (a)");
}

async fn an_update_of_another_uid_conflicts(api: Api) {
    let mut body = api.post(&api.config_map(""), &config_map("a", json!({}))).await.is(201).body;
    body["metadata"]["uid"] = json!("00000000-0000-4000-8000-000000000000");
    api.put(&api.config_map("a"), &body)
        .await
        .refused(409, "Conflict")
        .says("Precondition failed: UID in precondition");
}

async fn an_update_of_nothing_is_not_found(api: Api) {
    api.put(&api.config_map("a"), &config_map("a", json!({}))).await.refused(404, "NotFound");
}

async fn generation_counts_changes_of_the_spec(api: Api) {
    let created = api
        .post(&api.widgets(), &widget("a", json!({ "size": 1 })))
        .await
        .is(201)
        .has("/metadata/generation", json!(1));
    let mut body = created.body;
    body["metadata"]["labels"] = json!({ "a": "b" });
    let mut body = api.put(&api.widget("a"), &body).await.is(200).has("/metadata/generation", json!(1)).body;
    body["spec"]["size"] = json!(2);
    api.put(&api.widget("a"), &body).await.is(200).has("/metadata/generation", json!(2));
}

async fn built_in_kinds_without_a_spec_have_no_generation(api: Api) {
    api.post(&api.config_map(""), &config_map("a", json!({})))
        .await
        .is(201)
        .has("/metadata/generation", json!(null));
}

async fn labels_must_be_valid(api: Api) {
    let mut body = config_map("a", json!({}));
    body["metadata"]["labels"] = json!({ "a b": "c" });
    api.post(&api.config_map(""), &body)
        .await
        .refused(422, "Invalid")
        .blames("metadata.labels", "FieldValueInvalid");
    body["metadata"]["labels"] = json!({ "a": "-" });
    api.post(&api.config_map(""), &body)
        .await
        .refused(422, "Invalid")
        .blames("metadata.labels", "FieldValueInvalid");
}

async fn an_immutable_config_map_stays_as_it_is(api: Api) {
    let mut body = config_map("a", json!({ "k": "v" }));
    body["immutable"] = json!(true);
    api.post(&api.config_map(""), &body).await.is(201);
    body["data"]["k"] = json!("w");
    let reply = api.put(&api.config_map("a"), &body).await.refused(422, "Invalid");
    reply.blames("data", "FieldValueForbidden").says("field is immutable when `immutable` is set");
}

async fn a_secret_takes_text_and_keeps_bytes(api: Api) {
    let body = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "a" }, "stringData": { "k": "v" } });
    let reply = api.post(&api.core("secrets", ""), &body).await.is(201);
    reply.has("/data", json!({ "k": "dg==" })).has("/stringData", json!(null)).has("/type", json!("Opaque"));
}

async fn unknown_resources_are_not_found(api: Api) {
    api.get(&api.core("nothings", "")).await.is(404);
    api.get("/apis/nowhere.io/v1/things").await.is(404);
}

async fn methods_that_mean_nothing_are_not_allowed(api: Api) {
    api.send(Method::POST, &api.config_map("a"), &[("content-type", "application/json")], Some("{}".into()))
        .await
        .refused(405, "MethodNotAllowed");
    api.put(&api.config_map(""), &config_map("a", json!({}))).await.refused(405, "MethodNotAllowed");
}

async fn a_lease_counts_time_in_microseconds(api: Api) {
    let spec = json!({ "holderIdentity": "me", "leaseDurationSeconds": 60, "renewTime": "2026-01-01T00:00:00.000001Z" });
    let body = json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": "a" }, "spec": spec });
    let path = api.group("coordination.k8s.io/v1", "leases", "");
    api.post(&path, &body).await.is(201).has("/spec/renewTime", json!("2026-01-01T00:00:00.000001Z"));
}
