//! `examples/helloworld`: ConfigMaps of the hub are copied to the cluster.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use serde_json::json;

use super::installed::{Installed, start_manager};
use crate::published::hub::Hub;
use crate::wait::eventually;

const HUB: &str = include_str!("../../examples/helloworld/manifests/hub.yaml");
const NAME: &str = "helloworld";

fn image(hub: &Hub, installed: &Installed) -> String {
    let container = &installed.deployment(hub)["spec"]["template"]["spec"]["containers"][0];
    container["image"].as_str().unwrap_or_default().to_owned()
}

/// Checks that the ConfigMaps of the cluster's namespace on the hub arrive, change and go.
async fn copies(hub: &Hub, installed: &Installed) {
    let copies: Api<ConfigMap> = Api::namespaced(installed.spoke.clone(), NAME);
    let text = async || {
        let copy = copies.get_opt("greeting").await.unwrap();
        copy.and_then(|copy| copy.data?.remove("text"))
    };
    let on_hub = ["configmap", "greeting", "-n", installed.cluster];
    hub.kubectl.run(&[&["create"][..], &on_hub, &["--from-literal=text=hello"]].concat());
    eventually("the copy is there", async || text().await.as_deref() == Some("hello")).await;
    let change = json!({"data": {"text": "hello again"}}).to_string();
    hub.kubectl.run(&[&["patch"][..], &on_hub, &["--type=merge", "-p", &change]].concat());
    eventually("the copy changes", async || text().await.as_deref() == Some("hello again")).await;
    hub.kubectl.run(&[&["delete"][..], &on_hub].concat());
    eventually("the copy goes", async || text().await.is_none()).await;
}

/// Checks that a configuration of this cluster alone is rolled out.
async fn has_an_own_configuration(hub: &Hub, installed: &Installed) {
    let group = "addon.open-cluster-management.io";
    let config = json!({
        "apiVersion": format!("{group}/v1alpha1"), "kind": "AddOnDeploymentConfig",
        "metadata": {"name": "own", "namespace": NAME}, "spec": {"agentInstallNamespace": NAME},
    });
    hub.apply(&config.to_string());
    let own = json!({"group": group, "resource": "addondeploymentconfigs", "namespace": NAME, "name": "own"});
    let change = json!({"spec": {"configs": [own]}}).to_string();
    let addon = ["managedclusteraddon", NAME, "-n", installed.cluster, "--type=merge", "-p", &change];
    hub.kubectl.run(&[&["patch"][..], &addon].concat());
    eventually("the configuration of the cluster is rolled out", async || {
        let reference = &installed.on_hub(hub)["status"]["configReferences"][0];
        let desired = &reference["desiredConfig"];
        desired["name"] == "own"
            && desired["specHash"].as_str().is_some_and(|hash| !hash.is_empty())
            && reference["lastAppliedConfig"] == *desired
            && installed.reason(hub, "Progressing") == "Completed"
    })
    .await;
}

pub(super) async fn lives_and_goes(hub: &mut Hub) {
    let installed = Installed::on(hub, NAME, "c3").await;
    hub.apply(HUB);
    let manager = start_manager(hub, NAME);
    eventually("the work has the image of the configuration", async || {
        image(hub, &installed) == "helloworld:latest"
    })
    .await;
    let _agent = installed.start_agent(hub, NAME).await;
    installed.says(hub, "Available", "ManagedClusterAddOnLeaseUpdated").await;
    installed.says(hub, "Progressing", "Completed").await;
    installed.says(hub, "RegistrationApplied", "SetPermissionApplied").await;
    copies(hub, &installed).await;

    let variables = json!([{"name": "IMAGE", "value": "helloworld:2"}]);
    let change = json!({"spec": {"customizedVariables": variables}}).to_string();
    let config = ["addondeploymentconfig", NAME, "-n", NAME, "--type=merge", "-p", &change];
    hub.kubectl.run(&[&["patch"][..], &config].concat());
    eventually("the work has the changed value, and the rollout is complete", async || {
        let reference = &installed.on_hub(hub)["status"]["configReferences"][0];
        image(hub, &installed) == "helloworld:2"
            && reference["lastAppliedConfig"] == reference["desiredConfig"]
            && installed.reason(hub, "Progressing") == "Completed"
    })
    .await;

    // The next leader takes over where the manager stopped.
    assert!(manager.terminate(std::time::Duration::from_secs(20)), "the manager ends when it is asked to");
    let values = json!({"IMAGE": "helloworld:3"}).to_string();
    let annotation = format!("addon.open-cluster-management.io/values={values}");
    hub.kubectl.run(&["annotate", "managedclusteraddon", NAME, "-n", installed.cluster, &annotation]);
    let _manager = start_manager(hub, NAME);
    eventually("the values of the annotation go before those of the configuration", async || {
        image(hub, &installed) == "helloworld:3"
    })
    .await;

    has_an_own_configuration(hub, &installed).await;

    hub.uninstall(NAME);
    installed.is_gone(hub, NAME).await;
}
