//! `examples/resource-score`: a placement follows the free memory of clusters.

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::installed::{Installed, start_manager};
use crate::published::hub::Hub;
use crate::wait::eventually;

const HUB: &str = include_str!("../../examples/resource-score/manifests/hub.yaml");
const PLACEMENT: &str = include_str!("../../examples/resource-score/manifests/placement.yaml");
const NAME: &str = "resource-score";

/// Adds an 8 GiB node to a cluster.
async fn add_node(spoke: &kube::Client, name: &str) {
    let nodes: Api<Node> = Api::all(spoke.clone());
    let node = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    nodes.create(&PostParams::default(), &node).await.unwrap();
    let resources = json!({"cpu": "4", "memory": "8Gi"});
    let status = json!({"status": {"capacity": resources, "allocatable": resources}});
    nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

/// Runs a pod on a cluster that requests the given amount of memory.
async fn request(spoke: &kube::Client, name: &str, memory: &str) {
    let requests = json!({"requests": {"memory": memory}});
    let container = json!({"name": "c", "image": "example.com/c", "resources": requests});
    let pod: Pod = serde_json::from_value(
        json!({"metadata": {"name": name}, "spec": {"nodeName": "n1", "containers": [container]}}),
    )
    .unwrap();
    let pods: Api<Pod> = Api::namespaced(spoke.clone(), "default");
    pods.create(&PostParams::default(), &pod).await.unwrap();
}

fn chosen(hub: &Hub) -> Vec<Value> {
    let label = "cluster.open-cluster-management.io/placement=most-free-memory";
    let decisions = hub.get(&["placementdecisions", "-n", NAME, "-l", label]);
    let decisions = decisions["items"][0]["status"]["decisions"].as_array().cloned().unwrap_or_default();
    decisions.into_iter().map(|decision| decision["clusterName"].clone()).collect()
}

pub(super) async fn moves_a_placement(hub: &mut Hub) {
    let first = Installed::on(hub, NAME, "c5").await;
    let second = Installed::on(hub, NAME, "c6").await;
    for installed in [&first, &second] {
        add_node(&installed.spoke, "n1").await;
    }
    request(&second.spoke, "some", "2Gi").await;
    hub.apply(HUB);
    let _manager = start_manager(hub, NAME);
    let mut agents = Vec::new();
    for installed in [&first, &second] {
        agents.push(installed.start_agent(hub, NAME).await);
        installed.says(hub, "Available", "ManagedClusterAddOnLeaseUpdated").await;
    }
    let score = |cluster: &str| hub.get(&["addonplacementscore", NAME, "-n", cluster])["status"].clone();
    eventually("the clusters have their scores", async || {
        let expected = |memory: i32| {
            let scores =
                [("cpuFree", 100), ("memoryFree", memory), ("cpuAvailable", 100), ("memAvailable", memory)];
            scores.map(|(name, value)| json!({"name": name, "value": value})).to_vec()
        };
        score("c5")["scores"] == json!(expected(100)) && score("c6")["scores"] == json!(expected(50))
    })
    .await;
    assert!(score("c5")["validUntil"].is_string());
    hub.apply(PLACEMENT);
    eventually("the cluster with the most free memory is chosen", async || chosen(hub) == ["c5"]).await;
    request(&first.spoke, "much", "7Gi").await;
    eventually("the decision follows the score", async || chosen(hub) == ["c6"]).await;
    add_node(&first.spoke, "n2").await;
    add_node(&first.spoke, "n3").await;
    // 7 of 24 GiB are requested.
    eventually("more nodes are more room", async || score("c5")["scores"][1]["value"] == 41).await;

    hub.uninstall(NAME);
    for installed in [&first, &second] {
        installed.is_gone(hub, NAME).await;
    }
    eventually("the scores go with the add-on", async || {
        let left = hub.get(&["addonplacementscores", "-A"]);
        left["items"].as_array().is_none_or(Vec::is_empty)
    })
    .await;
}
