//! What a cluster reports of itself: its claims.

use serde_json::json;

use crate::fixtures::{seconds, world};
use api::cluster::v1::ManagedCluster;
use object::Key;
use sim::World;
use store::{DeleteOptions, Patch, ResourcePath, WriteOptions};

const CLAIMS: &str = "clusterclaims";

/// Writes a claim on the spoke as somebody else; without a value it is deleted.
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
fn claims_follow_those_of_the_cluster_and_an_edit_on_the_hub_is_lost() {
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
