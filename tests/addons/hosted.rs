//! An add-on with a part that runs on another cluster of the hub, from template to deletion.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use serde_json::{Value, json};

use super::installed::Installed;
use crate::published::hub::Hub;
use crate::wait::eventually;

const NAME: &str = "hosted";
const LOCATION: &str = "addon.open-cluster-management.io/hosted-manifest-location";
const HOST: &str = "addon.open-cluster-management.io/hosting-cluster-name";
const ADDONS: &str = "addon.open-cluster-management.io/v1alpha1";

/// Returns a template with an object for each location, and the add-on on a cluster, hosted by `host`.
fn objects(cluster: &str, host: &str) -> String {
    let map = |location: &str| {
        let metadata = json!({"name": format!("at-{location}"), "namespace": "default", "annotations": {LOCATION: location}});
        let data = json!({"of": "{{CLUSTER_NAME}}"});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    };
    let manifests = ["managed", "hosting", "none"].map(map);
    let template = json!({"addonName": NAME, "agentSpec": {"workload": {"manifests": manifests}}});
    let config = json!({"group": "addon.open-cluster-management.io", "resource": "addontemplates", "defaultConfig": {"name": NAME}});
    let addon = json!({"name": NAME, "namespace": cluster, "annotations": {HOST: host}});
    let objects = [
        json!({"apiVersion": ADDONS, "kind": "AddOnTemplate", "metadata": {"name": NAME}, "spec": template}),
        json!({"apiVersion": ADDONS, "kind": "ClusterManagementAddOn", "metadata": {"name": NAME}, "spec": {"supportedConfigs": [config]}}),
        json!({"apiVersion": ADDONS, "kind": "ManagedClusterAddOn", "metadata": addon, "spec": {}}),
    ];
    objects.map(|object| object.to_string()).join("\n---\n")
}

/// Returns the template's objects on a cluster, each with the cluster that it is for.
async fn on(spoke: &kube::Client) -> Vec<(&'static str, String)> {
    let maps: Api<ConfigMap> = Api::namespaced(spoke.clone(), "default");
    let mut found = Vec::new();
    for location in ["managed", "hosting", "none"] {
        if let Some(map) = maps.get_opt(&format!("at-{location}")).await.unwrap() {
            found.push((location, map.data.unwrap_or_default().remove("of").unwrap_or_default()));
        }
    }
    found
}

pub(super) async fn lives_and_goes(hub: &mut Hub) {
    let host = hub.join_with_agent("c4", &[]).await;
    let installed = Installed::on(hub, NAME, "c3").await;
    hub.apply(&objects("c3", "c4"));
    installed.says(hub, "HostingClusterValidity", "HostingClusterValid").await;
    installed.says(hub, "ManifestApplied", "AddonManifestApplied").await;
    installed.says(hub, "HostingManifestApplied", "AddonManifestApplied").await;
    installed.says(hub, "Progressing", "Completed").await;
    let here = || vec![("managed", "c3".to_owned())];
    let there = || vec![("hosting", "c3".to_owned())];
    assert_eq!((on(&installed.spoke).await, on(&host).await), (here(), there()));

    let hosting = ["manifestworks", "-n", "c4", "-l", "open-cluster-management.io/addon-namespace=c3"];
    let names = |list: Value| -> Vec<String> {
        let works = list["items"].as_array().cloned().unwrap_or_default();
        works.iter().map(|work| work["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(hub.get(&hosting)), ["addon-hosted-deploy-hosting-c3-0"]);

    // Without a hosting cluster, everything is deployed to the cluster itself.
    hub.kubectl.run(&["annotate", "managedclusteraddon", NAME, "-n", "c3", &format!("{HOST}-")]);
    eventually("the part on the host moves to the cluster", async || {
        on(&installed.spoke).await.len() == 3 && on(&host).await.is_empty()
    })
    .await;
    hub.kubectl.run(&["annotate", "managedclusteraddon", NAME, "-n", "c3", &format!("{HOST}=c4")]);
    eventually("it moves back", async || on(&installed.spoke).await == here() && on(&host).await == there())
        .await;

    hub.kubectl.run(&["delete", "managedclusteraddon", NAME, "-n", "c3", "--timeout=60s"]);
    eventually("nothing is left of the add-on", async || {
        installed.work(hub).is_null()
            && names(hub.get(&hosting)).is_empty()
            && on(&installed.spoke).await.is_empty()
            && on(&host).await.is_empty()
    })
    .await;
}
