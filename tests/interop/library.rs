//! The helloworld example of our add-on library.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::fleet::Fleet;
use super::programs::OcmHub;
use crate::addons::installed::example;
use crate::klusterlet::exists;
use crate::klusterlet::pod::account_kubeconfig;
use crate::kube::Cluster;
use crate::running::Running;
use crate::wait::eventually;

const NAME: &str = "helloworld";
const HUB: &str = include_str!("../../examples/helloworld/manifests/hub.yaml");

fn start(hub: &OcmHub, name: &str, args: &[String]) -> Running {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    Running::start_program(&example(NAME), name, &hub.dir.path(""), &args)
}

fn option(name: &str, file: &Path) -> String {
    format!("--{name}={}", file.display())
}

/// Writes the identity of the add-on's agent as a pod would mount it, and starts the agent.
fn start_agent(hub: &OcmHub, spoke: &Cluster) -> Running {
    let secret =
        spoke.kubectl().run(&["get", "secret", "helloworld-hub-kubeconfig", "-n", NAME, "-o", "json"]);
    let secret: Value = serde_json::from_str(&secret).unwrap();
    let dir = hub.dir.path("identity");
    fs::create_dir(&dir).unwrap();
    for (key, value) in secret["data"].as_object().unwrap() {
        fs::write(dir.join(key), STANDARD.decode(value.as_str().unwrap()).unwrap()).unwrap();
    }
    let args = ["agent", "--namespace=helloworld", "--cluster-name=c1"].map(str::to_owned);
    let more =
        [option("hub-kubeconfig", &dir.join("kubeconfig")), option("spoke-kubeconfig", &spoke.kubeconfig)];
    start(hub, "helloworld-agent", &[&args[..], &more].concat())
}

/// Checks that the add-on is installed, works, follows its configuration and can be removed, on a joined cluster.
pub(super) async fn lives_and_goes(hub: &OcmHub, fleet: &Fleet, spoke: &Cluster) {
    let on_spoke = spoke.kubectl();
    fleet.apply(HUB);
    let kubeconfig = hub.dir.path("manager.kubeconfig");
    fs::write(&kubeconfig, account_kubeconfig(&hub.cluster, "manager", NAME)).unwrap();
    let args = ["manager".to_owned(), format!("--lease-namespace={NAME}"), option("kubeconfig", &kubeconfig)];
    let _manager = start(hub, "helloworld-manager", &args);
    eventually("the cluster has the identity of the add-on's agent", async || {
        exists(&on_spoke, &["secret", "helloworld-hub-kubeconfig", "-n", NAME])
    })
    .await;
    let _agent = start_agent(hub, spoke);
    let addon = "managedclusteraddon/helloworld";
    fleet.becomes(addon, "c1", "Available", "ManagedClusterAddOnLeaseUpdated").await;
    fleet.kubectl.run(&["create", "configmap", "greeting", "-n", "c1", "--from-literal=text=hello"]);
    eventually("the copy is there", async || exists(&on_spoke, &["configmap", "greeting", "-n", NAME])).await;

    let change = r#"{"spec":{"customizedVariables":[{"name":"IMAGE","value":"helloworld:2"}]}}"#;
    fleet.kubectl.run(&["patch", "addondeploymentconfig", NAME, "-n", NAME, "--type=merge", "-p", change]);
    let image = ["get", "deployment", "helloworld-agent", "-n", NAME, "-o", "jsonpath={..image}"];
    eventually("the agent has the new image", async || on_spoke.run(&image) == "helloworld:2").await;
    fleet.becomes(addon, "c1", "Progressing", "Completed").await;
    fleet.becomes("clustermanagementaddon/helloworld", "", "Progressing", "Completed").await;

    fleet.kubectl.run(&["delete", "clustermanagementaddon", NAME, "--timeout=60s"]);
    eventually("the add-on has left the cluster", async || !exists(&on_spoke, &["namespace", NAME])).await;
}
