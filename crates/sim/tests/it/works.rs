//! The life cycle of works and clusters.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, RoleBinding};
use serde_json::json;

use crate::fixtures::{
    addon, config_maps, is_completed, join, put_work, seconds, seeded, select_all, template, work, work_of,
    world,
};
use api::cluster::v1::ManagedCluster;
use api::condition::find_condition;
use api::work::v1::ManifestWork;
use object::{Key, Metadata as _};
use sim::{Faults, World};
use store::{DeleteOptions, Patch, ResourcePath, WriteOptions};

#[test]
fn a_work_creates_its_manifests_on_its_cluster_and_removes_the_rest() {
    let mut world = world(1);
    work(&mut world, &[("a", "1"), ("b", "1")]);
    assert_eq!(config_maps(&world), ["a=\"1\"", "b=\"1\""]);
    work(&mut world, &[("b", "2"), ("c", "1")]);
    assert_eq!(config_maps(&world), ["b=\"2\"", "c=\"1\""]);
    let key = Key::namespaced("default", "b");
    let drift = Patch::Merge(json!({"data": {"v": "drifted"}}));
    let (now, spoke) = (world.now, world.spokes.get_mut("cluster1").unwrap());
    let target = ResourcePath::resource("", "v1", "configmaps").at(&key);
    spoke.store.patch(&target, &drift, &WriteOptions::manager("somebody"), now).unwrap();
    world.run_for(seconds(10)).unwrap();
    assert_eq!(config_maps(&world), ["b=\"2\"", "c=\"1\""], "drift is corrected");
    let revisions = |world: &World| (world.hub.revision(), world.spokes["cluster1"].store.revision());
    let before = revisions(&world);
    world.restart_agent("cluster1");
    world.run_for(seconds(1)).unwrap();
    assert_eq!(revisions(&world), before, "a restart writes nothing");
    world.delete::<ManifestWork>(&Key::namespaced("cluster1", "w")).unwrap();
    world.run_for(seconds(10)).unwrap();
    assert_eq!((config_maps(&world).len(), world.list::<ManifestWork>().len()), (0, 0));
}

#[test]
fn an_object_of_two_works_stays_until_both_are_deleted() {
    let mut world = world(1);
    work_of(&mut world, "first", &[("shared", "1"), ("own", "1")]);
    work_of(&mut world, "second", &[("shared", "1")]);
    let revision = |world: &World| world.spokes["cluster1"].store.revision();
    let before = revision(&world);
    world.run_for(seconds(10)).unwrap();
    assert_eq!(revision(&world), before, "the works do not take the object from each other");
    world.delete::<ManifestWork>(&Key::namespaced("cluster1", "second")).unwrap();
    world.run_for(seconds(10)).unwrap();
    assert_eq!(config_maps(&world), ["own=\"1\"", "shared=\"1\""]);
    world.delete::<ManifestWork>(&Key::namespaced("cluster1", "first")).unwrap();
    world.run_for(seconds(10)).unwrap();
    assert!(config_maps(&world).is_empty());
}

#[test]
fn a_manifest_that_cannot_be_applied_is_named_and_holds_back_no_other() {
    let mut world = world(1);
    let map = |name: &str, namespace: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": {"v": "1"}});
    let spec = json!({"workload": {"manifests": [map("a", "nowhere"), map("b", "default")]}});
    put_work(&mut world, json!({"name": "w", "namespace": "cluster1"}), spec);
    world.run_for(seconds(5)).unwrap();
    assert_eq!(config_maps(&world), ["b=\"1\""]);
    let work: ManifestWork = world.get(&Key::namespaced("cluster1", "w")).unwrap();
    let status = work.status.unwrap();
    let applied = |conditions: &[api::Condition]| {
        find_condition(conditions, "Applied").map(|c| (c.status.to_string(), c.message.clone()))
    };
    let manifests: Vec<_> =
        status.resource_status.manifests.iter().map(|m| applied(&m.conditions).unwrap()).collect();
    assert_eq!(manifests[1], ("True".into(), "Apply manifest complete".into()));
    assert!(
        manifests[0].1.starts_with("Failed to apply manifest: ") && manifests[0].1.contains("nowhere"),
        "{manifests:?}"
    );
    assert_eq!(applied(&status.conditions).unwrap().0, "False");
}

#[test]
fn a_manifest_whose_write_was_not_reached_is_applied_later() {
    let mut world = world(1);
    let update = |world: &mut World, value: u64| {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}, "data": {"v": value.to_string()}});
        let spec = json!({"workload": {"manifests": [namespace, map]}});
        put_work(world, json!({"name": "w", "namespace": "cluster1"}), spec);
    };
    for value in 0..20 {
        world.faults = Faults { refused: 400, ..Faults::default() };
        update(&mut world, value);
        world.run_for(seconds(2)).unwrap();
        world.faults = Faults::default();
        world.run_for(seconds(300)).unwrap();
        assert_eq!(config_maps(&world), [format!("a=\"{value}\"")]);
    }
}

#[test]
fn an_agent_keeps_watching_the_objects_of_a_recreated_work() {
    for seed in 4..8 {
        let mut world = seeded(seed, 1);
        template(&mut world, "msa-0.4.0", "msa:0.4.0");
        addon(&mut world, "msa-0.4.0", json!({"type": "All"}));
        select_all(&mut world);
        assert!(world.run_until(seconds(60), is_completed).unwrap());
        let works = world.list::<ManifestWork>();
        world.delete::<ManifestWork>(&Key::of(&works[0])).unwrap();
        world.run_for(seconds(60)).unwrap();
        let target =
            ResourcePath::of::<Deployment>(&Key::namespaced("open-cluster-management-agent-addon", "msa"));
        let (now, spoke) = (world.now, world.spokes.get_mut("cluster1").unwrap());
        spoke.store.delete(&target, &DeleteOptions::default(), now).unwrap();
        world.run_for(seconds(60)).unwrap();
        assert!(world.spokes["cluster1"].store.get(&target).is_ok(), "seed {seed}");
    }
}

#[test]
fn a_silent_cluster_is_unknown_and_recovers() {
    let mut world = world(2);
    let available = |world: &World, name: &str| {
        let cluster: ManagedCluster = world.get(&Key::cluster(name)).unwrap();
        let taints: Vec<_> = cluster
            .spec
            .taints
            .iter()
            .map(|taint| taint.key.rsplit('/').next().unwrap().to_owned())
            .collect();
        let condition =
            find_condition(&cluster.status.unwrap().conditions, "ManagedClusterConditionAvailable").cloned();
        (condition.unwrap().status.to_string(), taints.join(","))
    };
    world.spokes.get_mut("cluster1").unwrap().connected = false;
    world.run_for(seconds(290)).unwrap();
    assert_eq!(available(&world, "cluster1"), ("True".into(), String::new()), "five renewals may be missed");
    world.run_for(seconds(70)).unwrap();
    assert_eq!(available(&world, "cluster1"), ("Unknown".into(), "unreachable".into()));
    assert_eq!(available(&world, "cluster2"), ("True".into(), String::new()));
    world.spokes.get_mut("cluster1").unwrap().connected = true;
    world.run_for(seconds(90)).unwrap();
    assert_eq!(available(&world, "cluster1"), ("True".into(), String::new()));
}

#[test]
fn a_cluster_that_leaves_takes_its_permissions_with_it_and_its_namespace_stays() {
    let mut world = world(1);
    work(&mut world, &[("a", "1")]);
    world.delete::<ManagedCluster>(&Key::cluster("cluster1")).unwrap();
    world.run_for(seconds(10)).unwrap();
    assert_eq!(
        (world.list::<ManagedCluster>().len(), world.list::<ManifestWork>().len(), config_maps(&world).len()),
        (0, 0, 0)
    );
    let roles = world.list::<ClusterRole>();
    assert!(
        !roles
            .iter()
            .any(|role| role.metadata.name.as_deref()
                == Some("open-cluster-management:managedcluster:cluster1"))
    );
    assert!(world.get::<Namespace>(&Key::cluster("cluster1")).is_some());
}

#[test]
fn a_cluster_deleted_without_its_finalizers_leaves_only_its_namespace() {
    let mut world = world(2);
    work(&mut world, &[("a", "1")]);
    let permissions = |world: &World, cluster: &str| {
        let name = Key::cluster(format!("open-cluster-management:managedcluster:{cluster}"));
        let outside =
            [world.get::<ClusterRole>(&name).is_some(), world.get::<ClusterRoleBinding>(&name).is_some()];
        let bindings = world.list::<RoleBinding>();
        (outside, bindings.iter().filter(|binding| binding.namespace() == cluster).count())
    };
    assert_eq!(permissions(&world, "cluster1"), ([true, true], 2));
    world.run_for(seconds(600)).unwrap();
    let target = ResourcePath::of::<ManagedCluster>(&Key::cluster("cluster1"));
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let now = world.now;
    world.hub.patch(&target, &patch, &WriteOptions::manager("somebody"), now).unwrap();
    world.delete::<ManagedCluster>(&Key::cluster("cluster1")).unwrap();
    world.restart_operator();
    world.run_for(seconds(10)).unwrap();
    assert_eq!((world.list::<ManagedCluster>().len(), world.list::<ManifestWork>().len()), (1, 0));
    assert!(config_maps(&world).is_empty());
    assert_eq!(permissions(&world, "cluster1"), ([false, false], 0));
    assert_eq!(permissions(&world, "cluster2"), ([true, true], 2));
    assert!(world.get::<Namespace>(&Key::cluster("cluster1")).is_some());
}

#[test]
fn a_cluster_that_joins_under_the_name_of_another_has_none_of_its_objects() {
    let mut world = world(1);
    world.delete::<ManagedCluster>(&Key::cluster("cluster1")).unwrap();
    world.run_for(seconds(10)).unwrap();
    // The agent keeps running: its cluster has left, but its namespace exists.
    work(&mut world, &[("a", "1")]);
    assert_eq!(config_maps(&world), ["a=\"1\""]);
    join(&mut world, 0, false, seconds(3));
    assert!(config_maps(&world).is_empty(), "{:?}", config_maps(&world));
    world.run_for(seconds(10)).unwrap();
    assert_eq!(config_maps(&world), ["a=\"1\""]);
}
