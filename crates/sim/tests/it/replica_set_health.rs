//! The health of the workloads of a ManifestWorkReplicaSet in its rollout.

use serde_json::{Value, json};

use crate::fixtures::{progressive, put, seconds, select_all, world};
use crate::replica_sets::{SET, get, policy, refs, set_with, settle};
use api::condition::Conditions as _;
use api::work::v1::ManifestWork;
use sim::World;

/// Returns a template with a Deployment; the clusters can pull the images `msa:0.4.0` and `msa:0.4.1`.
pub(crate) fn deployment(image: &str) -> Value {
    let pod = json!({"containers": [{"name": "web", "image": image}]});
    let labels = json!({"app": "web"});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}},
    });
    json!({"workload": {"manifests": [deployment]}})
}

/// Returns the image in each cluster's work.
pub(crate) fn images(world: &World) -> Vec<String> {
    let image = |work: &ManifestWork| {
        let spec = &work.spec.workload.manifests[0]["spec"];
        spec["template"]["spec"]["containers"][0]["image"].as_str().unwrap().to_owned()
    };
    world.list::<ManifestWork>().iter().map(image).collect()
}

#[test]
fn a_set_whose_pods_do_not_start_stops_at_the_canary() {
    let mut world = world(3);
    select_all(&mut world);
    policy(&mut world, json!({"replicaSets": ["default/settings"], "onBreach": "Rollback"}));
    let put_image = |world: &mut World, image: &str| {
        let placements = refs("fleet", progressive());
        set_with(world, json!({"manifestWorkTemplate": deployment(image), "placementRefs": placements}));
    };
    put_image(&mut world, "msa:0.4.0");
    settle(&mut world);
    put_image(&mut world, "msa:none");
    assert!(world.run_until(seconds(30), |world| images(world)[0] == "msa:none").unwrap());
    assert_eq!(images(&world)[1..], ["msa:0.4.0", "msa:0.4.0"]);
    world.run_for(seconds(1800)).unwrap();
    assert_eq!(images(&world), ["msa:0.4.0"; 3], "it is undone");
    put_image(&mut world, "msa:0.4.1");
    settle(&mut world);
    assert_eq!(images(&world), ["msa:0.4.1"; 3]);
}

#[test]
fn a_set_can_ignore_the_health_of_its_workloads() {
    let mut world = world(3);
    select_all(&mut world);
    let spec = json!({"manifestWorkTemplate": deployment("msa:none"), "placementRefs": refs("fleet", progressive())});
    set_with(&mut world, spec.clone());
    world.run_for(seconds(120)).unwrap();
    assert_eq!(world.list::<ManifestWork>().len(), 1, "the canary does not run");
    let annotations = json!({"gitops.wheelwright.dev/workload-health": "ignore"});
    put(
        &mut world,
        json!({
            "apiVersion": "work.open-cluster-management.io/v1alpha1", "kind": "ManifestWorkReplicaSet",
            "metadata": {"name": SET, "namespace": "default", "annotations": annotations}, "spec": spec,
        }),
    );
    world.run_for(seconds(120)).unwrap();
    assert_eq!(
        (images(&world), get(&world).holds("PlacementRolledOut")),
        (vec!["msa:none".to_owned(); 3], true)
    );
}
