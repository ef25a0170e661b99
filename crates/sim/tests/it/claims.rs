//! A cluster's reports about itself: its claims and its version.

use serde_json::json;

use crate::fixtures::{seconds, world};
use crate::liveness::{AVAILABLE, condition};
use api::cluster::v1::ManagedCluster;
use object::Key;
use sim::World;
use store::{DeleteOptions, Patch, ResourcePath, WriteOptions};

const CLAIMS: &str = "clusterclaims";

/// Writes a claim on the spoke as another client; deletes it if there is no value.
fn claim(world: &mut World, name: &str, value: Option<&str>) {
    let target = ResourcePath::resource("cluster.open-cluster-management.io", "v1alpha1", CLAIMS)
        .at(&Key::cluster(name));
    let (now, spoke) = (world.now, world.spokes.get_mut("cluster1").unwrap());
    match value {
        Some(value) => {
            let claim = json!({"apiVersion": "cluster.open-cluster-management.io/v1alpha1", "kind": "ClusterClaim",
                "metadata": {"name": name}, "spec": {"value": value}});
            let options = WriteOptions::manager("somebody").forced();
            spoke.store.patch(&target, &Patch::Apply(claim), &options, now).unwrap();
        }
        None => drop(spoke.store.delete(&target, &DeleteOptions::default(), now).unwrap()),
    }
    world.run_for(seconds(10)).unwrap();
}

fn reported(world: &World) -> Vec<String> {
    let cluster: ManagedCluster = world.get(&Key::cluster("cluster1")).unwrap();
    let claims = cluster.status.unwrap().cluster_claims;
    claims.iter().map(|claim| format!("{}={}", claim.name, claim.value)).collect()
}

#[test]
fn claims_follow_the_cluster_and_an_edit_on_the_hub_is_lost() {
    let mut world = world(1);
    claim(&mut world, "id.k8s.io", Some("1"));
    claim(&mut world, "region", Some("eu"));
    assert_eq!(reported(&world), ["id.k8s.io=1", "region=eu"]);
    claim(&mut world, "region", Some("us"));
    assert_eq!(reported(&world), ["id.k8s.io=1", "region=us"]);
    let edit = json!({"status": {"clusterClaims": [{"name": "region", "value": "moon"}]}});
    world.patch_status::<ManagedCluster>(&Key::cluster("cluster1"), edit).unwrap();
    world.run_for(seconds(10)).unwrap();
    assert_eq!(reported(&world), ["id.k8s.io=1", "region=us"]);
    claim(&mut world, "region", None);
    assert_eq!(reported(&world), ["id.k8s.io=1"]);
}

#[test]
fn the_version_of_a_cluster_comes_from_its_api_server_despite_claims() {
    let mut world = world(1);
    let version = |world: &World| {
        let cluster: ManagedCluster = world.get(&Key::cluster("cluster1")).unwrap();
        cluster.status.unwrap().version.kubernetes
    };
    assert_eq!(version(&world), "v1.36.0");
    claim(&mut world, "kubeversion.open-cluster-management.io", Some("v1.30.0"));
    world.run_for(seconds(60)).unwrap();
    assert_eq!(
        reported(&world),
        ["kubeversion.open-cluster-management.io=v1.30.0"],
        "it is reported as any other"
    );
    assert_eq!(version(&world), "v1.36.0");

    // The agent stops reporting claims, and the cluster is upgraded.
    let spoke = world.spokes.get_mut("cluster1").unwrap();
    spoke.settings.claims.enabled = false;
    world.restart_agent("cluster1");
    let spoke = world.spokes.get_mut("cluster1").unwrap();
    spoke.version = "v1.37.1".into();
    world.run_for(seconds(70)).unwrap();
    assert_eq!(version(&world), "v1.37.1");
    assert_eq!(condition(&world, "cluster1", AVAILABLE).0, "True");

    // If the API server is unavailable, the last version stays and the cluster is reported as unavailable.
    world.spokes.get_mut("cluster1").unwrap().answers = false;
    world.run_for(seconds(90)).unwrap();
    assert_eq!(
        (version(&world).as_str(), &*condition(&world, "cluster1", AVAILABLE).0),
        ("v1.37.1", "False")
    );
}
