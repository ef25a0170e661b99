//! Argo CD deploys to a cluster with the Secret that the operator writes. Its token comes from OCM's
//! managed-serviceaccount.

use std::process::Command;

use api::cluster::v1::ClientConfig;
use api::crds;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use super::{FLEET, Hub, NAMESPACE, binding, config_map};
use crate::argocd::recipes::shown;
use crate::client::proxy_of;
use crate::docs::blocks;
use crate::klusterlet::exists;
use crate::kube::{Cluster, Kubectl, built};
use crate::running::Running;
use crate::wait::eventually;

/// The ManagedServiceAccount that the page names.
const ACCOUNT: &str = "argocd";
/// The namespace of accounts on the cluster.
const ACCOUNTS: &str = "open-cluster-management-agent-addon";
/// The address of the cluster. The operator rejects loopback addresses, so Argo CD reaches it through a proxy.
const ADDRESS: &str = "api.example.com:6443";

/// Returns the Placement of the page, which asks for cluster secrets as the page says.
fn placement() -> Value {
    let mut placement = shown("Placement", "/spec");
    let asks = "gitops.wheelwright.dev/cluster-secrets";
    let block =
        blocks("docs/argocd-clusters.md").into_iter().find(|block| block.text.contains(asks)).unwrap();
    json_patch::merge(&mut placement, &serde_saphyr::from_str(&block.text).unwrap());
    assert_eq!(placement["metadata"]["annotations"][asks], ACCOUNT);
    placement
}

/// Creates a ManagedServiceAccount that is an administrator of the cluster, and starts the agent that provides its
/// token. The agent is an administrator of hub and cluster.
async fn start_accounts(hub: &Hub, spoke: &Kubectl, spoke_kubeconfig: &str) -> Running {
    let programs = built("tests/managed-serviceaccount/build");
    let definition = "chart/crds/authentication.open-cluster-management.io_managedserviceaccounts.yaml";
    let definition = std::fs::read_to_string(programs.join(definition)).unwrap();
    let definition: Value = serde_saphyr::from_str(&definition).unwrap();
    let on_hub = Kubectl::new(&hub.kubeconfig, hub.dir.path("kubectl-home"));
    on_hub.install([serde_json::from_value(definition).unwrap()].into_iter());
    let namespace = ["namespace", ACCOUNTS];
    eventually("the agent has created the namespace", async || exists(spoke, &namespace)).await;
    let account = format!("--serviceaccount={ACCOUNTS}:{ACCOUNT}");
    spoke.run(&["create", "clusterrolebinding", ACCOUNT, "--clusterrole=cluster-admin", &account]);
    hub.apply(json!({"apiVersion": "authentication.open-cluster-management.io/v1beta1", "kind": "ManagedServiceAccount",
        "metadata": {"name": ACCOUNT, "namespace": "c1"}, "spec": {"rotation": {"enabled": true, "validity": "1h0m0s"}}}))
        .await;
    let mut command = Command::new(programs.join("msa"));
    command.args(["agent", "--cluster-name=c1", "--metrics-bind-address=0", "--health-probe-bind-address=0"]);
    command.arg("--kubeconfig").arg(&hub.kubeconfig).args(["--spoke-kubeconfig", spoke_kubeconfig]);
    command.env("HEALTH_ADDRESS", "127.0.0.1:0").env("NAMESPACE", ACCOUNTS);
    command.env("HUB_KUBECONFIG", &hub.kubeconfig);
    Running::spawn(&mut command, "managed-serviceaccount", &hub.dir.path(""), &hub.dir.path(""))
}

fn decoded(value: &Value) -> String {
    String::from_utf8(STANDARD.decode(value.as_str().unwrap_or_default()).unwrap()).unwrap()
}

/// Waits until the cluster secret has a token of the account other than `old`, and returns it.
async fn new_token(hub: &Hub, old: &str) -> String {
    let mut token = String::new();
    eventually("the cluster secret has the token of the account", async || {
        token = decoded(&hub.get("Secret", "c1", ACCOUNT).await["data"]["token"]);
        let secret = hub.get("Secret", NAMESPACE, "c1-cluster-secret").await;
        !token.is_empty() && token != old && decoded(&secret["data"]["config"]).contains(&token)
    })
    .await;
    token
}

/// Deletes the account and its token, which the agent recreates. The cluster then rejects the old token.
async fn renew(hub: &Hub, spoke: &Cluster, token: String) {
    let (on_spoke, account) = (spoke.kubectl(), ["serviceaccount", ACCOUNT, "-n", ACCOUNTS]);
    on_spoke.run(&[&["delete"][..], &account].concat());
    eventually("the account is recreated", async || exists(&on_spoke, &account)).await;
    hub.delete("Secret", "c1", ACCOUNT).await;
    new_token(hub, &token).await;
    let reviews: Api<TokenReview> = Api::all(spoke.client().await);
    let spec = TokenReviewSpec { token, ..TokenReviewSpec::default() };
    let review = TokenReview { spec, ..TokenReview::default() };
    eventually("the cluster rejects the old token", async || {
        let answer = reviews.create(&PostParams::default(), &review).await.unwrap();
        answer.status.unwrap().authenticated != Some(true)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "Argo CD takes twelve minutes to build; make neighbors"]
async fn argo_cd_deploys_with_the_secret_of_a_cluster_and_its_renewed_token() {
    let mut hub = Hub::start("argo-secrets").await;
    let spoke = Cluster::start("argo-secrets-spoke").await;
    spoke.kubectl().install(crds::spoke().into_iter());
    let (proxy, tunnels) = proxy_of(None, Some(spoke.url.replace("https://", ""))).await;
    hub.argo_cd.use_proxy(proxy);
    let address = ClientConfig { url: format!("https://{ADDRESS}"), ..ClientConfig::default() };
    hub.join_with("c1", spoke.client().await, vec![address]).await;
    let labels = json!({"metadata": {"labels": {"environment": "prod"}}});
    hub.patch("ManagedCluster", "", "c1", labels).await;
    hub.apply(binding(NAMESPACE)).await;
    hub.apply(placement()).await;
    let _accounts = start_accounts(&hub, &spoke.kubectl(), spoke.kubeconfig.to_str().unwrap()).await;
    let token = new_token(&hub, "").await;

    let mut repository = hub.repository("shop");
    repository.write("settings.yaml", &config_map("settings", "1", json!({})));
    let first = repository.commit("one");
    let destination = json!({"destination": {"server": null, "name": "c1"}, "syncPolicy": {"syncOptions": ["CreateNamespace=true"]}});
    hub.application("shop", &repository, destination).await;
    hub.synced("shop", &first).await;
    let maps: Api<ConfigMap> = Api::namespaced(spoke.client().await, FLEET);
    let value = async || maps.get("settings").await.unwrap().data.unwrap()["k"].clone();
    assert_eq!(value().await, "1");

    renew(&hub, &spoke, token).await;
    repository.write("settings.yaml", &config_map("settings", "2", json!({})));
    let second = repository.commit("two");
    hub.refresh("shop").await;
    hub.synced("shop", &second).await;
    assert_eq!(value().await, "2");
    let servers = tunnels.lock().unwrap();
    assert!(!servers.is_empty() && servers.iter().all(|server| server == ADDRESS), "{servers:?}");
}
