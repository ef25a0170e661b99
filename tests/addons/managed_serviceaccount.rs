//! OCM's managed-serviceaccount program as the agent of its published template: service accounts of the cluster
//! get tokens on the hub.

use std::process::Command;

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use serde_json::{Value, json};

use super::installed::Installed;
use crate::kube::built;
use crate::published::{TEMPLATE, hub::Hub};
use crate::running::Running;
use crate::wait::eventually;

const NAME: &str = "managed-serviceaccount";
const NAMESPACE: &str = "open-cluster-management-agent-addon";
const LABEL: &str = "authentication.open-cluster-management.io/is-managed-serviceaccount";
const ACCOUNT: [&str; 4] = ["managedserviceaccount", "robot", "-n", "c3"];

/// Starts the agent as its Deployment specifies.
async fn start_agent(hub: &Hub, installed: &Installed) -> Running {
    eventually("the cluster has the work", async || !installed.deployment(hub).is_null()).await;
    let identity = installed.identity(hub, NAMESPACE).await;
    let identity = identity.to_str().unwrap();
    let args = installed.deployment(hub)["spec"]["template"]["spec"]["containers"][0]["args"].clone();
    let args = args.as_array().unwrap().iter().map(|arg| arg.as_str().unwrap().to_owned());
    let args = args.map(|arg| arg.replace("/managed/hub-kubeconfig/kubeconfig", identity));
    let spoke = hub.path("c3.kubeconfig");
    let mut command = Command::new(built("tests/managed-serviceaccount/build").join("msa"));
    command.arg("agent").args(args).arg(format!("--spoke-kubeconfig={}", spoke.display()));
    command.args(["--metrics-bind-address=0", "--health-probe-bind-address=0"]);
    command.env("HEALTH_ADDRESS", "127.0.0.1:0").env("NAMESPACE", NAMESPACE).env("HUB_KUBECONFIG", identity);
    Running::spawn(&mut command, "managed-serviceaccount", &hub.path(""), &hub.path(""))
}

/// Returns the token on the hub; `Null` if there is none.
fn token(hub: &Hub) -> Value {
    hub.get(&["secret", "robot", "-n", "c3"])["data"]["token"].clone()
}

pub(super) async fn gives_tokens_of_the_cluster_to_the_hub(hub: &mut Hub) {
    hub.install(TEMPLATE);
    let installed = Installed::on(hub, NAME, "c3").await;
    let _agent = start_agent(hub, &installed).await;
    let robot = json!({"apiVersion": "authentication.open-cluster-management.io/v1beta1", "kind": "ManagedServiceAccount",
        "metadata": {"name": "robot", "namespace": "c3"}, "spec": {"rotation": {"enabled": true, "validity": "1h0m0s"}}});
    hub.apply(&robot.to_string());
    let accounts: Api<ServiceAccount> = Api::namespaced(installed.spoke.clone(), NAMESPACE);
    eventually("the hub has a token of the cluster", async || token(hub).is_string()).await;
    let account = accounts.get("robot").await.unwrap();
    assert_eq!(account.metadata.labels.unwrap()[LABEL], "true");
    eventually("the account says so", async || {
        hub.get(&ACCOUNT)["status"]["tokenSecretRef"]["name"] == "robot"
    })
    .await;

    let before = hub.get(&["secret", "robot", "-n", "c3"])["metadata"]["uid"].clone();
    hub.kubectl.run(&["delete", "secret", "robot", "-n", "c3"]);
    eventually("a token that is lost is made anew", async || {
        let secret = hub.get(&["secret", "robot", "-n", "c3"]);
        secret["data"]["token"].is_string() && secret["metadata"]["uid"] != before
    })
    .await;
    hub.kubectl.run(&[&["delete"][..], &ACCOUNT].concat());
    eventually("the account goes", async || accounts.get_opt("robot").await.unwrap().is_none()).await;
}
