//! Lists: selectors, pages, resource versions.

use serde_json::json;

use super::api::{Api, config_map, labeled, widget};
use super::cases;

cases![
    a_list_is_ordered_and_versioned,
    a_list_over_all_namespaces_holds_each,
    label_selectors_select,
    a_label_selector_that_cannot_be_read_is_refused,
    field_selectors_select_by_name,
    field_selectors_select_by_what_the_definition_says,
    a_field_that_is_not_selectable_is_refused,
    pages_follow_each_other,
    a_page_shows_the_moment_of_the_first,
    a_continue_token_that_cannot_be_read_is_refused,
    a_version_that_has_not_come_yet_times_out,
    an_empty_list_has_items,
];

async fn filled(api: &Api) {
    for (name, tier) in [("c", "back"), ("a", "front"), ("b", "front")] {
        api.post(&api.config_map(""), &labeled(config_map(name, json!({})), json!({ "tier": tier })))
            .await
            .is(201);
    }
}

/// Returns the objects with the label of the case, because kube-controller-manager creates others in the
/// namespace.
async fn selected(api: &Api, query: &str) -> Vec<String> {
    api.get(&format!("{}?{query}", api.config_map(""))).await.is(200).names()
}

async fn a_list_is_ordered_and_versioned(api: Api) {
    filled(&api).await;
    let reply = api.get(&format!("{}?labelSelector=tier", api.config_map(""))).await.is(200);
    assert_eq!(reply.names(), ["a", "b", "c"]);
    assert!(reply.version().parse::<u64>().unwrap() > 0);
    reply
        .has("/kind", json!("ConfigMapList"))
        .has("/apiVersion", json!("v1"))
        .has("/items/0/kind", json!(null));
}

async fn a_list_over_all_namespaces_holds_each(api: Api) {
    api.post(&api.widgets(), &labeled(widget("a", json!({})), json!({ "case": "everywhere" }))).await.is(201);
    let reply =
        api.get("/apis/conformance.wheelwright.dev/v1/widgets?labelSelector=case%3Deverywhere").await.is(200);
    let reply =
        reply.has("/items/0/metadata/namespace", json!(api.namespace)).has("/items/0/kind", json!("Widget"));
    assert_eq!(reply.names(), ["a"]);
}

async fn label_selectors_select(api: Api) {
    filled(&api).await;
    assert_eq!(selected(&api, "labelSelector=tier%3Dfront").await, ["a", "b"]);
    assert_eq!(selected(&api, "labelSelector=tier,tier!%3Dfront").await, ["c"]);
    assert_eq!(
        selected(&api, "labelSelector=tier%20in%20(back,front),tier%20notin%20(back)").await,
        ["a", "b"]
    );
    assert!(!selected(&api, "labelSelector=!tier").await.contains(&"a".to_owned()));
}

async fn a_label_selector_that_cannot_be_read_is_refused(api: Api) {
    api.get(&format!("{}?labelSelector=a%20in", api.config_map(""))).await.refused(400, "BadRequest");
}

async fn field_selectors_select_by_name(api: Api) {
    filled(&api).await;
    assert_eq!(selected(&api, "fieldSelector=metadata.name%3Db").await, ["b"]);
    assert_eq!(selected(&api, "fieldSelector=metadata.name!%3Db&labelSelector=tier").await, ["a", "c"]);
}

async fn field_selectors_select_by_what_the_definition_says(api: Api) {
    api.post(&api.widgets(), &widget("a", json!({ "mode": "Fast" }))).await.is(201);
    api.post(&api.widgets(), &widget("b", json!({ "mode": "Slow" }))).await.is(201);
    let reply = api.get(&format!("{}?fieldSelector=spec.mode%3DSlow", api.widgets())).await.is(200);
    assert_eq!(reply.names(), ["b"]);
}

async fn a_field_that_is_not_selectable_is_refused(api: Api) {
    api.get(&format!("{}?fieldSelector=spec.size%3D3", api.widgets()))
        .await
        .refused(400, "BadRequest")
        .says("field label not supported: spec.size");
}

async fn pages_follow_each_other(api: Api) {
    filled(&api).await;
    let path = format!("{}?labelSelector=tier&limit=2", api.config_map(""));
    let first = api.get(&path).await.is(200);
    assert_eq!(first.names(), ["a", "b"]);
    let token = first.text("/metadata/continue");
    let last =
        api.get(&format!("{path}&continue={token}")).await.is(200).has("/metadata/continue", json!(null));
    assert_eq!((last.names(), last.version()), (vec!["c".to_owned()], first.version()));
}

async fn a_page_shows_the_moment_of_the_first(api: Api) {
    filled(&api).await;
    let path = format!("{}?labelSelector=tier&limit=1", api.config_map(""));
    let token = api.get(&path).await.is(200).text("/metadata/continue");
    api.post(&api.config_map(""), &labeled(config_map("aa", json!({})), json!({ "tier": "late" })))
        .await
        .is(201);
    let reply =
        api.get(&format!("{}?labelSelector=tier&limit=9&continue={token}", api.config_map(""))).await.is(200);
    assert_eq!(reply.names(), ["b", "c"]);
}

async fn a_continue_token_that_cannot_be_read_is_refused(api: Api) {
    api.get(&format!("{}?limit=1&continue=nonsense", api.config_map("")))
        .await
        .refused(400, "BadRequest")
        .says("continue key is not valid");
}

async fn a_version_that_has_not_come_yet_times_out(api: Api) {
    let reply = api
        .get(&format!(
            "{}?resourceVersion=999999999999&resourceVersionMatch=NotOlderThan",
            api.config_map("")
        ))
        .await;
    reply.refused(504, "Timeout").says("Too large resource version");
}

async fn an_empty_list_has_items(api: Api) {
    api.get(&api.widgets()).await.is(200).has("/items", json!([])).has("/kind", json!("WidgetList"));
}
