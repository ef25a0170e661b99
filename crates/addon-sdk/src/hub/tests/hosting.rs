//! Tests an add-on of which a part runs on another cluster.

use serde_json::{Value, json};

use super::{Demo, NOW, World, message, words};
use crate::hub::deploy::DeployController;
use api::work::v1::ManifestWork;
use object::Key;
use reconcile::{Action, Controller as _, Delta, Plan, Site, Unreadable};

const CLEANUP: &str = "addon.open-cluster-management.io/hosting-manifests-cleanup";
const JOBS: &str = "addon.open-cluster-management.io/hosting-addon-pre-delete";

fn plan(world: &World) -> Plan {
    DeployController::<Demo>::plan(&Key::namespaced("c1", "a"), &world.caches(), NOW).unwrap()
}

/// Returns the add-on with a part on the cluster `h` and the finalizers for it.
fn hosted(values: &[(&str, &str)]) -> World {
    let mut world = World::new(&[values, &[("HOSTED", "hosting")]].concat());
    world.addon["metadata"]["annotations"] =
        json!({"addon.open-cluster-management.io/hosting-cluster-name": "h"});
    world.addon["metadata"]["finalizers"] = json!([CLEANUP]);
    world
}

/// Returns the works that a plan applies, as `namespace/name: objects`.
fn works(plan: &Plan) -> Vec<String> {
    let work = |action: &Action| match action {
        Action::Apply { object, .. } if object.kind() == "ManifestWork" => {
            let manifests = object.at(&["spec", "workload", "manifests"])?.as_array()?.clone();
            let names = manifests.iter().map(|it| it["metadata"]["name"].as_str().unwrap_or_default());
            let names: Vec<&str> = names.collect();
            Some(format!("{}/{}: {}", object.reference().key.namespace, object.name(), names.join(" ")))
        }
        _ => None,
    };
    plan.steps.iter().flatten().filter_map(work).collect()
}

fn applied(plan: &Plan) -> Vec<ManifestWork> {
    let work = |action: &Action| match action {
        Action::Apply { object, .. } if object.kind() == "ManifestWork" => object.to_typed().ok(),
        _ => None,
    };
    plan.steps.iter().flatten().filter_map(work).collect()
}

const HERE: &str = "c1/addon-a-deploy-0: demo";
const THERE: &str = "h/addon-a-deploy-hosting-c1-0: elsewhere";

#[test]
fn a_hosted_addon_has_works_on_both_clusters_and_is_held_before_the_first_one() {
    let mut world = hosted(&[]);
    assert_eq!(works(&plan(&world)), [THERE, HERE]);
    assert_eq!(message(&plan(&world), "HostingClusterValidity").unwrap().split(':').next(), Some("True"));
    world.addon["metadata"]["finalizers"] = json!([]);
    assert_eq!(words(&plan(&world)), ["patch ManagedClusterAddOn"]);
    let mut own = World::new(&[("HOSTED", "hosting")]);
    assert_eq!(works(&plan(&own)), ["c1/addon-a-deploy-0: demo elsewhere"], "without the annotation");
    own = hosted(&[]);
    own.variables = json!([]);
    assert_eq!(works(&plan(&own)), [""; 0], "the rollout has not assigned it");
}

#[test]
fn an_unreadable_work_of_another_cluster_does_not_affect_an_addon() {
    for world in [World::new(&[]), hosted(&[])] {
        let mut caches = world.caches();
        let key = Key::namespaced("other", "addon-a-deploy-0");
        let labels = [("open-cluster-management.io/addon-name".to_owned(), "a".to_owned())];
        let refused = Unreadable { key, labels: Some(labels.into()), reason: "spec: not a map".into() };
        caches.apply::<ManifestWork>(Site::Hub, Delta::Unreadable(refused));
        let key = Key::namespaced("c1", "a");
        assert!(!DeployController::<Demo>::plan(&key, &caches, NOW).unwrap().steps.is_empty());
    }
}

#[test]
fn a_second_plan_of_a_hosted_addon_writes_no_work_and_the_part_follows_the_annotation() {
    let mut world = hosted(&[]);
    world.works = applied(&plan(&world));
    assert_eq!(works(&plan(&world)), [""; 0]);
    world.addon["metadata"]["annotations"] = json!({});
    let gone = plan(&world);
    assert_eq!(works(&gone), ["c1/addon-a-deploy-0: demo elsewhere"]);
    assert_eq!(words(&gone).last().unwrap(), "delete ManifestWork");
}

#[test]
fn a_host_that_is_missing_or_not_accepted_changes_nothing() {
    for host in [Value::Null, json!({"metadata": {"name": "h"}, "spec": {"hubAcceptsClient": false}})] {
        let mut world = hosted(&[]);
        world.works = applied(&plan(&world));
        world.host = host;
        let plan = plan(&world);
        assert!(!words(&plan).iter().any(|word| word.contains("ManifestWork")), "{:?}", words(&plan));
        let condition = message(&plan, "HostingClusterValidity").unwrap();
        assert!(condition.starts_with("False: hosting cluster h is not"), "{condition}");
    }
}

#[test]
fn a_deleted_addon_runs_its_jobs_where_they_belong_and_then_leaves_its_host() {
    let mut world = hosted(&[("JOB", "yes")]);
    world.addon["metadata"]["finalizers"] = json!([CLEANUP, JOBS]);
    world.works = applied(&plan(&world));
    assert_eq!(world.works.len(), 2);
    world.addon["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(works(&plan(&world)), ["h/addon-a-pre-delete-hosting-c1: clean"]);
    world.addon["metadata"]["finalizers"] = json!([CLEANUP]);
    assert_eq!(words(&plan(&world)), ["delete ManifestWork"], "that of the host; the other has an owner");
    world.works.clear();
    assert_eq!(words(&plan(&world)), ["patch ManagedClusterAddOn"], "the finalizer goes");
}
