//! Deletions on a hub without a garbage collector.

use k8s_openapi::api::apps::v1::{ControllerRevision, Deployment};
use k8s_openapi::api::rbac::v1::RoleBinding;
use serde_json::json;

use crate::fixtures::{
    ADDON, addon, is_completed, merged, progress, put, seconds, select_all, template, with,
};
use api::addon::v1alpha1::{AddOnTemplate, ClusterManagementAddOn, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::cluster::v1beta1::{Placement, PlacementDecision};
use api::names::{ADDON_NAME_LABEL, PLACEMENT_LABEL};
use api::work::v1::ManifestWork;
use object::{Key, Kind, Metadata as _};
use sim::{Setup, World};
use store::ResourcePath;

/// Returns two clusters with an add-on whose agent has a role on the hub. The hub has no garbage collector.
fn installed() -> World {
    let mut world = with(Setup { collects_garbage: false, ..Setup::default() }, 7, 2);
    template(&mut world, "msa", "msa:0.4.0");
    let mut object = serde_json::to_value(world.get::<AddOnTemplate>(&Key::cluster("msa")).unwrap()).unwrap();
    object["metadata"] = json!({"name": "msa"});
    let permission = json!({"type": "CurrentCluster", "currentCluster": {"clusterRoleName": "reader"}});
    object["spec"]["registration"] =
        json!([{"type": "KubeClient", "kubeClient": {"hubPermissions": [permission]}}]);
    put(&mut world, object);
    addon(&mut world, "msa", json!({"type": "All"}));
    select_all(&mut world);
    let policy = json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "RolloutPolicy"});
    put(&mut world, merged(policy, json!({"metadata": {"name": "p"}, "spec": {"removalBudget": "100%"}})));
    assert!(world.run_until(seconds(60), is_completed).unwrap(), "{:?}", progress(&world));
    assert_eq!((of_addon::<ManifestWork>(&world), of_addon::<RoleBinding>(&world)), (2, 2));
    world
}

/// Returns the number of the add-on's objects of a kind on the hub.
fn of_addon<K: Kind>(world: &World) -> usize {
    world.list::<K>().iter().filter(|object| object.label(ADDON_NAME_LABEL) == Some(ADDON)).count()
}

fn runs_on(world: &World, cluster: &str) -> bool {
    let key = Key::namespaced("open-cluster-management-agent-addon", "msa");
    world.spokes[cluster].store.get(&ResourcePath::of::<Deployment>(&key)).is_ok()
}

#[test]
fn an_addon_that_is_deleted_takes_its_works_and_then_its_permissions_with_it() {
    let mut world = installed();
    crate::fixtures::select(&mut world, json!({"canary": "true"}));
    world.keep_history();
    world.run_for(seconds(60)).unwrap();
    let history = world.take_history();
    assert_eq!(world.list::<ManagedClusterAddOn>().len(), 1);
    assert_eq!((of_addon::<ManifestWork>(&world), of_addon::<RoleBinding>(&world)), (1, 1));
    assert!(runs_on(&world, "cluster1") && !runs_on(&world, "cluster2"));
    let gone = history.iter().filter(|write| write.spoke.is_none() && write.after.is_none());
    let gone = gone.filter_map(|write| write.before.as_ref()).map(|object| object.kind().to_owned());
    let order: Vec<String> = gone.filter(|kind| kind.starts_with("M") || kind == "RoleBinding").collect();
    assert_eq!(order, ["ManagedClusterAddOn", "ManifestWork", "RoleBinding"]);
}

#[test]
fn an_addon_that_is_deleted_for_all_clusters_leaves_nothing_on_the_hub_or_on_a_cluster() {
    let mut world = installed();
    world.delete::<ClusterManagementAddOn>(&Key::cluster(ADDON)).unwrap();
    world.restart_operator();
    world.run_for(seconds(60)).unwrap();
    assert!(world.get::<ClusterManagementAddOn>(&Key::cluster(ADDON)).is_none());
    assert_eq!(world.list::<ManagedClusterAddOn>().len(), 0);
    assert_eq!((of_addon::<ManifestWork>(&world), of_addon::<RoleBinding>(&world)), (0, 0));
    assert_eq!(of_addon::<ControllerRevision>(&world), 0, "snapshots");
    assert!(!runs_on(&world, "cluster1") && !runs_on(&world, "cluster2"));
}

#[test]
fn a_deleted_cluster_takes_its_addons_and_their_works_with_it() {
    let mut world = installed();
    world.delete::<ManagedCluster>(&Key::cluster("cluster2")).unwrap();
    world.run_for(seconds(60)).unwrap();
    assert!(world.get::<ManagedCluster>(&Key::cluster("cluster2")).is_none());
    assert_eq!(world.list::<ManagedClusterAddOn>().len(), 1);
    assert_eq!((of_addon::<ManifestWork>(&world), of_addon::<RoleBinding>(&world)), (1, 1));
    assert!(!runs_on(&world, "cluster2"));
}

#[test]
fn a_work_that_the_addon_does_not_own_stays_when_the_addon_goes() {
    let mut world = installed();
    let metadata =
        json!({"name": "of-a-person", "namespace": "cluster2", "labels": {ADDON_NAME_LABEL: ADDON}});
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "default"}});
    let work = json!({"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork"});
    let spec = json!({"workload": {"manifests": [map]}});
    put(&mut world, merged(work, json!({"metadata": metadata, "spec": spec})));
    crate::fixtures::select(&mut world, json!({"canary": "true"}));
    world.run_for(seconds(60)).unwrap();
    let works = world.list::<ManifestWork>();
    let in_cluster: Vec<&str> =
        works.iter().filter(|work| work.namespace() == "cluster2").map(|work| work.name()).collect();
    assert_eq!(in_cluster, ["of-a-person"]);
}

#[test]
fn the_decisions_of_a_deleted_placement_are_deleted_and_its_addons_stay() {
    let mut world = installed();
    assert_eq!(world.list::<PlacementDecision>().len(), 2);
    world.delete::<Placement>(&Key::namespaced("default", "fleet")).unwrap();
    let metadata =
        json!({"name": "of-a-person", "namespace": "default", "labels": {PLACEMENT_LABEL: "fleet"}});
    let kind =
        json!({"apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "PlacementDecision"});
    put(&mut world, merged(kind, json!({"metadata": metadata})));
    world.run_for(seconds(60)).unwrap();
    let left = world.list::<PlacementDecision>();
    assert_eq!(left.iter().map(|decision| decision.name()).collect::<Vec<_>>(), ["of-a-person"]);
    assert_eq!((world.list::<ManagedClusterAddOn>().len(), of_addon::<ManifestWork>(&world)), (2, 2));
}

#[test]
fn a_placement_that_is_created_again_at_once_keeps_its_decisions() {
    let mut world = installed();
    let uids = |world: &World| -> Vec<String> {
        world.list::<PlacementDecision>().iter().map(|decision| decision.uid().to_owned()).collect()
    };
    let before = uids(&world);
    world.delete::<Placement>(&Key::namespaced("default", "fleet")).unwrap();
    select_all(&mut world);
    world.run_for(seconds(60)).unwrap();
    assert_eq!(uids(&world), before);
    let placement: Placement = world.get(&Key::namespaced("default", "fleet")).unwrap();
    for decision in world.list::<PlacementDecision>() {
        let owners = decision.metadata.owner_references.as_deref().unwrap_or_default();
        assert!(owners.iter().all(|owner| owner.uid == placement.uid()), "{owners:?}");
    }
}
