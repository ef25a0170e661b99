//! An Argo CD sync wave waits for the rollouts of the previous wave.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{FLEET, Hub, NAMESPACE, binding, config_map, placement};
use crate::e2e::Repository;
use crate::wait::eventually;

const CLUSTERS: [&str; 3] = ["c1", "c2", "c3"];
const GROUP: &str = "addon.open-cluster-management.io";

fn manifest(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": {"v": value}})
}

/// Writes a version: a set and an add-on in wave 0, each cluster by cluster, and a ConfigMap in wave 1. An API
/// server rejects the set's manifest if its name is invalid.
pub(super) fn write(repository: &mut Repository, version: &str, manifest_name: &str) -> String {
    let strategy =
        json!({"type": "Progressive", "progressive": {"maxConcurrency": 1, "minSuccessTime": "2s"}});
    let set = json!({"apiVersion": "work.open-cluster-management.io/v1alpha1", "kind": "ManifestWorkReplicaSet",
        "metadata": {"name": "settings", "namespace": FLEET}, "spec": {
            "placementRefs": [{"name": "all", "rolloutStrategy": strategy}],
            "manifestWorkTemplate": {"workload": {"manifests": [manifest(manifest_name, version)]}}}});
    let template = json!({"apiVersion": format!("{GROUP}/v1alpha1"), "kind": "AddOnTemplate", "metadata": {"name": format!("tool-{version}")},
        "spec": {"addonName": "tool", "agentSpec": {"workload": {"manifests": [manifest("tool", version)]}}}});
    let config = json!({"group": GROUP, "resource": "addontemplates", "defaultConfig": {"name": format!("tool-{version}")}});
    let placed = json!({"namespace": FLEET, "name": "all", "rolloutStrategy": strategy});
    let add_on = json!({"apiVersion": format!("{GROUP}/v1alpha1"), "kind": "ClusterManagementAddOn", "metadata": {"name": "tool"},
        "spec": {"supportedConfigs": [config], "installStrategy": {"type": "Placements", "placements": [placed]}}});
    repository.write("binding.yaml", &binding(FLEET).to_string());
    repository.write("placement.yaml", &placement("all", json!({"tolerations": [{"operator": "Exists"}]})));
    repository.write("set.yaml", &set.to_string());
    repository.write(&format!("template-{version}.yaml"), &template.to_string());
    repository.write("add-on.yaml", &add_on.to_string());
    let wave = json!({"argocd.argoproj.io/sync-wave": "1"});
    repository.write("after.yaml", &config_map("after", version, wave));
    repository.commit(version)
}

/// The health that Argo CD has reported for each kind and for the application.
pub(super) type Seen = BTreeSet<(String, String)>;

fn look(app: &Value, seen: &mut Seen) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for resource in app["status"]["resources"].as_array().into_iter().flatten() {
        seen.insert((text(&resource["kind"]), text(&resource["health"]["status"])));
    }
    seen.insert(("Application".into(), text(&app["status"]["health"]["status"])));
}

fn holds(object: &Value, condition: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|one| {
        one["type"] == condition
            && one["status"] == "True"
            && one["observedGeneration"] == object["metadata"]["generation"]
    })
}

/// Waits until wave 1 has a version. Returns the health that Argo CD reported until then.
pub(super) async fn rolls_out(hub: &Hub, version: &str, commit: &str) -> Seen {
    hub.refresh("rollout").await;
    let mut seen = Seen::new();
    eventually(&format!("wave 1 has {version}"), async || {
        let app = hub.app("rollout").await;
        let operation = &app["status"]["operationState"];
        let is_its = operation["syncResult"]["revision"] == commit;
        assert!(!is_its || operation["phase"] != "Failed", "{operation:#}");
        look(&app, &mut seen);
        hub.get("ConfigMap", FLEET, "after").await["data"]["k"] == version
    })
    .await;
    let set = hub.get("ManifestWorkReplicaSet", FLEET, "settings").await;
    assert!(holds(&set, "PlacementRolledOut"), "wave 1 comes after the rollout: {set:#}");
    assert_eq!(set["status"]["summary"]["updated"], hub.spokes.len());
    let add_on = hub.get("ClusterManagementAddOn", "", "tool").await;
    let progress = &add_on["status"]["installProgressions"][0]["conditions"];
    assert!(progress.to_string().contains(r#""reason":"Completed""#), "{add_on:#}");
    let app = hub.synced("rollout", commit).await;
    assert!(app["status"]["operationState"]["retryCount"].is_null(), "the first try succeeds: {app:#}");
    seen
}

fn of<'a>(seen: &'a Seen, kind: &str) -> Vec<&'a str> {
    seen.iter().filter(|(of, _)| of == kind).map(|(_, health)| health.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "Argo CD takes twelve minutes to build; make neighbors"]
async fn a_sync_wave_waits_for_the_rollouts_of_the_wave_before_it() {
    let mut hub = Hub::start("argo-health").await;
    for name in CLUSTERS {
        hub.join(name).await;
    }
    let mut repository = hub.repository("rollout");
    let first = write(&mut repository, "1", "m");
    hub.application("rollout", &repository, json!({"syncPolicy": {"retry": {"limit": 0}}})).await;
    rolls_out(&hub, "1", &first).await;
    eventually("Argo CD says so", async || {
        hub.app("rollout").await["status"]["health"]["status"] == "Healthy"
    })
    .await;

    let second = write(&mut repository, "2", "m");
    let seen = rolls_out(&hub, "2", &second).await;
    for kind in ["ManifestWorkReplicaSet", "ClusterManagementAddOn"] {
        let health = of(&seen, kind);
        assert!(health.contains(&"Progressing") && !health.contains(&"Degraded"), "{kind}: {seen:?}");
    }
    assert!(!of(&seen, "Application").contains(&"Degraded"), "{seen:?}");

    write(&mut repository, "3", "Not_Valid");
    hub.refresh("rollout").await;
    let mut app = Value::Null;
    eventually("the sync of a set that fails fails", async || {
        app = hub.app("rollout").await;
        app["status"]["operationState"]["phase"] == "Failed"
    })
    .await;
    eventually("the set is degraded", async || {
        app = hub.app("rollout").await;
        app["status"]["health"]["status"] == "Degraded"
    })
    .await;
    let resources = app["status"]["resources"].as_array().unwrap();
    let set = resources.iter().find(|one| one["kind"] == "ManifestWorkReplicaSet").unwrap();
    let health = &set["health"];
    assert!(
        health["status"] == "Degraded" && health["message"].as_str().unwrap().contains("failure"),
        "{health}"
    );
    assert_eq!(hub.get("ConfigMap", FLEET, "after").await["data"]["k"], "2", "wave 1 waits");

    let fourth = write(&mut repository, "4", "m");
    rolls_out(&hub, "4", &fourth).await;

    placement_waits(&hub).await;
}

/// Checks that a wave waits for a Placement that wants more clusters than exist.
async fn placement_waits(hub: &Hub) {
    let gold = json!({"metadata": {"labels": {"tier": "gold"}}});
    hub.patch("ManagedCluster", "", "c1", gold.clone()).await;
    let mut repository = hub.repository("gold");
    let selector = json!({"requiredClusterSelector": {"labelSelector": {"matchLabels": {"tier": "gold"}}}});
    let spec =
        json!({"numberOfClusters": 2, "predicates": [selector], "tolerations": [{"operator": "Exists"}]});
    repository.write("placement.yaml", &placement("gold", spec));
    repository
        .write("after.yaml", &config_map("after-gold", "1", json!({"argocd.argoproj.io/sync-wave": "1"})));
    let commit = repository.commit("gold");
    hub.application("gold", &repository, json!({})).await;
    eventually("the wave waits for the placement", async || {
        let app = hub.app("gold").await;
        let message = app["status"]["operationState"]["message"].as_str().unwrap_or_default().to_owned();
        message.contains("waiting for healthy state of cluster.open-cluster-management.io/Placement/gold")
    })
    .await;
    assert!(hub.get("ConfigMap", FLEET, "after-gold").await.is_null());
    hub.patch("ManagedCluster", "", "c2", gold).await;
    hub.synced("gold", &commit).await;
    assert!(!hub.get("ConfigMap", FLEET, "after-gold").await.is_null());
    hub.delete("Application", NAMESPACE, "gold").await;
}
