//! A ClusterManagementAddOn that Argo CD deletes, in the foreground as is its default, stays on its clusters until
//! a person approves.

use std::process::Command;

use serde_json::{Value, json};

use super::{FLEET, Hub, NAMESPACE, binding, config_map, placement};
use crate::wait::eventually;

fn add_on(name: &str) -> String {
    let placements = json!([{"namespace": FLEET, "name": "all"}]);
    json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ClusterManagementAddOn", "metadata": {"name": name},
        "spec": {"installStrategy": {"type": "Placements", "placements": placements}}})
    .to_string()
}

/// Returns the number of clusters with an add-on that is not being deleted.
async fn on_clusters(hub: &Hub, name: &str) -> usize {
    let all = hub.list("ManagedClusterAddOn").await.into_iter().map(|mut one| one["metadata"].take());
    all.filter(|one| one["name"] == name && one["deletionTimestamp"].is_null()).count()
}

/// Waits until the add-on can be deleted in the foreground.
async fn is_owned(hub: &Hub, name: &str) {
    eventually(&format!("the clusters own {name}"), async || {
        let annotations =
            hub.get("ClusterManagementAddOn", "", name).await["metadata"]["annotations"].clone();
        annotations[api::names::ADD_ONS_OWNED_ANNOTATION] == "true" && on_clusters(hub, name).await == 2
    })
    .await;
}

/// Waits until the deletion needs only an approval.
async fn waits(hub: &Hub, name: &str) {
    eventually(&format!("{name} is being deleted"), async || {
        let metadata = hub.get("ClusterManagementAddOn", "", name).await["metadata"].clone();
        let finalizers = metadata["finalizers"].to_string();
        !metadata["deletionTimestamp"].is_null() && !finalizers.contains("foregroundDeletion")
    })
    .await;
    eventually(&format!("the removal of {name} waits for a person"), async || {
        let add_on = hub.get("ClusterManagementAddOn", "", name).await;
        add_on["status"].to_string().contains("its removal from 2 clusters is on hold")
    })
    .await;
    assert_eq!(on_clusters(hub, name).await, 2, "the clusters keep {name}");
}

async fn approve(hub: &Hub, name: &str) {
    let mut approve = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
    approve.args(["rollout", "approve", name, "--kubeconfig"]).arg(&hub.kubeconfig);
    let output = approve.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    eventually(&format!("{name} is gone"), async || {
        hub.get("ClusterManagementAddOn", "", name).await.is_null()
    })
    .await;
    assert!(!hub.list("ManagedClusterAddOn").await.iter().any(|one| one["metadata"]["name"] == name));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "Argo CD takes twelve minutes to build; make neighbors"]
async fn an_addon_that_argo_cd_deletes_blocks_no_commit_and_waits_for_an_approval() {
    let hub = Hub::start("argo-deletions").await;
    for name in ["c1", "c2"] {
        hub.apply(json!({"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster", "metadata": {"name": name},
            "spec": {"hubAcceptsClient": true}}))
            .await;
    }
    let mut repository = hub.repository("add-ons");
    repository.write("binding.yaml", &binding(FLEET).to_string());
    repository.write("placement.yaml", &placement("all", json!({"tolerations": [{"operator": "Exists"}]})));
    repository.write("pruned.yaml", &add_on("pruned"));
    repository.write("settings.yaml", &config_map("settings", "1", json!({})));
    let first = repository.commit("one");
    hub.application("add-ons", &repository, json!({})).await;
    hub.synced("add-ons", &first).await;
    is_owned(&hub, "pruned").await;

    repository.remove("pruned.yaml");
    repository.write("settings.yaml", &config_map("settings", "2", json!({})));
    let second = repository.commit("two");
    hub.refresh("add-ons").await;
    let mut operation = Value::Null;
    eventually("the rest of the commit is applied", async || {
        operation = hub.app("add-ons").await["status"]["operationState"].clone();
        assert_ne!(operation["phase"], "Failed", "{operation:#}");
        operation["syncResult"]["revision"] == second
            && hub.get("ConfigMap", FLEET, "settings").await["data"]["k"] == "2"
    })
    .await;
    waits(&hub, "pruned").await;
    eventually("the sync has succeeded", async || {
        operation = hub.app("add-ons").await["status"]["operationState"].clone();
        operation["phase"] == "Succeeded"
    })
    .await;
    approve(&hub, "pruned").await;
    hub.synced("add-ons", &second).await;

    let mut repository = hub.repository("one-add-on");
    repository.write("deleted.yaml", &add_on("deleted"));
    let commit = repository.commit("one");
    hub.application("one-add-on", &repository, json!({})).await;
    hub.synced("one-add-on", &commit).await;
    is_owned(&hub, "deleted").await;
    // `argocd app delete` sets this finalizer.
    let cascade = json!({"metadata": {"finalizers": ["resources-finalizer.argocd.argoproj.io"]}});
    hub.patch("Application", NAMESPACE, "one-add-on", cascade).await;
    hub.delete("Application", NAMESPACE, "one-add-on").await;
    waits(&hub, "deleted").await;
    let conditions = hub.app("one-add-on").await["status"]["conditions"].to_string();
    assert!(!conditions.contains("DeletionError"), "{conditions}");
    approve(&hub, "deleted").await;
    eventually("the application is gone", async || hub.app("one-add-on").await.is_null()).await;
}
