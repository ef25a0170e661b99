//! Deletion: preconditions, finalizers, owners, namespaces.

use serde_json::{Value, json};

use super::api::{Api, MERGE, config_map, labeled};
use super::cases;

cases![
    a_deleted_object_is_gone,
    a_deletion_of_nothing_is_not_found,
    a_deletion_wants_its_preconditions,
    finalizers_hold_an_object,
    a_terminating_object_takes_no_new_finalizers,
    a_collection_is_deleted_by_selector,
    dependents_go_with_their_owner,
    orphans_stay_without_their_owner,
    a_foreground_deletion_waits_for_dependents,
    an_object_with_another_owner_stays,
    a_dependent_of_an_owner_that_never_was_goes,
    a_namespace_goes_with_all_it_holds,
    a_terminating_namespace_takes_nothing_new,
    a_propagation_that_does_not_exist_is_refused,
];

async fn a_deleted_object_is_gone(api: Api) {
    let created = api.post(&api.config_map(""), &config_map("a", json!({}))).await.is(201);
    let reply = api
        .delete(&api.config_map("a"), json!({}))
        .await
        .is(200)
        .has("/kind", json!("Status"))
        .has("/status", json!("Success"));
    let details = json!({ "name": "a", "kind": "configmaps", "uid": created.at("/metadata/uid") });
    reply.has("/details", details);
    api.get(&api.config_map("a")).await.is(404);
}

async fn a_deletion_of_nothing_is_not_found(api: Api) {
    api.delete(&api.config_map("a"), json!({})).await.refused(404, "NotFound");
}

async fn a_deletion_wants_its_preconditions(api: Api) {
    let created = api.post(&api.config_map(""), &config_map("a", json!({}))).await.is(201);
    let wrong = json!({ "preconditions": { "uid": "00000000-0000-4000-8000-000000000000" } });
    api.delete(&api.config_map("a"), wrong)
        .await
        .refused(409, "Conflict")
        .says("the UID in the precondition");
    api.delete(&api.config_map("a"), json!({ "preconditions": { "resourceVersion": "1" } }))
        .await
        .refused(409, "Conflict");
    let right = json!({ "preconditions": { "uid": created.at("/metadata/uid"), "resourceVersion": created.version() } });
    api.delete(&api.config_map("a"), right).await.is(200);
}

fn with_finalizer(name: &str) -> Value {
    let mut body = config_map(name, json!({}));
    body["metadata"]["finalizers"] = json!(["example.io/hold"]);
    body
}

async fn finalizers_hold_an_object(api: Api) {
    api.post(&api.config_map(""), &with_finalizer("a")).await.is(201);
    let going = api.delete(&api.config_map("a"), json!({})).await.is(200).has("/kind", json!("ConfigMap"));
    assert_eq!(going.text("/metadata/deletionTimestamp").len(), 20);
    let again = api.delete(&api.config_map("a"), json!({})).await.is(200);
    again.has("/metadata/deletionTimestamp", going.at("/metadata/deletionTimestamp"));
    api.patch(&api.config_map("a"), MERGE, &json!({ "metadata": { "finalizers": null } })).await.is(200);
    api.get(&api.config_map("a")).await.is(404);
}

async fn a_terminating_object_takes_no_new_finalizers(api: Api) {
    api.post(&api.config_map(""), &with_finalizer("a")).await.is(201);
    api.delete(&api.config_map("a"), json!({})).await.is(200);
    let more = json!({ "metadata": { "finalizers": ["example.io/hold", "example.io/more"] } });
    let reply = api.patch(&api.config_map("a"), MERGE, &more).await.refused(422, "Invalid");
    reply
        .blames("metadata.finalizers", "FieldValueForbidden")
        .says("no new finalizers can be added if the object is being deleted");
    api.patch(&api.config_map("a"), MERGE, &json!({ "metadata": { "finalizers": null } })).await.is(200);
}

async fn a_collection_is_deleted_by_selector(api: Api) {
    for (name, label) in [("a", "x"), ("b", "y"), ("c", "x")] {
        api.post(&api.config_map(""), &labeled(config_map(name, json!({})), json!({ "l": label })))
            .await
            .is(201);
    }
    api.delete(&format!("{}?labelSelector=l%3Dx", api.config_map("")), json!({}))
        .await
        .is(200)
        .has("/kind", json!("ConfigMapList"));
    assert_eq!(api.get(&format!("{}?labelSelector=l", api.config_map(""))).await.names(), ["b"]);
}

fn owned(name: &str, owners: &[(&str, &Value, bool)]) -> Value {
    let mut body = config_map(name, json!({}));
    let reference = |(name, uid, block): &(&str, &Value, bool)| json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, "blockOwnerDeletion": block });
    body["metadata"]["ownerReferences"] = owners.iter().map(reference).collect();
    body
}

async fn owner(api: &Api, name: &str) -> Value {
    api.post(&api.config_map(""), &config_map(name, json!({}))).await.is(201).at("/metadata/uid")
}

async fn dependents_go_with_their_owner(api: Api) {
    let uid = owner(&api, "a").await;
    let child =
        api.post(&api.config_map(""), &owned("b", &[("a", &uid, false)])).await.is(201).at("/metadata/uid");
    api.post(&api.config_map(""), &owned("c", &[("b", &child, false)])).await.is(201);
    api.delete(&api.config_map("a"), json!({ "propagationPolicy": "Background" })).await.is(200);
    api.until_gone(&api.config_map("b")).await;
    api.until_gone(&api.config_map("c")).await;
}

async fn orphans_stay_without_their_owner(api: Api) {
    let uid = owner(&api, "a").await;
    api.post(&api.config_map(""), &owned("b", &[("a", &uid, false)])).await.is(201);
    api.delete(&api.config_map("a"), json!({ "propagationPolicy": "Orphan" })).await.is(200);
    api.until_gone(&api.config_map("a")).await;
    api.until(&api.config_map("b"), |reply| {
        reply.code == 200 && reply.at("/metadata/ownerReferences").is_null()
    })
    .await;
}

async fn a_foreground_deletion_waits_for_dependents(api: Api) {
    let uid = owner(&api, "a").await;
    let mut child = owned("b", &[("a", &uid, true)]);
    child["metadata"]["finalizers"] = json!(["example.io/hold"]);
    api.post(&api.config_map(""), &child).await.is(201);
    let reply = api.delete(&api.config_map("a"), json!({ "propagationPolicy": "Foreground" })).await.is(200);
    reply.has("/metadata/finalizers", json!(["foregroundDeletion"]));
    api.until(&api.config_map("b"), |reply| !reply.at("/metadata/deletionTimestamp").is_null()).await;
    api.get(&api.config_map("a")).await.is(200);
    api.patch(&api.config_map("b"), MERGE, &json!({ "metadata": { "finalizers": null } })).await.is(200);
    api.until_gone(&api.config_map("a")).await;
}

async fn an_object_with_another_owner_stays(api: Api) {
    let (one, two) = (owner(&api, "a").await, owner(&api, "b").await);
    api.post(&api.config_map(""), &owned("c", &[("a", &one, false), ("b", &two, false)])).await.is(201);
    api.delete(&api.config_map("a"), json!({ "propagationPolicy": "Background" })).await.is(200);
    let left = api
        .until(&api.config_map("c"), |reply| {
            reply.at("/metadata/ownerReferences").as_array().is_some_and(|o| o.len() == 1)
        })
        .await;
    left.has("/metadata/ownerReferences/0/name", json!("b"));
}

async fn a_dependent_of_an_owner_that_never_was_goes(api: Api) {
    let uid = json!("00000000-0000-4000-8000-000000000000");
    api.post(&api.config_map(""), &owned("b", &[("nobody", &uid, false)])).await.is(201);
    api.until_gone(&api.config_map("b")).await;
}

async fn namespace(api: &Api, suffix: &str) -> String {
    let name = format!("{}{suffix}", &api.namespace[..20]);
    let body = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
    api.post("/api/v1/namespaces", &body).await.is(201).has("/status/phase", json!("Active"));
    format!("/api/v1/namespaces/{name}")
}

async fn a_namespace_goes_with_all_it_holds(api: Api) {
    let path = namespace(&api, "-full").await;
    api.post(&format!("{path}/configmaps"), &config_map("a", json!({}))).await.is(201);
    let reply = api.delete(&path, json!({})).await.is(200);
    reply.has("/status/phase", json!("Terminating"));
    api.until_gone(&format!("{path}/configmaps/a")).await;
    api.until_gone(&path).await;
}

async fn a_terminating_namespace_takes_nothing_new(api: Api) {
    let path = namespace(&api, "-held").await;
    api.post(&format!("{path}/configmaps"), &with_finalizer("a")).await.is(201);
    api.delete(&path, json!({})).await.is(200);
    let reply =
        api.post(&format!("{path}/configmaps"), &config_map("b", json!({}))).await.refused(403, "Forbidden");
    reply.blames("metadata.namespace", "NamespaceTerminating").says("because it is being terminated");
    let released = api
        .patch(&format!("{path}/configmaps/a"), MERGE, &json!({ "metadata": { "finalizers": null } }))
        .await;
    released.is(200);
    api.until_gone(&path).await;
}

async fn a_propagation_that_does_not_exist_is_refused(api: Api) {
    api.post(&api.config_map(""), &config_map("a", json!({}))).await.is(201);
    api.delete(&api.config_map("a"), json!({ "propagationPolicy": "Sideways" }))
        .await
        .refused(422, "Invalid");
    api.get(&api.config_map("a")).await.is(200);
}
