//! Tests of create, read, update, delete and watch.

use serde_json::json;

use super::*;

#[test]
fn a_created_object_carries_what_the_server_sets() {
    let mut world = World::new();
    let object = world.create(config_map("a", json!({ "x": "y" }))).unwrap().object;
    assert_eq!((object.namespace(), object.uid().len()), ("default", 36));
    assert_eq!(object.resource_version(), world.store.revision().to_string());
    assert_eq!(object.at(&["metadata", "creationTimestamp"]), Some(&json!("2026-01-02T03:04:05Z")));
    assert_eq!(object.generation(), 0, "config maps count no generations");
    assert_eq!(world.store.get(&world.target(&config_map("a", json!({})))).unwrap(), object);
}

#[test]
fn generate_name_completes_the_name() {
    let mut world = World::new();
    let named = |world: &mut World| {
        let body = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "generateName": "a-" } });
        world.create(body).unwrap().object.name().to_owned()
    };
    let (first, second) = (named(&mut world), named(&mut world));
    assert!(first != second && first.starts_with("a-") && first.len() == 7, "{first} {second}");
}

#[test]
fn creations_are_refused_as_by_a_real_server() {
    let mut world = World::new();
    world.create(config_map("a", json!({}))).unwrap();
    refused(
        world.create(config_map("a", json!({}))),
        409,
        "AlreadyExists",
        "configmaps \"a\" already exists",
    );
    let mut elsewhere = config_map("a", json!({}));
    elsewhere["metadata"]["namespace"] = "nope".into();
    refused(world.create(elsewhere), 404, "NotFound", "namespaces \"nope\" not found");
    let (code, reason, message) = refusal(world.create(config_map("A_b", json!({}))));
    assert_eq!((code, reason.as_str()), (422, "Invalid"));
    assert!(
        message.starts_with(
            "ConfigMap \"A_b\" is invalid: metadata.name: Invalid value: \"A_b\": a lowercase RFC 1123"
        ),
        "{message}"
    );
    let nameless = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": {} });
    let message =
        "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required";
    refused(world.create(nameless), 422, "Invalid", message);
    let mut versioned = config_map("b", json!({}));
    versioned["metadata"]["resourceVersion"] = "1".into();
    refused(world.create(versioned), 500, "", "resourceVersion should not be set on objects to be created");
}

#[test]
fn updates_are_checked_against_the_live_object() {
    let mut world = World::new();
    let object = world.create(config_map("a", json!({ "x": "1" }))).unwrap().object;
    let mut next = Object::clone(&object).into_value();
    next["data"]["x"] = "2".into();
    let updated = world.update(next.clone()).unwrap().object;
    assert_ne!(updated.resource_version(), object.resource_version());
    let message = "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again";
    refused(world.update(next), 409, "Conflict", message);
    assert_eq!(
        world.update(config_map("a", json!({ "x": "2" }))).unwrap().object,
        updated,
        "nothing changed, so nothing is written"
    );
    refused(world.update(config_map("b", json!({}))), 404, "NotFound", "configmaps \"b\" not found");
    let mut other = config_map("a", json!({}));
    other["metadata"]["uid"] = "x".into();
    assert_eq!(refusal(world.update(other)).1, "Conflict");
}

#[test]
fn a_dry_run_leaves_no_trace() {
    let mut world = World::new();
    let revision = world.store.revision();
    let body = Object::from_value(config_map("a", json!({}))).unwrap();
    let target = ResourcePath::resource("", "v1", "configmaps").within("default");
    let options = WriteOptions::manager("test").dry();
    assert!(world.store.create(&target, body, &options, world.now).unwrap().created);
    assert_eq!((world.store.revision(), world.names(&target)), (revision, vec![]));
}

#[test]
fn finalizers_hold_a_deleted_object() {
    let mut world = World::new();
    let mut body = config_map("a", json!({}));
    body["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let target = world.target(&body);
    world.create(body).unwrap();
    let Deleted::Terminating(object) = world.delete(&target).unwrap() else { panic!("gone") };
    assert!(object.is_terminating());
    let message = "ConfigMap \"a\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"example.com/more\"}";
    let more = json!({ "metadata": { "finalizers": ["example.com/hold", "example.com/more"] } });
    refused(world.merge(&target, more), 422, "Invalid", message);
    world.merge(&target, json!({ "metadata": { "finalizers": null } })).unwrap();
    refused(world.store.get(&target), 404, "NotFound", "configmaps \"a\" not found");
}

#[test]
fn preconditions_guard_deletions() {
    let mut world = World::new();
    let target = world.target(&config_map("a", json!({})));
    world.create(config_map("a", json!({}))).unwrap();
    let by = |uid: &str, version: &str| DeleteOptions {
        uid: uid.into(),
        resource_version: version.into(),
        ..DeleteOptions::default()
    };
    assert_eq!(refusal(world.store.delete(&target, &by("x", ""), world.now)).1, "Conflict");
    assert_eq!(refusal(world.store.delete(&target, &by("", "1"), world.now)).1, "Conflict");
    let current = world.store.get(&target).unwrap();
    world.store.delete(&target, &by(current.uid(), current.resource_version()), world.now).unwrap();
}

#[test]
fn lists_come_in_consistent_pages() {
    let mut world = World::new();
    for name in ["a", "b", "c"] {
        world.create(config_map(name, json!({}))).unwrap();
    }
    let target = ResourcePath::resource("", "v1", "configmaps");
    let page = |world: &World, token: &str| {
        let options = ListOptions { limit: 2, continue_token: token.into(), ..ListOptions::default() };
        world.store.list(&target, &options)
    };
    let first = page(&world, "").unwrap();
    assert_eq!((first.items.len(), first.remaining, first.kind.as_str()), (2, Some(1), "ConfigMapList"));
    world.delete(&target.clone().within("default").named("c")).unwrap();
    world.create(config_map("d", json!({}))).unwrap();
    let second = page(&world, &first.continue_token).unwrap();
    assert_eq!(
        second.items.iter().map(|o| o.name()).collect::<Vec<_>>(),
        ["c"],
        "as it was for the first page"
    );
    assert_eq!(second.resource_version, first.resource_version);
    let revision = world.store.revision();
    world.store.compact(revision);
    assert_eq!(refusal(page(&world, &first.continue_token)).0, 410);
}

#[test]
fn selectors_select_lists() {
    let mut world = World::new();
    for (name, tier) in [("a", "web"), ("b", "db")] {
        let mut body = config_map(name, json!({}));
        body["metadata"]["labels"] = json!({ "tier": tier });
        world.create(body).unwrap();
    }
    let target = ResourcePath::resource("", "v1", "configmaps");
    let list = |labels: &str, fields: &str| {
        let options = ListOptions { labels: labels.into(), fields: fields.into(), ..ListOptions::default() };
        world
            .store
            .list(&target, &options)
            .map(|list| list.items.iter().map(|o| o.name().to_owned()).collect::<String>())
    };
    assert_eq!(list("tier in (web,x)", "").unwrap(), "a");
    assert_eq!(list("", "metadata.name!=a").unwrap(), "b");
    refused(
        list("", "spec.x=y"),
        400,
        "BadRequest",
        "\"spec.x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
    );
    assert_eq!(refusal(list("a b", "")).0, 400);
}

fn seen(world: &World, watch: &mut Watch) -> Vec<String> {
    let events = world.store.poll(watch).unwrap();
    events.iter().map(|event| format!("{} {}", event.type_.as_str(), event.object.name())).collect()
}

#[test]
fn a_watch_delivers_events_in_order() {
    let mut world = World::new();
    world.create(config_map("a", json!({}))).unwrap();
    let target = ResourcePath::resource("", "v1", "configmaps").within("default");
    let mut watch = world.store.watch(&target, &WatchOptions::default()).unwrap();
    assert_eq!(seen(&world, &mut watch), ["ADDED a"]);
    world.create(config_map("b", json!({}))).unwrap();
    world.merge(&target.clone().named("a"), json!({ "data": { "x": "1" } })).unwrap();
    world.delete(&target.clone().named("b")).unwrap();
    assert_eq!(seen(&world, &mut watch), ["ADDED b", "MODIFIED a", "DELETED b"]);
    assert!(seen(&world, &mut watch).is_empty());
}

#[test]
fn a_watch_takes_only_as_many_events_as_it_requests() {
    let mut world = World::new();
    let target = ResourcePath::resource("", "v1", "configmaps").within("default");
    let options =
        WatchOptions { resource_version: world.store.revision().to_string(), ..WatchOptions::default() };
    let mut watch = world.store.watch(&target, &options).unwrap();
    let mut all = watch.clone();
    for i in 0..100 {
        let mut map = config_map(&format!("c{i}"), json!({}));
        map["metadata"]["namespace"] = if i % 3 == 0 { "default" } else { "kube-public" }.into();
        world.create(map).unwrap();
    }
    let (mut events, mut is_more, mut polls) = (Vec::new(), true, 0);
    while is_more {
        let (next, more) = world.store.poll_some(&mut watch, 16 << 10).unwrap();
        assert!(next.iter().map(WatchEvent::weight).sum::<usize>() < 32 << 10);
        events.extend(next);
        (is_more, polls) = (more, polls + 1);
    }
    assert!(polls > 5, "{polls} polls");
    assert_eq!(events, world.store.poll(&mut all).unwrap());
    assert_eq!(watch.position(), all.position());
}

#[test]
fn an_object_that_stops_matching_is_deleted_for_the_watcher() {
    let mut world = World::new();
    let target = ResourcePath::resource("", "v1", "configmaps").within("default");
    let options = WatchOptions {
        labels: "x".into(),
        resource_version: world.store.revision().to_string(),
        ..WatchOptions::default()
    };
    let mut watch = world.store.watch(&target, &options).unwrap();
    world.create(config_map("a", json!({}))).unwrap();
    assert!(seen(&world, &mut watch).is_empty());
    world.merge(&target.clone().named("a"), json!({ "metadata": { "labels": { "x": "1" } } })).unwrap();
    world.merge(&target.clone().named("a"), json!({ "metadata": { "labels": null } })).unwrap();
    assert_eq!(seen(&world, &mut watch), ["ADDED a", "DELETED a"]);
}

#[test]
fn a_watch_from_forgotten_history_is_expired() {
    let mut world = World::new();
    let target = ResourcePath::resource("", "v1", "configmaps");
    let from =
        |revision: u64| WatchOptions { resource_version: revision.to_string(), ..WatchOptions::default() };
    let start = world.store.revision();
    let mut watch = world.store.watch(&target, &from(start)).unwrap();
    world.create(config_map("a", json!({}))).unwrap();
    world.store.compact(world.store.revision());
    assert_eq!(refusal(world.store.poll(&mut watch)).1, "Expired");
    assert_eq!(refusal(world.store.watch(&target, &from(start))).0, 410);
}

#[test]
fn a_streaming_list_ends_with_a_bookmark() {
    let mut world = World::new();
    world.create(config_map("a", json!({}))).unwrap();
    let options = WatchOptions { send_initial_events: Some(true), ..WatchOptions::default() };
    let mut watch = world.store.watch(&ResourcePath::resource("", "v1", "configmaps"), &options).unwrap();
    assert_eq!(seen(&world, &mut watch), ["ADDED a", "BOOKMARK "]);
}

#[test]
fn a_store_restored_from_a_backup_reuses_its_versions_and_no_uid() {
    let mut world = World::new();
    let backup = world.store.clone();
    let lost = world.create(config_map("lost", json!({}))).unwrap().object;
    world.store.go_back(&backup);
    assert_eq!(world.store.revision(), backup.revision());
    let new = world.create(config_map("new", json!({}))).unwrap().object;
    assert_eq!(new.resource_version(), lost.resource_version());
    assert_ne!(new.uid(), lost.uid());
    assert_eq!(world.names(&world.target(&config_map("", json!({})))), ["new"]);
}
