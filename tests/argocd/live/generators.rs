//! ApplicationSets generate an Application for each cluster of a Placement, using both generators from
//! docs/argocd-clusters.md.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::config::Kubeconfig;
use serde_json::{Value, json};

use super::{Hub, NAMESPACE, binding, url};
use crate::argocd::recipes::{BY_CLUSTER_DECISION, BY_PLACEMENT_DECISIONS, shown};
use crate::kube::Cluster;
use crate::wait::eventually;

/// Configures how Argo CD reaches a cluster.
pub(super) async fn add_cluster(hub: &Hub, name: &str, admin: Kubeconfig) {
    let admin = serde_json::to_value(admin).unwrap();
    let (user, server) = (&admin["users"][0]["user"], &admin["clusters"][0]["cluster"]);
    let tls = json!({"caData": server["certificate-authority-data"], "certData": user["client-certificate-data"],
        "keyData": user["client-key-data"]});
    let config = json!({"tlsClientConfig": tls}).to_string();
    let metadata = json!({"name": format!("of-{name}"), "namespace": NAMESPACE, "labels": {"argocd.argoproj.io/secret-type": "cluster"}});
    let data = json!({"name": name, "server": server["server"], "config": config});
    hub.apply(json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data})).await;
}

/// Returns the page's ApplicationSet for a repository. It polls every `poll` seconds, and its Applications sync
/// automatically.
fn application_set(field: &str, repository: &str, poll: u32) -> Value {
    let mut set = shown("ApplicationSet", field);
    set["spec"]["generators"][0]["clusterDecisionResource"]["requeueAfterSeconds"] = poll.into();
    let spec = &mut set["spec"]["template"]["spec"];
    spec["source"]["repoURL"] = repository.into();
    spec["syncPolicy"] = json!({"automated": {"prune": true}, "syncOptions": ["CreateNamespace=true"]});
    set
}

/// Returns the names of the Applications that Argo CD has synced.
async fn synced(hub: &Hub) -> BTreeSet<String> {
    let all = hub.list("Application").await.into_iter();
    let synced = all.filter(|app| {
        app["status"]["sync"]["status"] == "Synced" && app["status"]["health"]["status"] == "Healthy"
    });
    synced.map(|app| app["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

async fn taint(hub: &Hub, taints: &Value) {
    for name in ["c1", "c2"] {
        hub.patch("ManagedCluster", "", name, json!({"spec": {"taints": taints}})).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "Argo CD takes twelve minutes to build; make neighbors"]
async fn application_sets_of_both_generators_follow_a_placement() {
    let mut hub = Hub::start("argo-generators").await;
    let spoke = Cluster::start("argo-spoke").await;
    for (name, region) in [("c1", "eu"), ("c2", "us")] {
        hub.join(name).await;
        let labels = json!({"metadata": {"labels": {"environment": "prod", "region": region}}});
        hub.patch("ManagedCluster", "", name, labels).await;
    }
    add_cluster(&hub, "c1", Kubeconfig::read_from(&spoke.kubeconfig).unwrap()).await;
    add_cluster(&hub, "c2", Kubeconfig::read_from(&hub.kubeconfig).unwrap()).await;
    let mut repository = hub.repository("shop");
    for overlay in ["eu", "us", "prod"] {
        let name = if overlay == "prod" { "by-decisions" } else { "settings" };
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"overlay": overlay}});
        repository.write(&format!("overlays/{overlay}/settings.yaml"), &map.to_string());
    }
    repository.commit("one");
    hub.apply(binding(NAMESPACE)).await;
    let mut placement = shown("Placement", "/spec");
    placement["metadata"]["annotations"]["gitops.wheelwright.dev/refresh-application-sets"] = json!("shop");
    hub.apply(placement).await;
    // A set that finds no decision looks again after three minutes.
    eventually("the placement is decided", async || {
        let decision = hub.get("ClusterDecision", NAMESPACE, "shop").await;
        decision["status"]["decisions"].as_array().is_some_and(|all| all.len() == 2)
    })
    .await;
    let repository = url(&repository.path);
    // The operator refreshes the first one, which does not poll within this test.
    hub.apply(application_set(BY_CLUSTER_DECISION, &repository, 3600)).await;
    hub.apply(application_set(BY_PLACEMENT_DECISIONS, &repository, 2)).await;
    let all: BTreeSet<String> =
        ["by-decisions-c1", "by-decisions-c2", "shop-c1", "shop-c2"].map(str::to_owned).into();
    eventually("every cluster has its applications", async || synced(&hub).await == all).await;
    let maps: Api<ConfigMap> = Api::namespaced(spoke.client().await, "shop");
    let overlay = async || maps.get("settings").await.unwrap().data.unwrap()["overlay"].clone();
    assert_eq!(overlay().await, "eu");
    assert_eq!(maps.get("by-decisions").await.unwrap().data.unwrap()["overlay"], "prod");

    let region = json!({"metadata": {"labels": {"region": "us"}}});
    hub.patch("ManagedCluster", "", "c1", region).await;
    eventually("another label reaches the cluster", async || overlay().await == "us").await;

    // Only ClusterDecisions have guards.
    taint(&hub, &json!([{"key": "maintenance", "effect": "NoSelect"}])).await;
    let left: BTreeSet<String> = ["shop-c1", "shop-c2"].map(str::to_owned).into();
    eventually("the applications of PlacementDecisions go", async || synced(&hub).await == left).await;
    eventually("the list is held", async || {
        let decision = hub.get("ClusterDecision", NAMESPACE, "shop").await;
        decision["status"]["held"].is_object()
            && decision["status"]["decisions"].as_array().is_some_and(|all| all.len() == 2)
    })
    .await;
    eventually("their objects go", async || maps.get_opt("by-decisions").await.unwrap().is_none()).await;
    assert_eq!(overlay().await, "us");
    taint(&hub, &json!([])).await;
    eventually("they come back", async || synced(&hub).await == all).await;
}
