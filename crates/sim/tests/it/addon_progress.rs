//! The `Progressing` condition of an add-on on a cluster, before and without a rollout.

use serde_json::{Value, json};

use crate::addons::everywhere;
use crate::fixtures::{
    ADDON, addon, is_completed, merged, progress, progressive, put, put_work, seconds, select_all, template,
    world,
};
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::condition::ConditionStatus::{False, True};
use api::condition::{Observation, find_condition, set_condition};
use api::names::{ADDON_NAME_LABEL, CONFIG_SPEC_HASH_ANNOTATION, HOSTING_CLUSTER_ANNOTATION};
use engine::addon::config::annotation;
use engine::addon::config_refs::assigned;
use object::Key;
use sim::World;
use store::{Patch, ResourcePath, WriteOptions};

const ADDONS: &str = "addon.open-cluster-management.io/v1alpha1";

/// Returns the status, reason and message of `Progressing`.
fn progressing(world: &World, cluster: &str) -> String {
    let addon: ManagedClusterAddOn = world.get(&Key::namespaced(cluster, ADDON)).unwrap();
    let conditions = addon.status.unwrap_or_default().conditions;
    let condition = find_condition(&conditions, "Progressing");
    condition.map(|c| format!("{} {}: {}", c.status, c.reason, c.message)).unwrap_or_default()
}

/// Sets conditions on the first cluster's add-on, as its manager does.
fn report(world: &mut World, types: &[&str]) {
    let condition = |type_: &&str| json!({"type": type_, "status": "True", "reason": "Applied", "message": "", "lastTransitionTime": world.now.to_string()});
    let conditions: Vec<Value> = types.iter().map(condition).collect();
    let patch = Patch::Merge(json!({"status": {"conditions": conditions}}));
    let path = ResourcePath::of::<ManagedClusterAddOn>(&Key::namespaced("cluster1", ADDON)).sub("status");
    let now = world.now;
    world.hub.patch(&path, &patch, &WriteOptions::manager("manager"), now).unwrap();
    world.run_for(seconds(30)).unwrap();
}

/// Returns two clusters with an add-on that has neither a template nor configurations. The hub runs no
/// manager for it.
fn without_configurations() -> World {
    let mut world = world(2);
    let placement = json!({"namespace": "default", "name": "fleet"});
    let strategy = json!({"type": "Placements", "placements": [placement]});
    let kind = json!({"apiVersion": ADDONS, "kind": "ClusterManagementAddOn", "metadata": {"name": ADDON}});
    put(&mut world, merged(kind, json!({"spec": {"installStrategy": strategy}})));
    select_all(&mut world);
    world.run_for(seconds(30)).unwrap();
    world
}

#[test]
fn an_addon_without_configurations_says_what_it_waits_for_until_its_works_are_applied() {
    let mut world = without_configurations();
    let waits = "False WaitingForManifestApplied: Waiting for ManagedClusterAddOn ManifestApplied condition";
    assert_eq!(progressing(&world, "cluster1"), waits);
    report(&mut world, &["ManifestApplied"]);
    assert_eq!(progressing(&world, "cluster1"), "True Progressing: progressing... no addon works");
    let labels = json!({"open-cluster-management.io/addon-name": ADDON});
    let name = format!("addon-{ADDON}-deploy-0");
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}});
    let metadata = json!({"name": name, "namespace": "cluster1", "labels": labels});
    put_work(&mut world, metadata, json!({"workload": {"manifests": [map]}}));
    world.run_for(seconds(60)).unwrap();
    assert_eq!(progressing(&world, "cluster1"), "False Completed: completed with no errors.");
    assert_eq!(progressing(&world, "cluster2"), waits);
}

#[test]
fn an_addon_without_configurations_waits_for_the_part_on_its_host_too() {
    let mut world = without_configurations();
    let path = ResourcePath::of::<ManagedClusterAddOn>(&Key::namespaced("cluster1", ADDON));
    let host = Patch::Merge(json!({"metadata": {"annotations": {HOSTING_CLUSTER_ANNOTATION: "cluster2"}}}));
    let now = world.now;
    world.hub.patch(&path, &host, &WriteOptions::manager("user"), now).unwrap();
    report(&mut world, &["ManifestApplied"]);
    let waits = "False WaitingForHostingManifestApplied: Waiting for ManagedClusterAddOn HostingManifestApplied condition";
    assert_eq!(progressing(&world, "cluster1"), waits);
    report(&mut world, &["ManifestApplied", "HostingManifestApplied"]);
    assert_eq!(progressing(&world, "cluster1"), "True Progressing: progressing... no addon works");
}

#[test]
fn an_addon_that_waits_for_its_turn_says_so_and_its_deadline_begins_with_its_configuration() {
    let mut world = world(2);
    template(&mut world, "msa", "msa:0.4.9");
    addon(&mut world, "msa", progressive());
    select_all(&mut world);
    world.run_for(seconds(60)).unwrap();
    let waits = "False WaitingForManifestApplied: Waiting for ManagedClusterAddOn ManifestApplied condition";
    assert_eq!(progressing(&world, "cluster2"), waits);
    template(&mut world, "msa", "msa:0.4.0");
    assert!(world.run_until(seconds(120), is_completed).unwrap(), "{:?}", progress(&world));
    assert_eq!(progressing(&world, "cluster2"), "False Completed: completed with no errors.");
}

#[test]
fn a_configuration_of_a_kind_that_the_addon_does_not_support_fails_on_its_cluster_only() {
    let mut world = world(2);
    everywhere(&mut world);
    let config = |name: &str| json!([{"group": "example.com", "resource": "settings", "name": name}]);
    let metadata = json!({"name": ADDON, "namespace": "cluster2"});
    let kind = json!({"apiVersion": ADDONS, "kind": "ManagedClusterAddOn", "metadata": metadata});
    put(&mut world, merged(kind, json!({"spec": {"configs": config("blue")}})));
    world.run_for(seconds(60)).unwrap();
    let unsupported = "False ConfigurationUnsupported: Configuration with gvr example.com/settings is not supported for this addon";
    assert_eq!(progressing(&world, "cluster2"), unsupported);
    assert_eq!(progressing(&world, "cluster1"), "False Completed: completed with no errors.");
    let (reason, message) = progress(&world);
    assert!(reason == "Failed" || message.contains("1 failed"), "{reason}: {message}");
}

/// Acts as the add-on's manager: reports the hash of its configuration and deploys the assigned configuration.
fn manage(world: &mut World, hash: &str) {
    let cma: ClusterManagementAddOn = world.get(&Key::cluster(ADDON)).unwrap();
    let mut status = serde_json::to_value(cma.status.unwrap()).unwrap();
    status["defaultconfigReferences"][0]["desiredConfig"]["specHash"] = json!(hash);
    world.patch_status::<ClusterManagementAddOn>(&Key::cluster(ADDON), json!({"status": status})).unwrap();
    world.run_for(seconds(5)).unwrap();
    for addon in world.list::<ManagedClusterAddOn>() {
        let configs = assigned(&addon).unwrap_or_default();
        let Some(made_from) = annotation(&configs) else { continue };
        let name = format!("addon-{ADDON}-deploy-0");
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}});
        let metadata = json!({
            "name": name, "namespace": addon.metadata.namespace, "labels": {ADDON_NAME_LABEL: ADDON},
            "annotations": {CONFIG_SPEC_HASH_ANNOTATION: made_from},
        });
        put_work(world, metadata, json!({"workload": {"manifests": [map]}}));
    }
    world.run_for(seconds(5)).unwrap();
}

/// Sets the availability of the add-on on a cluster, as a manager with a probe does.
fn probe(world: &mut World, cluster: &str, is_available: bool) {
    let key = Key::namespaced(cluster, ADDON);
    let mut status = world.get::<ManagedClusterAddOn>(&key).unwrap().status.unwrap();
    let now = if is_available { True } else { False };
    let available = Observation::new("Available", now, "Probe").message("the agent crashes");
    set_condition(&mut status.conditions, available, world.now);
    let conditions = serde_json::to_value(status.conditions).unwrap();
    let patch = json!({"status": {"conditions": conditions, "healthCheck": {"mode": "Customized"}}});
    world.patch_status::<ManagedClusterAddOn>(&key, patch).unwrap();
    world.run_for(seconds(15)).unwrap();
}

fn assigned_clusters(world: &World) -> usize {
    let addons = world.list::<ManagedClusterAddOn>();
    addons.iter().filter(|addon| assigned(addon).is_some_and(|configs| !configs.is_empty())).count()
}

#[test]
fn an_addon_of_a_manager_that_is_not_available_stops_at_the_canary() {
    let mut world = world(2);
    let kind = json!({"apiVersion": ADDONS, "kind": "AddOnDeploymentConfig"});
    put(&mut world, merged(kind, json!({"metadata": {"name": "c", "namespace": "default"}, "spec": {}})));
    let kind = json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "RolloutPolicy"});
    put(&mut world, merged(kind, json!({"metadata": {"name": "p"}, "spec": {"success": "Available"}})));
    let config = json!({"name": "c", "namespace": "default"});
    let supported = json!({"group": "addon.open-cluster-management.io", "resource": "addondeploymentconfigs", "defaultConfig": config});
    let mut strategy = progressive();
    strategy["progressive"]["progressDeadline"] = json!("10m");
    let placement = json!({"namespace": "default", "name": "fleet", "rolloutStrategy": strategy});
    let kind = json!({"apiVersion": ADDONS, "kind": "ClusterManagementAddOn", "metadata": {"name": ADDON}});
    let strategy = json!({"type": "Placements", "placements": [placement]});
    let spec = json!({"supportedConfigs": [supported], "installStrategy": strategy});
    put(&mut world, merged(kind, json!({"spec": spec})));
    select_all(&mut world);
    world.run_for(seconds(10)).unwrap();
    manage(&mut world, "h1");
    probe(&mut world, "cluster1", false);
    let waits = "True Progressing: progressing... the add-on is not available: the agent crashes";
    assert_eq!((progressing(&world, "cluster1").as_str(), assigned_clusters(&world)), (waits, 1));
    probe(&mut world, "cluster1", true);
    assert_eq!(progressing(&world, "cluster1"), "False Completed: completed with no errors.");
    assert_eq!(assigned_clusters(&world), 2, "the rollout goes on");
}
