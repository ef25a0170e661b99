//! Argo CD on an embedded hub that is its own cluster, with another embedded hub as a destination.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use serde_json::json;

use super::generators::add_cluster;
use super::{FLEET, Hub, binding, config_map, embedded, placement};
use crate::trace::client;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "Argo CD takes twelve minutes to build; make neighbors"]
async fn argo_cd_runs_on_an_embedded_hub_and_deploys_to_another() {
    let mut hub = Hub::embedded("argo-embedded").await;
    hub.join("c1").await;
    let mut repository = hub.repository("fleet");
    repository.write("binding.yaml", &binding(FLEET).to_string());
    repository.write("placement.yaml", &placement("all", json!({"tolerations": [{"operator": "Exists"}]})));
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "default"}});
    let strategy =
        json!({"type": "Progressive", "progressive": {"maxConcurrency": 1, "minSuccessTime": "2s"}});
    let set = json!({"apiVersion": "work.open-cluster-management.io/v1alpha1", "kind": "ManifestWorkReplicaSet",
        "metadata": {"name": "settings", "namespace": FLEET}, "spec": {"placementRefs": [{"name": "all", "rolloutStrategy": strategy}],
            "manifestWorkTemplate": {"workload": {"manifests": [map]}}}});
    repository.write("set.yaml", &set.to_string());
    // Argo CD compares these using the schemas that the hub serves.
    let pod = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [
        {"name": "web", "image": "example.com/web", "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "1000m"}}}]}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": FLEET},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": pod}});
    repository.write("web.yaml", &deployment.to_string());
    let commit = repository.commit("one");
    hub.follow("fleet", &repository, "Observe").await;
    hub.application("fleet", &repository, json!({})).await;
    hub.synced("fleet", &commit).await;
    hub.becomes("fleet", &format!("the hub matches {} (4 objects)", &commit[..12])).await;

    let other = embedded(Vec::new()).await;
    let admin = other.kubeconfig("admin", &["system:masters"]).unwrap();
    add_cluster(&hub, "other", admin.clone()).await;
    let mut repository = hub.repository("shop");
    repository.write("settings.yaml", &config_map("settings", "1", json!({})));
    let commit = repository.commit("one");
    let destination = json!({"destination": {"server": null, "name": "other"}, "syncPolicy": {"syncOptions": ["CreateNamespace=true"]}});
    hub.application("shop", &repository, destination).await;
    hub.synced("shop", &commit).await;
    let maps: Api<ConfigMap> = Api::namespaced(client(&admin).await, FLEET);
    assert_eq!(maps.get("settings").await.unwrap().data.unwrap()["k"], "1");
}
