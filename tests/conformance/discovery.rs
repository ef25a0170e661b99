//! Discovery, tables, metadata, dry runs, health.

use serde_json::{Value, json};

use super::api::{Api, MERGE, config_map, widget};
use super::cases;

cases![
    the_core_group_lists_its_resources,
    groups_name_their_preferred_version,
    a_custom_resource_is_discovered,
    aggregated_discovery_says_it_in_one_answer,
    subresources_are_discovered_with_their_kind,
    openapi_describes_a_custom_resource,
    tables_have_the_columns_of_the_definition,
    tables_of_built_in_kinds_have_their_own,
    a_list_may_show_metadata_alone,
    a_representation_that_there_is_none_of_is_refused,
    a_dry_run_changes_nothing,
    a_dry_run_is_all_or_nothing,
    health_and_version_are_reported,
];

fn find(list: &Value, field: &str, value: &str) -> Value {
    list.as_array().into_iter().flatten().find(|entry| entry[field] == value).cloned().unwrap_or_default()
}

async fn the_core_group_lists_its_resources(api: Api) {
    let reply = api
        .get("/api/v1")
        .await
        .is(200)
        .has("/kind", json!("APIResourceList"))
        .has("/groupVersion", json!("v1"));
    let found = find(&reply.at("/resources"), "name", "configmaps");
    assert_eq!(
        (&found["kind"], &found["namespaced"], &found["shortNames"]),
        (&json!("ConfigMap"), &json!(true), &json!(["cm"]))
    );
    assert_eq!(
        found["verbs"],
        json!(["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"])
    );
    api.get("/api").await.is(200).has("/versions", json!(["v1"]));
}

async fn groups_name_their_preferred_version(api: Api) {
    let reply = api.get("/apis").await.is(200).has("/kind", json!("APIGroupList"));
    let group = find(&reply.at("/groups"), "name", "apps");
    assert_eq!(group["preferredVersion"], json!({ "groupVersion": "apps/v1", "version": "v1" }));
    api.get("/apis/apps").await.is(200).has("/kind", json!("APIGroup"));
    api.get("/apis/nowhere.io").await.is(404);
    api.get("/apis/nowhere.io/v1").await.is(404);
}

async fn a_custom_resource_is_discovered(api: Api) {
    let reply = api.get("/apis/conformance.wheelwright.dev/v1").await.is(200);
    let found = find(&reply.at("/resources"), "name", "widgets");
    assert_eq!(
        (&found["kind"], &found["singularName"], &found["shortNames"]),
        (&json!("Widget"), &json!("widget"), &json!(["wix"]))
    );
    assert_eq!(find(&reply.at("/resources"), "name", "widgets/status")["kind"], "Widget");
    let scale = find(&reply.at("/resources"), "name", "widgets/scale");
    assert_eq!(
        (&scale["kind"], &scale["group"], &scale["version"]),
        (&json!("Scale"), &json!("autoscaling"), &json!("v1"))
    );
}

async fn aggregated_discovery_says_it_in_one_answer(api: Api) {
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let reply = api.get_as("/apis", accept).await.is(200).has("/kind", json!("APIGroupDiscoveryList"));
    let items = reply.at("/items");
    let group = items
        .as_array()
        .unwrap()
        .iter()
        .find(|i| i["metadata"]["name"] == "conformance.wheelwright.dev")
        .cloned()
        .unwrap();
    let found = find(&group["versions"][0]["resources"], "resource", "widgets");
    assert_eq!((&found["scope"], &found["responseKind"]["kind"]), (&json!("Namespaced"), &json!("Widget")));
    assert_eq!(find(&found["subresources"], "subresource", "scale")["responseKind"]["group"], "autoscaling");
    let core = api.get_as("/api", accept).await.is(200);
    assert_eq!(find(&core.at("/items/0/versions/0/resources"), "resource", "namespaces")["scope"], "Cluster");
}

async fn subresources_are_discovered_with_their_kind(api: Api) {
    let reply = api.get("/api/v1").await.is(200);
    let token = find(&reply.at("/resources"), "name", "serviceaccounts/token");
    assert_eq!(
        (&token["kind"], &token["group"], &token["verbs"]),
        (&json!("TokenRequest"), &json!("authentication.k8s.io"), &json!(["create"]))
    );
    let reply = api.get("/apis/certificates.k8s.io/v1").await.is(200);
    assert_eq!(
        find(&reply.at("/resources"), "name", "certificatesigningrequests/approval")["verbs"],
        json!(["get", "patch", "update"])
    );
}

async fn openapi_describes_a_custom_resource(api: Api) {
    let described =
        |reply: &super::api::Reply| reply.body["paths"].get("apis/conformance.wheelwright.dev/v1").is_some();
    let index = api.until("/openapi/v3", described).await;
    let path = index.body["paths"]["apis/conformance.wheelwright.dev/v1"]["serverRelativeURL"]
        .as_str()
        .unwrap()
        .to_owned();
    let reply = api.get(&path).await.is(200);
    let schemas = reply.at("/components/schemas");
    let widget = schemas
        .as_object()
        .unwrap()
        .values()
        .find(|s| s["x-kubernetes-group-version-kind"][0]["kind"] == "Widget")
        .unwrap();
    assert_eq!(widget["properties"]["spec"]["properties"]["size"]["maximum"], json!(10));
    let patch = &reply.body["paths"]["/apis/conformance.wheelwright.dev/v1/namespaces/{namespace}/widgets/{name}"]
        ["patch"];
    assert!(
        patch["parameters"].as_array().unwrap().iter().any(|p| p["name"] == "fieldValidation"),
        "{patch}"
    );
}

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

async fn tables_have_the_columns_of_the_definition(api: Api) {
    api.post(&api.widgets(), &widget("a", json!({ "size": 4 }))).await.is(201);
    let conditions = json!([{ "type": "Other", "status": "False" }, { "type": "Ready", "status": "True" }]);
    api.patch(
        &format!("{}/status", api.widget("a")),
        MERGE,
        &json!({ "status": { "conditions": conditions } }),
    )
    .await
    .is(200);
    let reply = api
        .get_as(&api.widgets(), TABLE)
        .await
        .is(200)
        .has("/kind", json!("Table"))
        .has("/rows/0/cells", json!(["a", 4, "True"]));
    let columns: Vec<_> =
        reply.at("/columnDefinitions").as_array().unwrap().iter().map(|c| c["name"].clone()).collect();
    assert_eq!(json!(columns), json!(["Name", "Size", "Ready"]));
    reply
        .has("/rows/0/object/kind", json!("PartialObjectMetadata"))
        .has("/rows/0/object/metadata/name", json!("a"));
    let reply = api.get_as(&format!("{}?includeObject=Object", api.widget("a")), TABLE).await.is(200);
    reply.has("/rows/0/object/spec/size", json!(4));
    api.get_as(&format!("{}?includeObject=None", api.widget("a")), TABLE)
        .await
        .is(200)
        .has("/rows/0/object", json!(null));
}

async fn tables_of_built_in_kinds_have_their_own(api: Api) {
    api.post(&api.config_map(""), &config_map("a", json!({ "k": "v", "l": "w" }))).await.is(201);
    let reply = api
        .get_as(&api.config_map("a"), TABLE)
        .await
        .is(200)
        .has("/rows/0/cells/0", json!("a"))
        .has("/rows/0/cells/1", json!(2));
    reply
        .has("/columnDefinitions/0/name", json!("Name"))
        .has("/columnDefinitions/1/name", json!("Data"))
        .has("/columnDefinitions/2/name", json!("Age"));
}

async fn a_list_may_show_metadata_alone(api: Api) {
    api.post(&api.widgets(), &widget("a", json!({}))).await.is(201);
    let reply = api
        .get_as(&api.widgets(), "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
        .await
        .is(200);
    reply
        .has("/kind", json!("PartialObjectMetadataList"))
        .has("/items/0/metadata/name", json!("a"))
        .has("/items/0/spec", json!(null));
}

async fn a_representation_that_there_is_none_of_is_refused(api: Api) {
    api.get_as(&api.widgets(), "text/html").await.refused(406, "NotAcceptable");
}

async fn a_dry_run_changes_nothing(api: Api) {
    let reply = api.post(&format!("{}?dryRun=All", api.widgets()), &widget("a", json!({}))).await.is(201);
    reply.has("/spec/size", json!(3));
    api.get(&api.widget("a")).await.is(404);
    let created = api.post(&api.widgets(), &widget("a", json!({}))).await.is(201);
    let patch = json!({ "spec": { "size": 9 } });
    api.patch(&format!("{}?dryRun=All", api.widget("a")), MERGE, &patch)
        .await
        .is(200)
        .has("/spec/size", json!(9));
    api.delete(&api.widget("a"), json!({ "dryRun": ["All"] })).await.is(200);
    api.get(&api.widget("a"))
        .await
        .is(200)
        .has("/spec/size", json!(3))
        .has("/metadata/resourceVersion", json!(created.version()));
    // A dry run rejects what the real request rejects.
    api.post(&format!("{}?dryRun=All", api.widgets()), &widget("b", json!({ "size": 99 })))
        .await
        .refused(422, "Invalid");
}

async fn a_dry_run_is_all_or_nothing(api: Api) {
    api.post(&format!("{}?dryRun=Some", api.widgets()), &widget("a", json!({})))
        .await
        .refused(422, "Invalid")
        .blames("dryRun", "FieldValueNotSupported");
}

async fn health_and_version_are_reported(api: Api) {
    for path in ["/livez", "/readyz", "/healthz"] {
        assert_eq!(api.get(path).await.is(200).body, json!("ok"), "{path}");
    }
    api.get("/version").await.is(200).has("/major", json!("1")).has("/minor", json!("36"));
}
