//! Add-ons on their clusters: jobs before the deletion, and configurations of their own.

use k8s_openapi::api::batch::v1::Job;
use serde_json::{Value, json};

use crate::fixtures::{ADDON, merged, put, seconds, template, world};
use api::addon::v1alpha1::{AddOnTemplate, ClusterManagementAddOn, ManagedClusterAddOn};
use api::condition::find_condition;
use api::names::ADDON_PRE_DELETE;
use api::work::v1::ManifestWork;
use object::{Key, Metadata as _};
use sim::World;
use store::{Patch, ResourcePath, WriteOptions};

/// A cluster with an add-on that has a job to run before it is deleted.
fn with_job() -> World {
    let mut world = world(1);
    template(&mut world, "msa", "msa:0.4.0");
    let template: AddOnTemplate = world.get(&Key::cluster("msa")).unwrap();
    let mut object = serde_json::to_value(template).unwrap();
    object["metadata"] = json!({"name": "msa"});
    let pod =
        json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "clean", "image": "clean:1"}]}});
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "spec": {"template": pod},
        "metadata": {"name": "clean", "namespace": "open-cluster-management-agent-addon", "annotations": {ADDON_PRE_DELETE: ""}},
    });
    object["spec"]["agentSpec"]["workload"]["manifests"].as_array_mut().unwrap().push(job);
    put(&mut world, object);
    let addons = "addon.open-cluster-management.io";
    let config = json!({"group": addons, "resource": "addontemplates", "defaultConfig": {"name": "msa"}});
    let kind = |kind: &str| json!({"apiVersion": format!("{addons}/v1alpha1"), "kind": kind});
    let spec = json!({"supportedConfigs": [config], "installStrategy": {"type": "Manual"}});
    put(
        &mut world,
        merged(kind("ClusterManagementAddOn"), json!({"metadata": {"name": ADDON}, "spec": spec})),
    );
    let on_cluster = json!({"metadata": {"name": ADDON, "namespace": "cluster1"}, "spec": {}});
    put(&mut world, merged(kind("ManagedClusterAddOn"), on_cluster));
    world.run_for(seconds(30)).unwrap();
    assert!(job_of(&world).is_none(), "the job runs at the deletion only");
    world
}

fn addon(world: &World) -> Option<ManagedClusterAddOn> {
    world.get(&Key::namespaced("cluster1", ADDON))
}

fn job_key() -> ResourcePath {
    ResourcePath::of::<Job>(&Key::namespaced("open-cluster-management-agent-addon", "clean"))
}

fn job_of(world: &World) -> Option<Value> {
    Some(world.spokes["cluster1"].store.get(&job_key()).ok()?.as_ref().clone().into_value())
}

/// Lets the image of the job be pulled; the change of the job makes the node look again.
fn complete(world: &mut World) {
    let now = world.now;
    let spoke = world.spokes.get_mut("cluster1").unwrap();
    spoke.workloads.images.insert("clean:1".into());
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"image": "pulled"}}}));
    spoke.store.patch(&job_key(), &patch, &WriteOptions::manager("jobs"), now).unwrap();
}

#[test]
fn an_addon_is_deleted_when_its_last_job_is_complete_and_no_sooner() {
    let mut world = with_job();
    assert!(addon(&world).unwrap().has_finalizer(ADDON_PRE_DELETE));
    world.delete::<ManagedClusterAddOn>(&Key::namespaced("cluster1", ADDON)).unwrap();
    world.restart_operator();
    world.run_for(seconds(60)).unwrap();
    assert!(job_of(&world).is_some());
    assert_eq!(world.list::<ManifestWork>().len(), 2, "what the add-on runs stays until then");
    let status = addon(&world).unwrap().status.unwrap();
    let held = find_condition(&status.conditions, "HookManifestCompleted").unwrap();
    assert_eq!(held.reason, "HookManifestIsNotCompleted");
    assert!(
        held.message.contains("jobs open-cluster-management-agent-addon/clean has not completed"),
        "{held:?}"
    );
    complete(&mut world);
    world.run_for(seconds(60)).unwrap();
    assert!(addon(&world).is_none());
    assert_eq!(world.list::<ManifestWork>().len(), 0);
}

#[test]
fn the_last_jobs_run_although_the_addon_is_deleted_for_all_clusters() {
    let mut world = with_job();
    world.delete::<ClusterManagementAddOn>(&Key::cluster(ADDON)).unwrap();
    world.run_for(seconds(60)).unwrap();
    assert!(addon(&world).unwrap().is_terminating() && job_of(&world).is_some());
    complete(&mut world);
    world.run_for(seconds(60)).unwrap();
    assert!(addon(&world).is_none());
}

#[test]
fn a_configuration_that_does_not_exist_is_named_on_the_addon_that_asks_for_it() {
    let mut world = with_job();
    let addons = "addon.open-cluster-management.io";
    let config =
        json!({"group": addons, "resource": "addondeploymentconfigs", "namespace": "default", "name": "own"});
    let kind = json!({"apiVersion": format!("{addons}/v1alpha1"), "kind": "ManagedClusterAddOn"});
    let metadata = json!({"name": ADDON, "namespace": "cluster1"});
    put(&mut world, merged(kind, json!({"metadata": metadata, "spec": {"configs": [config]}})));
    world.run_for(seconds(10)).unwrap();
    let configured = |world: &World| {
        let status = addon(world).unwrap().status.unwrap();
        let condition = find_condition(&status.conditions, "Configured").unwrap();
        (condition.status.to_string(), condition.message.clone())
    };
    let message = "addondeploymentconfigs default/own does not exist; the cluster keeps what it runs until that changes";
    assert_eq!(configured(&world), ("False".to_owned(), message.to_owned()));
    let kind = json!({"apiVersion": format!("{addons}/v1alpha1"), "kind": "AddOnDeploymentConfig"});
    put(&mut world, merged(kind, json!({"metadata": {"name": "own", "namespace": "default"}, "spec": {}})));
    world.run_for(seconds(10)).unwrap();
    assert_eq!(configured(&world).0, "True");
}
