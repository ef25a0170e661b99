//! Ownership of a work: who wins a field conflict, what stays after the work is deleted, and in which order the
//! works of a departing cluster are deleted.

use serde_json::{Value, json};

use crate::fixtures::{self, config_maps, seconds, world};
use api::cluster::v1::ManagedCluster;
use api::condition::find_condition;
use api::work::v1::{ManifestCondition, ManifestWork};
use object::{Key, Metadata as _, Object};
use sim::World;
use store::{ListOptions, Patch, ResourcePath, WriteOptions};

fn map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": {"v": value}})
}

fn identifier(name: &str) -> Value {
    json!({"group": "", "resource": "configmaps", "name": name, "namespace": "default"})
}

fn put_work(world: &mut World, spec: Value) {
    fixtures::put_work(world, json!({"name": "w", "namespace": "cluster1"}), spec);
    world.run_for(seconds(10)).unwrap();
}

fn delete_work(world: &mut World) {
    world.delete::<ManifestWork>(&Key::namespaced("cluster1", "w")).unwrap();
    world.run_for(seconds(10)).unwrap();
    assert!(world.list::<ManifestWork>().is_empty());
}

fn path(name: &str) -> ResourcePath {
    ResourcePath::resource("", "v1", "configmaps").at(&Key::namespaced("default", name))
}

/// Applies a ConfigMap on the spoke as another client.
fn apply_there(world: &mut World, map: Value) {
    let (now, spoke) = (world.now, world.spokes.get_mut("cluster1").unwrap());
    let name = map["metadata"]["name"].as_str().unwrap().to_owned();
    let options = WriteOptions::manager("somebody").forced();
    spoke.store.patch(&path(&name), &Patch::Apply(map), &options, now).unwrap();
}

fn live(world: &World, name: &str) -> Object {
    Object::clone(&world.spokes["cluster1"].store.get(&path(name)).unwrap())
}

fn owners(world: &World, name: &str) -> usize {
    live(world, name)
        .at(&["metadata", "ownerReferences"])
        .map_or(0, |owners| owners.as_array().unwrap().len())
}

fn manifests(world: &World) -> Vec<ManifestCondition> {
    let work: ManifestWork = world.get(&Key::namespaced("cluster1", "w")).unwrap();
    work.status.unwrap().resource_status.manifests
}

fn applied(world: &World) -> Vec<(String, String)> {
    let condition = |manifest: &ManifestCondition| {
        let applied = find_condition(&manifest.conditions, "Applied").unwrap();
        (applied.reason.clone(), applied.message.clone())
    };
    manifests(world).iter().map(condition).collect()
}

#[test]
fn an_orphaned_object_stays_without_our_owner_reference() {
    let orphan = json!({"propagationPolicy": "Orphan"});
    let selective = |name: &str| json!({"propagationPolicy": "SelectivelyOrphan", "selectivelyOrphans": {"orphaningRules": [identifier(name)]}});
    for (option, stays) in [(orphan, ["a", "b"].as_slice()), (selective("a"), &["a"]), (selective("*"), &[])]
    {
        let mut world = world(1);
        put_work(&mut world, json!({"workload": {"manifests": [map("a", "1"), map("b", "1")]}}));
        assert_eq!((owners(&world, "a"), owners(&world, "b")), (1, 1));
        // The option is added later, so the existing owner reference must be removed.
        let manifests = [map("a", "1"), map("b", "1")];
        put_work(&mut world, json!({"workload": {"manifests": manifests}, "deleteOption": option}));
        for name in ["a", "b"] {
            assert_eq!(owners(&world, name), usize::from(!stays.contains(&name)), "{name} of {option}");
        }
        delete_work(&mut world);
        let left: Vec<String> = stays.iter().map(|name| format!("{name}=\"1\"")).collect();
        assert_eq!(config_maps(&world), left, "{option}");
        assert!(stays.iter().all(|name| owners(&world, name) == 0), "{option}");
    }
}

#[test]
fn an_object_that_moves_to_another_work_is_not_deleted_in_between() {
    let spec = |names: &[&str]| {
        let manifests: Vec<Value> = names.iter().map(|name| map(name, "1")).collect();
        json!({"workload": {"manifests": manifests}})
    };
    for (seed, is_renamed) in [(1, false), (2, true), (3, false), (4, true)] {
        let mut world = fixtures::seeded(seed, 1);
        put_work(&mut world, spec(&["a", "b"]));
        let uid = live(&world, "a").uid().to_owned();
        fixtures::put_work(&mut world, json!({"name": "other", "namespace": "cluster1"}), spec(&["a"]));
        if is_renamed {
            world.delete::<ManifestWork>(&Key::namespaced("cluster1", "w")).unwrap();
            world.run_for(seconds(10)).unwrap();
        } else {
            put_work(&mut world, spec(&["b"]));
        }
        assert_eq!((live(&world, "a").uid(), owners(&world, "a")), (&*uid, 1), "{seed}");
        world.delete::<ManifestWork>(&Key::namespaced("cluster1", "other")).unwrap();
        world.run_for(seconds(10)).unwrap();
        let left = if is_renamed { vec![] } else { vec!["b=\"1\""] };
        assert_eq!(config_maps(&world), left, "{seed}");
    }
}

#[test]
fn an_object_that_another_work_only_reads_is_deleted_with_its_own() {
    let mut world = world(1);
    put_work(&mut world, json!({"workload": {"manifests": [map("a", "1")]}}));
    let reads = json!({"resourceIdentifier": identifier("a"), "updateStrategy": {"type": "ReadOnly"}});
    let spec = json!({"workload": {"manifests": [map("a", "1")]}, "manifestConfigs": [reads]});
    fixtures::put_work(&mut world, json!({"name": "other", "namespace": "cluster1"}), spec);
    world.delete::<ManifestWork>(&Key::namespaced("cluster1", "w")).unwrap();
    world.run_for(seconds(10)).unwrap();
    assert!(config_maps(&world).is_empty());
}

#[test]
fn a_field_conflict_is_reported_and_blocks_no_other_object() {
    let mut world = world(1);
    apply_there(&mut world, map("theirs", "0"));
    let careful = json!({"type": "ServerSideApply", "serverSideApply": {"force": false}});
    let spec = |theirs: &str| {
        json!({
            "workload": {"manifests": [map("theirs", theirs), map("ours", theirs)]},
            "manifestConfigs": [{"resourceIdentifier": identifier("*"), "updateStrategy": careful}],
        })
    };
    put_work(&mut world, spec("1"));
    assert_eq!(config_maps(&world), ["ours=\"1\"", "theirs=\"0\""]);
    let reported = applied(&world);
    assert_eq!(reported[0].0, "AppliedManifestFailed");
    assert!(reported[0].1.contains("conflict with \"somebody\""), "{reported:?}");
    assert_eq!(reported[1].0, "AppliedManifestComplete");
    assert_eq!(owners(&world, "theirs"), 0, "what could not be applied does not belong to the work");

    // Both now agree on the value, so there is no conflict and they share the object.
    put_work(&mut world, spec("0"));
    assert_eq!(applied(&world)[0].0, "AppliedManifestComplete");
    assert_eq!(owners(&world, "theirs"), 1);
    let revision = |world: &World| world.spokes["cluster1"].store.revision();
    let before = revision(&world);
    world.run_for(seconds(60)).unwrap();
    assert_eq!(revision(&world), before, "and it is written no more");
}

#[test]
fn an_object_that_could_not_be_applied_survives_the_work() {
    let mut world = world(1);
    apply_there(&mut world, map("theirs", "0"));
    let careful = json!({"type": "ServerSideApply", "serverSideApply": {"force": false}});
    put_work(
        &mut world,
        json!({
            "workload": {"manifests": [map("theirs", "1")]},
            "manifestConfigs": [{"resourceIdentifier": identifier("*"), "updateStrategy": careful}],
        }),
    );
    delete_work(&mut world);
    assert_eq!(config_maps(&world), ["theirs=\"0\""]);
}

#[test]
fn an_object_that_is_only_read_is_reported_never_written_and_survives_the_work() {
    let mut world = world(1);
    apply_there(&mut world, map("theirs", "0"));
    let before = live(&world, "theirs");
    let feedback = json!([{"type": "JSONPaths", "jsonPaths": [{"name": "v", "path": ".data.v"}]}]);
    put_work(
        &mut world,
        json!({
            "workload": {"manifests": [map("theirs", "1")]},
            "manifestConfigs": [{
                "resourceIdentifier": identifier("theirs"), "updateStrategy": {"type": "ReadOnly"}, "feedbackRules": feedback,
            }],
        }),
    );
    assert_eq!(live(&world, "theirs"), before, "neither content nor owner is written");
    let [manifest] = &manifests(&world)[..] else { panic!("one manifest") };
    let holds =
        |type_: &str| find_condition(&manifest.conditions, type_).is_some_and(api::Condition::is_true);
    assert!(holds("Applied") && holds("Available") && holds("StatusFeedbackSynced"), "{manifest:?}");
    let value = |world: &World| manifests(world)[0].status_feedback.values[0].field_value.string.clone();
    assert_eq!(value(&world).as_deref(), Some("0"));
    apply_there(&mut world, map("theirs", "2"));
    world.run_for(seconds(10)).unwrap();
    assert_eq!(value(&world).as_deref(), Some("2"), "a change of it is reported");
    delete_work(&mut world);
    assert_eq!(config_maps(&world), ["theirs=\"2\""]);
}

#[test]
fn a_work_and_its_inventory_stay_until_an_object_with_a_foreign_finalizer_is_released() {
    let mut world = world(1);
    put_work(&mut world, json!({"workload": {"manifests": [map("a", "1"), map("b", "1")]}}));
    let finalizers = |world: &mut World, finalizers: Value| {
        let (now, spoke) = (world.now, world.spokes.get_mut("cluster1").unwrap());
        let patch = Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
        spoke.store.patch(&path("a"), &patch, &WriteOptions::manager("somebody"), now).unwrap();
    };
    let left = |world: &World| {
        let all = ResourcePath::resource("work.open-cluster-management.io", "v1", "appliedmanifestworks");
        let inventories = world.spokes["cluster1"].store.list(&all, &ListOptions::default()).unwrap();
        (config_maps(world).len(), inventories.items.len(), world.list::<ManifestWork>().len())
    };
    finalizers(&mut world, json!(["example.com/keep"]));
    world.delete::<ManifestWork>(&Key::namespaced("cluster1", "w")).unwrap();
    world.run_for(seconds(600)).unwrap();
    assert_eq!(left(&world), (1, 1, 1));
    finalizers(&mut world, Value::Null);
    world.run_for(seconds(10)).unwrap();
    assert_eq!(left(&world), (0, 0, 0));
}

#[test]
fn the_works_of_a_leaving_cluster_are_deleted_by_priority_and_an_invalid_one_is_zero() {
    let mut world = world(1);
    for (name, priority) in
        [("w0", "0"), ("w50", "50"), ("w100", "100"), ("high", "101"), ("text", "x"), ("negative", "-1")]
    {
        let metadata = json!({"name": name, "namespace": "cluster1", "annotations": {"open-cluster-management.io/cleanup-priority": priority}});
        fixtures::put_work(&mut world, metadata, json!({"workload": {"manifests": [map(name, "1")]}}));
    }
    world.run_for(seconds(10)).unwrap();
    let works = |world: &World| -> Vec<(String, bool)> {
        let all = world.list::<ManifestWork>();
        all.iter().map(|work| (work.name().to_owned(), work.is_terminating())).collect()
    };
    // The agent is unreachable, so each work waits for it.
    world.spokes.get_mut("cluster1").unwrap().connected = false;
    world.delete::<ManagedCluster>(&Key::cluster("cluster1")).unwrap();
    world.run_for(seconds(10)).unwrap();
    let expected =
        [("high", true), ("negative", true), ("text", true), ("w0", true), ("w100", false), ("w50", false)];
    assert_eq!(works(&world), expected.map(|(name, is_leaving)| (name.to_owned(), is_leaving)));
    let cluster: ManagedCluster = world.get(&Key::cluster("cluster1")).unwrap();
    let deleting = find_condition(&cluster.status.unwrap().conditions, "Deleting").unwrap().clone();
    assert_eq!(
        (deleting.reason.as_str(), deleting.message.as_str()),
        (
            "ResourceRemaining",
            "The resource manifestworks is remaning, the remaining count is 6, the finalizer pending count is 4"
        )
    );
    world.keep_history();
    world.spokes.get_mut("cluster1").unwrap().connected = true;
    world.run_for(seconds(60)).unwrap();
    assert!(works(&world).is_empty() && config_maps(&world).is_empty());
    assert!(world.list::<ManagedCluster>().is_empty());
    let history = world.take_history();
    let ended = history.iter().filter(|write| write.id.kind == "ManifestWork" && write.after.is_none());
    let ended: Vec<&str> = ended.map(|write| write.id.key.name.as_str()).collect();
    assert_eq!(ended[4..], ["w50", "w100"], "{ended:?}");
}
