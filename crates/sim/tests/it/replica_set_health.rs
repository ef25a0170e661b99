//! The health of the workloads of a ManifestWorkReplicaSet in its rollout.

use serde_json::{Value, json};

use crate::fixtures::{config_repo, merged, progressive, put, repo, seconds, select_all, world};
use crate::replica_sets::{SET, get, policy, refs, set_with, settle};
use api::condition::Conditions as _;
use api::gitops::v1alpha1::ConfigRepo;
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

/// Returns the reason of a ConfigRepo's condition `Ready`, and its message.
fn readiness(world: &World) -> (String, String) {
    let repo: ConfigRepo = world.get(&repo()).unwrap();
    repo.condition("Ready").map(|ready| (ready.reason.clone(), ready.message.clone())).unwrap_or_default()
}

/// Commits the set with a template.
fn commit(world: &mut World, number: usize, template: &Value, strategy: Value) {
    let set = json!({
        "apiVersion": "work.open-cluster-management.io/v1alpha1", "kind": "ManifestWorkReplicaSet",
        "metadata": {"name": SET, "namespace": "default"},
        "spec": {"manifestWorkTemplate": template, "placementRefs": refs("fleet", strategy)},
    });
    let files = [("set.yaml".to_owned(), set.to_string())];
    let tree = files.iter().map(|(path, text)| (path.clone(), text.as_bytes())).collect();
    world.commit(&repo(), &format!("{number:040x}"), tree);
}

#[test]
fn a_config_repo_waits_as_long_as_the_rollout_of_its_set_and_no_longer_than_until_it_fails() {
    let mut world = world(2);
    select_all(&mut world);
    config_repo(&mut world, &repo(), json!({"url": "https://git.example/fleet", "healthTimeout": "1m"}));
    let strategy =
        merged(progressive(), json!({"progressive": {"minSuccessTime": "3m", "maxConcurrency": 1}}));
    commit(&mut world, 1, &deployment("msa:0.4.0"), strategy.clone());
    world.run_for(seconds(240)).unwrap();
    let (reason, message) = readiness(&world);
    assert_eq!(reason, "WaitingForHealth", "{message}");
    assert!(message.contains("waits for ManifestWorkReplicaSet.work.open-cluster-management.io default/settings: placement fleet: 1 of 2 clusters done"), "{message}");
    let is_ready = |world: &World| readiness(world).0 == "Applied";
    assert!(world.run_until(seconds(300), is_ready).unwrap(), "{:?}", readiness(&world));

    let longer = json!({"url": "https://git.example/fleet", "healthTimeout": "1h"});
    config_repo(&mut world, &repo(), longer);
    commit(&mut world, 2, &deployment("msa:none"), strategy);
    let has_failed = |world: &World| readiness(world).0 == "HealthCheckFailed";
    assert!(world.run_until(seconds(120), has_failed).unwrap(), "{:?}", readiness(&world));
    assert!(
        readiness(&world).1.contains("default/settings of 000000000000 has failed: placement fleet: "),
        "{:?}",
        readiness(&world)
    );
}
