//! The unmodified helloworld add-on of OCM's addon-framework: its manager and its agent.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use super::installed::Installed;
use crate::e2e::run_nodes;
use crate::kube::built;
use crate::published::hub::Hub;
use crate::running::Running;
use crate::wait::eventually;

const NAME: &str = "helloworld";
/// The namespace in which the add-on's files are installed.
const OF_HUB: &str = "open-cluster-management";
const IMAGE: &str = "quay.io/open-cluster-management/addon-examples:latest";
const OF_AGENT: &str = "open-cluster-management-agent-addon";

pub(super) async fn lives_and_goes(hub: &mut Hub) {
    let program = built("tests/addon-framework/build").to_str().unwrap().to_owned();
    let installed = Installed::on(hub, NAME, "c3").await;
    let namespaces: Api<Namespace> = Api::all(installed.spoke.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": OF_AGENT}})).unwrap();
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    let _pods = run_nodes(installed.spoke.clone(), BTreeSet::from([IMAGE.to_owned()]));
    hub.kubectl.run(&["create", "namespace", OF_HUB]);
    hub.kubectl.run(&["apply", "-n", OF_HUB, "-f", &format!("{program}.d")]);
    let kubeconfig = hub.kubeconfig_of(OF_HUB, "helloworld-addon-sa");
    let kubeconfig = ["--kubeconfig", kubeconfig.to_str().unwrap()];
    let args = [&["controller"][..], &kubeconfig].concat();
    let _manager = Running::start_program(&program, "framework-manager", &hub.path(""), &args);
    let identity = installed.identity(hub, OF_AGENT).await;
    let spoke = hub.path("c3.kubeconfig");
    let (identity, spoke) = (identity.to_str().unwrap(), spoke.to_str().unwrap());
    let at = ["--cluster-name", "c3", "--addon-namespace", OF_AGENT];
    let clients = ["--hub-kubeconfig", identity, "--kubeconfig", spoke, "--managed-kubeconfig", spoke];
    let args = [&["agent"][..], &at, &clients].concat();
    let _agent = Running::start_program(&program, "framework-agent", &hub.path(""), &args);

    installed.says(hub, "RegistrationApplied", "SetPermissionApplied").await;
    installed.says(hub, "ManifestApplied", "AddonManifestApplied").await;
    installed.says(hub, "Progressing", "Completed").await;
    installed.says(hub, "Available", "ProbeAvailable").await;
    let copies: Api<ConfigMap> = Api::namespaced(installed.spoke.clone(), OF_AGENT);
    hub.kubectl.run(&["create", "configmap", "greeting", "-n", "c3", "--from-literal=text=hello"]);
    eventually("its agent copies the ConfigMap", async || {
        copies.get_opt("greeting").await.unwrap().is_some()
    })
    .await;
    hub.uninstall(NAME);
    eventually("nothing is left of the add-on", async || {
        installed.on_hub(hub).is_null() && installed.work(hub).is_null()
    })
    .await;
}
