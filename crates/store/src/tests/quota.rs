use std::sync::Arc;

use serde_json::json;

use super::{World, config_map, refusal};
use crate::{ApiError, User, WriteOptions, Written};
use object::Object;
use serde_json::Value;

const MIB: usize = 1 << 20;
const EXCEEDED: (u16, &str, &str) = (500, "", "etcdserver: mvcc: database space exceeded");

/// Returns a world with some namespaces and a quota of 16 MiB, 2 MiB of which are for events.
fn world() -> World {
    let mut world = World::new();
    for name in ["a", "b", "c", "d"] {
        world
            .create(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }))
            .unwrap();
    }
    world.store.set_quota(16 * MIB);
    world
}

fn create(world: &mut World, namespace: &str, mut object: Value, user: &str) -> Result<Written, ApiError> {
    object["metadata"]["namespace"] = namespace.into();
    let target = world.target(&object).named("");
    let user =
        Arc::new(if user == "admin" { User::admin() } else { User { name: user.into(), ..User::default() } });
    let options = WriteOptions::manager("test").by(user);
    world.store.create(&target, Object::from_value(object).unwrap(), &options, world.now)
}

/// Creates ConfigMaps of 1 MiB until one is rejected; returns how many were created.
fn fill(world: &mut World, namespace: &str, user: &str) -> usize {
    for i in 0.. {
        let object = config_map(&format!("{user}-{i}"), json!({ "text": "x".repeat(MIB) }));
        if let Err(error) = create(world, namespace, object, user) {
            assert_eq!((error.code(), error.reason(), error.message()), EXCEEDED);
            return i;
        }
    }
    unreachable!("a store of any size")
}

#[test]
fn a_namespace_that_uses_its_whole_share_leaves_space_for_the_others() {
    let mut world = world();
    assert_eq!(["a", "b", "c"].map(|namespace| fill(&mut world, namespace, "tenant")), [6, 3, 2]);
    create(&mut world, "d", config_map("small", json!({})), "tenant").unwrap();
    // An administrator may use the rest, but no more.
    assert!((1..=3).contains(&fill(&mut world, "d", "admin")));
}

#[test]
fn a_full_store_takes_deletions_and_writes_that_need_no_more() {
    let mut world = world();
    let count = fill(&mut world, "a", "admin");
    create(&mut world, "a", config_map("rest", json!({ "text": "x".repeat(MIB / 8 * 7) })), "admin").unwrap();
    let mut shorter = config_map("admin-0", json!({ "text": "x".repeat(MIB / 2) }));
    shorter["metadata"]["namespace"] = "a".into();
    world.update(shorter.clone()).unwrap();
    shorter["data"]["text"] = "y".repeat(MIB / 2).into();
    world.update(shorter.clone()).unwrap();
    shorter["data"]["text"] = "x".repeat(MIB + MIB / 4).into();
    assert!(world.update(shorter.clone()).is_err_and(|error| error.message() == EXCEEDED.2));
    let target = world.target(&shorter);
    for name in ["admin-1", "admin-2"] {
        world.delete(&target.clone().named(name)).unwrap();
    }
    world.update(shorter).unwrap();
    assert_eq!(fill(&mut world, "b", "admin"), 1);
    assert_eq!(world.names(&target.named("")).len() + 1, count);
}

#[test]
fn events_have_a_separate_share() {
    let mut world = world();
    let event = |i: usize, namespace: &str| {
        json!({
            "apiVersion": "v1", "kind": "Event", "metadata": { "name": format!("e{i}") },
            "involvedObject": { "namespace": namespace }, "message": "x".repeat(MIB / 8),
        })
    };
    let count = (0..).take_while(|i| create(&mut world, "a", event(*i, "a"), "tenant").is_ok()).count();
    assert!((6..=8).contains(&count), "{count}");
    create(&mut world, "b", event(0, "b"), "tenant").unwrap();
    assert_eq!(fill(&mut world, "a", "tenant"), 6);
    // After an hour, expired events make space.
    world.store.expire_events(
        jiff::SignedDuration::from_hours(1),
        None,
        world.now + jiff::SignedDuration::from_hours(2),
    );
    assert_eq!(
        (0..).take_while(|i| create(&mut world, "a", event(*i, "a"), "tenant").is_ok()).count(),
        count
    );
}

#[test]
fn objects_count_by_their_size_in_memory() {
    let mut world = world();
    let maps = vec![json!({ "a": 0 }); 10_000];
    let revision = |i: usize| json!({ "apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": { "name": format!("r{i}") }, "revision": 1, "data": { "maps": maps } });
    // Each has 80 kB of text.
    assert_eq!((0..).take_while(|i| create(&mut world, "a", revision(*i), "tenant").is_ok()).count(), 1);
}

#[test]
fn the_past_of_all_resources_together_has_a_limit() {
    let mut world = World::new();
    world.store.set_history(4 * MIB);
    let start = world.store.revision();
    let text = "x".repeat(MIB);
    for i in 0..3 {
        world.create(config_map(&format!("m{i}"), json!({ "text": text }))).unwrap();
        let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": format!("s{i}") }, "stringData": { "text": "x".repeat(MIB / 2) } });
        world.create(secret).unwrap();
    }
    let watched = |resource: &str| {
        let options = crate::WatchOptions { resource_version: start.to_string(), ..Default::default() };
        world.store.watch(&crate::ResourcePath::resource("", "v1", resource), &options)
    };
    assert_eq!(refusal(watched("configmaps")).0, 410);
    watched("serviceaccounts").unwrap();
}
