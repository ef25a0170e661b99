//! Tests of what a deletion does to dependents, namespaces and definitions.

use jiff::SignedDuration;
use serde_json::json;

use super::*;

fn owned(world: &mut World, name: &str, owners: &[&Object], blocks: bool) -> Arc<Object> {
    let references: Vec<_> = owners
        .iter()
        .map(|owner| json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": owner.name(), "uid": owner.uid(), "blockOwnerDeletion": blocks }))
        .collect();
    let mut body = config_map(name, json!({}));
    body["metadata"]["ownerReferences"] = references.into();
    world.create(body).unwrap().object
}

fn target(name: &str) -> ResourcePath {
    ResourcePath::resource("", "v1", "configmaps").within("default").named(name)
}

fn remaining(world: &World) -> Vec<String> {
    world.names(&target(""))
}

fn delete(world: &mut World, name: &str, propagation: Propagation) {
    let options = DeleteOptions { propagation: Some(propagation), ..DeleteOptions::default() };
    world.store.delete(&target(name), &options, world.now).unwrap();
}

#[test]
fn dependents_follow_their_last_owner_in_the_background() {
    let mut world = World::new();
    let (a, b) = (owned(&mut world, "a", &[], false), owned(&mut world, "b", &[], false));
    let child = owned(&mut world, "child", &[&a], false);
    owned(&mut world, "grandchild", &[&child], false);
    owned(&mut world, "shared", &[&a, &b], false);
    delete(&mut world, "a", Propagation::Background);
    assert_eq!(remaining(&world), ["b", "child", "grandchild", "shared"]);
    world.store.settle(world.now);
    assert_eq!(remaining(&world), ["b", "shared"]);
    let shared = world.store.get(&target("shared")).unwrap();
    assert_eq!(shared.at(&["metadata", "ownerReferences"]).unwrap().as_array().unwrap().len(), 1);
    assert!(!world.store.collect(world.now), "nothing is left to do");
}

#[test]
fn an_object_with_an_owner_that_never_existed_is_collected() {
    let mut world = World::new();
    let mut ghost = Object::from_value(config_map("ghost", json!({}))).unwrap();
    ghost.metadata_mut().insert("uid".into(), "no-such".into());
    owned(&mut world, "child", &[&ghost], false);
    world.store.settle(world.now);
    assert!(remaining(&world).is_empty());
}

#[test]
fn foreground_deletion_waits_for_blocking_dependents() {
    let mut world = World::new();
    let a = owned(&mut world, "a", &[], false);
    owned(&mut world, "child", &[&a], true);
    world.merge(&target("child"), json!({ "metadata": { "finalizers": ["example.com/hold"] } })).unwrap();
    delete(&mut world, "a", Propagation::Foreground);
    world.store.settle(world.now);
    assert_eq!(remaining(&world), ["a", "child"]);
    assert!(world.store.get(&target("child")).unwrap().is_terminating());
    world.merge(&target("child"), json!({ "metadata": { "finalizers": null } })).unwrap();
    world.store.settle(world.now);
    assert!(remaining(&world).is_empty());
}

#[test]
fn orphans_stay_without_their_owner() {
    let mut world = World::new();
    let a = owned(&mut world, "a", &[], false);
    owned(&mut world, "child", &[&a], true);
    delete(&mut world, "a", Propagation::Orphan);
    world.store.settle(world.now);
    assert_eq!(remaining(&world), ["child"]);
    assert_eq!(world.store.get(&target("child")).unwrap().at(&["metadata", "ownerReferences"]), None);
}

#[test]
fn a_namespace_is_deleted_when_it_is_empty() {
    let mut world = World::new();
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "team" } });
    let created = world.create(namespace.clone()).unwrap().object;
    assert_eq!(created.at(&["status", "phase"]), Some(&json!("Active")));
    assert_eq!(created.labels().get("kubernetes.io/metadata.name"), Some(&"team"));
    let mut object = config_map("held", json!({}));
    object["metadata"]["namespace"] = "team".into();
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.create(object.clone()).unwrap();
    let place = world.target(&namespace);
    let Deleted::Terminating(going) = world.delete(&place).unwrap() else { panic!("gone") };
    assert_eq!(going.at(&["status", "phase"]), Some(&json!("Terminating")));
    let mut late = config_map("late", json!({}));
    late["metadata"]["namespace"] = "team".into();
    let message = "configmaps \"late\" is forbidden: unable to create new content in namespace team because it is being terminated";
    refused(world.create(late), 403, "Forbidden", message);
    world.store.settle(world.now);
    assert!(world.store.get(&place).is_ok(), "its content is held");
    world.merge(&world.target(&object), json!({ "metadata": { "finalizers": null } })).unwrap();
    world.store.settle(world.now);
    assert_eq!(refusal(world.store.get(&place)).0, 404);
    refused(
        world.delete(&place.named("default")),
        403,
        "Forbidden",
        "namespaces \"default\" is forbidden: this namespace may not be deleted",
    );
}

#[test]
fn a_definition_is_deleted_with_its_objects() {
    let mut world = World::new();
    world.create(super::custom::definition()).unwrap();
    let widget = json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "a" }, "spec": { "size": "s" } });
    world.create(widget.clone()).unwrap();
    let all = world.target(&widget).named("");
    assert!(matches!(
        world.delete(&world.target(&super::custom::definition())).unwrap(),
        Deleted::Terminating(_)
    ));
    let late = world.create(widget);
    refused(
        late,
        403,
        "Forbidden",
        "widgets.example.com is forbidden: create not allowed while custom resource definition is terminating",
    );
    world.store.settle(world.now);
    assert_eq!(refusal(world.store.list(&all, &ListOptions::default())).0, 404);
}

#[test]
fn a_restored_store_is_the_same() {
    let mut world = World::new();
    world.store.keep_journal();
    world.create(super::custom::definition()).unwrap();
    let widget = json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "a" }, "spec": { "size": "s" } });
    world.create(widget.clone()).unwrap();
    let a = owned(&mut world, "a", &[], false);
    owned(&mut world, "child", &[&a], false);
    let journal = world.store.take_journal();
    let snapshot = World::new().store.snapshot().collect::<Vec<_>>();
    let mut restored = Store::restore(2, snapshot.into_iter().chain(journal), 0, world.now);
    let all = |store: &Store| store.snapshot().collect::<Vec<_>>();
    assert_eq!(all(&restored), all(&world.store));
    assert_eq!(restored.revision(), world.store.revision());
    restored.delete(&target("a"), &DeleteOptions::default(), world.now).unwrap();
    restored.settle(world.now);
    assert_eq!(refusal(restored.get(&target("child"))).0, 404);
    assert!(restored.get(&world.target(&widget)).is_ok());
}

#[test]
fn events_are_deleted_an_hour_after_their_last_write() {
    let mut world = World::new();
    let event = |name: &str| {
        json!({ "apiVersion": "v1", "kind": "Event", "metadata": { "name": name, "namespace": "default" },
            "involvedObject": { "namespace": "default" }, "lastTimestamp": "2099-01-01T00:00:00Z" })
    };
    let hour = SignedDuration::from_hours(1);
    for name in ["once", "again"] {
        world.create(event(name)).unwrap();
    }
    world.now += SignedDuration::from_mins(59);
    let again = world.target(&event("again"));
    world.merge(&again, json!({ "count": 2 })).unwrap();
    world.store.expire_events(hour, None, world.now);
    let all = again.clone().named("");
    assert_eq!(world.names(&all), ["again", "once"]);
    world.now += SignedDuration::from_mins(2);
    world.store.expire_events(hour, None, world.now);
    assert_eq!(world.names(&all), ["again"]);
}

/// The number of objects in the tests of slices, enough for several slices.
const MANY: usize = 2_000;

fn make_many(world: &mut World, owners: &[&Object]) {
    for i in 0..MANY {
        owned(world, &format!("many-{i:04}"), owners, true);
    }
}

/// Collects in slices. No slice may write much, and the result must equal an undivided collection.
fn check_slices(mut world: World, what: &str) {
    let mut whole = world.store.clone();
    whole.settle(world.now);
    let mut slices = 0;
    loop {
        let before = world.store.revision();
        let is_more = world.store.collect_some(world.now);
        let written = world.store.revision() - before;
        assert!(written <= 1_100, "{what}: a slice wrote {written} objects");
        slices += 1;
        assert!(slices < 100, "{what}: the slices have no end");
        if !is_more {
            break;
        }
    }
    assert!(slices > 2, "{what}: {slices} slices");
    let content = |store: &Store| -> Vec<_> {
        let ids =
            store.snapshot().map(|entry| (entry.resource, entry.key, entry.object.map(without_version)));
        ids.collect()
    };
    assert_eq!(content(&world.store), content(&whole), "{what}");
}

fn without_version(object: Arc<Object>) -> Object {
    let mut object = Arc::unwrap_or_clone(object);
    object.metadata_mut().remove("resourceVersion");
    object
}

#[test]
fn garbage_of_many_objects_is_collected_in_slices() {
    for propagation in [Propagation::Background, Propagation::Foreground, Propagation::Orphan] {
        let mut world = World::new();
        let owner = owned(&mut world, "owner", &[], false);
        make_many(&mut world, &[&owner]);
        delete(&mut world, "owner", propagation);
        check_slices(world, &format!("{propagation:?}"));
    }
}

#[test]
fn a_namespace_of_many_objects_is_emptied_in_slices() {
    let mut world = World::new();
    world.create(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "team" } })).unwrap();
    for i in 0..MANY {
        for kind in ["ConfigMap", "ServiceAccount"] {
            // Half of them remain, because a finalizer blocks their deletion.
            let finalizers = if i % 2 == 0 { json!(["example.com/hold"]) } else { json!([]) };
            let metadata =
                json!({ "name": format!("many-{i}"), "namespace": "team", "finalizers": finalizers });
            world.create(json!({ "apiVersion": "v1", "kind": kind, "metadata": metadata })).unwrap();
        }
    }
    world.delete(&ResourcePath::resource("", "v1", "namespaces").named("team")).unwrap();
    check_slices(world, "namespace");
}

#[test]
fn an_owner_that_fills_a_slice_still_loses_its_dependents() {
    let mut world = World::new();
    let text = "x".repeat(1_000);
    let data: serde_json::Map<_, _> = (0..800).map(|i| (format!("k{i}"), text.clone().into())).collect();
    let mut body = config_map("owner", data.into());
    body["metadata"]["annotations"] =
        (0..20_000).map(|i| (format!("a{i}"), json!(""))).collect::<serde_json::Map<_, _>>().into();
    let owner = world.create(body).unwrap().object;
    for name in ["a", "b", "c"] {
        owned(&mut world, name, &[&owner], true);
    }
    delete(&mut world, "owner", Propagation::Foreground);
    while world.store.collect_some(world.now) {}
    assert!(remaining(&world).is_empty());
}

#[test]
fn a_collection_of_many_objects_is_deleted_in_slices() {
    let mut world = World::new();
    make_many(&mut world, &[]);
    let listed = world.store.collection_to_delete(&target(""), &ListOptions::default()).unwrap().items;
    let (mut left, mut slices) = (&*listed, 0);
    while !left.is_empty() {
        let count = world.store.delete_some(&target(""), left, &DeleteOptions::default(), world.now).unwrap();
        assert!((1..=1_100).contains(&count), "a slice deleted {count} objects");
        (left, slices) = (&left[count..], slices + 1);
    }
    assert!(slices > 1 && remaining(&world).is_empty());
}
