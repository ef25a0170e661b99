//! Watches: the events after a resource version, in order.

use serde_json::{Value, json};

use super::api::{Api, MERGE, config_map, labeled};
use super::cases;

cases![
    a_watch_tells_what_happens_after_a_version,
    a_watch_without_a_version_begins_with_what_there_is,
    a_watch_sees_through_its_selector,
    a_watch_of_one_name_sees_nothing_else,
    a_streaming_list_ends_with_a_bookmark,
    a_streaming_list_needs_its_options,
    a_watch_ends_when_its_time_is_up,
    a_deleted_object_carries_the_version_of_its_end,
    a_watch_may_show_metadata_alone,
];

/// Returns the path of a watch on the objects with the label `w`.
fn watch(api: &Api, query: &str) -> String {
    format!("{}?watch=true&timeoutSeconds=20&labelSelector=w&{query}", api.config_map(""))
}

fn seen(events: &[Value]) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    events.iter().map(|e| (text(&e["type"]), text(&e["object"]["metadata"]["name"]))).collect()
}

fn marked(name: &str) -> Value {
    labeled(config_map(name, json!({})), json!({ "w": name }))
}

fn pair(type_: &str, name: &str) -> (String, String) {
    (type_.to_owned(), name.to_owned())
}

async fn a_watch_tells_what_happens_after_a_version(api: Api) {
    let version = api.post(&api.config_map(""), &marked("a")).await.is(201).version();
    api.post(&api.config_map(""), &marked("b")).await.is(201);
    api.patch(&api.config_map("a"), MERGE, &json!({ "data": { "k": "v" } })).await.is(200);
    api.delete(&api.config_map("b"), json!({})).await.is(200);
    let events = api.watch(&watch(&api, &format!("resourceVersion={version}")), 3).await;
    assert_eq!(seen(&events), [pair("ADDED", "b"), pair("MODIFIED", "a"), pair("DELETED", "b")]);
    let versions: Vec<u64> = events
        .iter()
        .map(|e| e["object"]["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap())
        .collect();
    assert!(versions.is_sorted(), "{versions:?}");
}

async fn a_watch_without_a_version_begins_with_what_there_is(api: Api) {
    api.post(&api.config_map(""), &marked("b")).await.is(201);
    api.post(&api.config_map(""), &marked("a")).await.is(201);
    let mut events = seen(&api.watch(&watch(&api, ""), 2).await);
    events.sort();
    assert_eq!(events, [pair("ADDED", "a"), pair("ADDED", "b")]);
}

async fn a_watch_sees_through_its_selector(api: Api) {
    let version = api.post(&api.config_map(""), &config_map("a", json!({}))).await.is(201).version();
    api.patch(&api.config_map("a"), MERGE, &json!({ "metadata": { "labels": { "w": "1" } } })).await.is(200);
    api.patch(&api.config_map("a"), MERGE, &json!({ "data": { "k": "v" } })).await.is(200);
    api.patch(&api.config_map("a"), MERGE, &json!({ "metadata": { "labels": null } })).await.is(200);
    let events = api.watch(&watch(&api, &format!("resourceVersion={version}")), 3).await;
    assert_eq!(seen(&events), [pair("ADDED", "a"), pair("MODIFIED", "a"), pair("DELETED", "a")]);
    assert_eq!(events[2]["object"]["metadata"]["labels"]["w"], "1", "it is shown as it was last seen");
}

async fn a_watch_of_one_name_sees_nothing_else(api: Api) {
    let version = api.post(&api.config_map(""), &marked("a")).await.is(201).version();
    api.post(&api.config_map(""), &marked("b")).await.is(201);
    api.post(&api.config_map(""), &marked("c")).await.is(201);
    let path =
        format!("{}&fieldSelector=metadata.name%3Dc", watch(&api, &format!("resourceVersion={version}")));
    assert_eq!(seen(&api.watch(&path, 1).await), [pair("ADDED", "c")]);
}

async fn a_streaming_list_ends_with_a_bookmark(api: Api) {
    api.post(&api.config_map(""), &marked("a")).await.is(201);
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let events = api.watch(&watch(&api, query), 2).await;
    assert_eq!(seen(&events)[0], pair("ADDED", "a"));
    assert_eq!((&events[1]["type"], &events[1]["object"]["kind"]), (&json!("BOOKMARK"), &json!("ConfigMap")));
    assert_eq!(
        events[1]["object"]["metadata"]["annotations"],
        json!({ "k8s.io/initial-events-end": "true" })
    );
}

async fn a_streaming_list_needs_its_options(api: Api) {
    let path = format!("{}?watch=true&sendInitialEvents=true", api.config_map(""));
    api.get(&path).await.refused(422, "Invalid").blames("resourceVersionMatch", "FieldValueForbidden");
}

async fn a_watch_ends_when_its_time_is_up(api: Api) {
    let events =
        api.watch(&format!("{}?watch=true&timeoutSeconds=1&labelSelector=w", api.config_map("")), 1).await;
    assert_eq!(events, Vec::<Value>::new());
}

async fn a_deleted_object_carries_the_version_of_its_end(api: Api) {
    let version = api.post(&api.config_map(""), &marked("a")).await.is(201).version();
    api.delete(&api.config_map("a"), json!({})).await.is(200);
    let events = api.watch(&watch(&api, &format!("resourceVersion={version}")), 1).await;
    let end: u64 = events[0]["object"]["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    assert!(end > version.parse().unwrap(), "{end} is not after {version}");
}

async fn a_watch_may_show_metadata_alone(api: Api) {
    api.post(&api.config_map(""), &marked("a")).await.is(201);
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let events = api.watch_as(&watch(&api, ""), accept, 1).await;
    assert_eq!(seen(&events), [pair("ADDED", "a")]);
    let object = &events[0]["object"];
    assert_eq!((&object["kind"], object.get("data")), (&json!("PartialObjectMetadata"), None));
}
