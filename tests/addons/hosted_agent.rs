//! An add-on agent alongside a hosted agent, in whose hosting cluster its credentials and lease are.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use object::Kind;
use serde_json::{Value, json};
use wheelwright::apiserver::{Server, ServerOptions};
use wheelwright::shell::now;

use super::installed::Installed;
use crate::kube::{Kubectl, client_of};
use crate::published::hub::Hub;
use crate::wait::eventually;

pub(crate) const SECRET: &str = "helper-hub-kubeconfig";
const NAME: &str = "helper";
const ADDONS: &str = "managedclusteraddons.v1alpha1.addon.open-cluster-management.io";
const HOST: &str = "addon.open-cluster-management.io/hosting-cluster-name";

fn addon(name: &str, cluster: &str, namespace: &str) -> String {
    let metadata = json!({"name": name, "namespace": cluster, "annotations": {HOST: "host"}});
    json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ManagedClusterAddOn",
        "metadata": metadata, "spec": {"installNamespace": namespace}})
    .to_string()
}

/// Creates an add-on with a hosting cluster, and registers its agent as its manager would.
pub(crate) fn register(hub: &Kubectl, cluster: &str, namespace: &str) {
    hub.run_with(&["create", "-f", "-"], &addon(NAME, cluster, namespace));
    let registrations = json!([{"signerName": "kubernetes.io/kube-apiserver-client"}]);
    let status = json!({"status": {"registrations": registrations}}).to_string();
    hub.run(&["patch", ADDONS, NAME, "-n", cluster, "--subresource=status", "--type=merge", "-p", &status]);
}

/// Returns the certificate requests of the add-on's agent.
fn requests(hub: &Kubectl) -> Vec<String> {
    let all = hub.run(&["get", "csr", "-l", "open-cluster-management.io/addon-name=helper", "-o", "name"]);
    let names = all.lines().filter_map(|name| name.split_once('/'));
    names.map(|(_, name)| name.to_owned()).collect()
}

/// Waits until there are `count` certificate requests, then approves them.
pub(crate) async fn approve(hub: &Kubectl, count: usize) {
    eventually("the agent asks for a certificate", async || requests(hub).len() == count).await;
    for name in requests(hub) {
        hub.run(&["certificate", "approve", &name]);
    }
}

/// Returns the message of a condition of the add-on.
pub(crate) fn message(addon: &Value, type_: &str) -> String {
    let conditions = addon["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let condition = conditions.into_iter().find(|one| one["type"] == type_).unwrap_or_default();
    condition["message"].as_str().unwrap_or_default().to_owned()
}

async fn create<K: Kind>(api: Api<K>, object: Value) {
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

/// Returns the number of the add-on's secrets on a cluster.
async fn credentials(cluster: &kube::Client) -> usize {
    let label = ListParams::default().labels("open-cluster-management.io/addon-name=helper");
    Api::<Secret>::all(cluster.clone()).list(&label).await.unwrap().items.len()
}

pub(super) async fn has_what_it_needs_beside_it(hub: &mut Hub) {
    let server = Server::start(ServerOptions::new(now)).await.unwrap();
    let file = hub.path("host.kubeconfig");
    std::fs::write(&file, server.admin_kubeconfig_yaml().unwrap()).unwrap();
    let host = client_of(&file).await;
    let namespace = json!({"metadata": {"name": "c3"}});
    create(Api::<Namespace>::all(host.clone()), namespace.clone()).await;
    let beside: Api<Secret> = Api::namespaced(host.clone(), "c3");
    let labels = json!({"open-cluster-management.io/cluster-name": "c9"});
    create(beside.clone(), json!({"metadata": {"name": SECRET, "labels": labels}})).await;
    let flags = ["--hosted", "--kubeconfig", file.to_str().unwrap(), "--namespace", "c3"];
    let spoke = hub.join_with_agent("c3", &flags).await;
    create(Api::<Namespace>::all(spoke.clone()), namespace).await;
    let installed = Installed { addon: NAME, cluster: "c3", spoke: spoke.clone() };

    eventually("the cluster has its namespace", async || !hub.get(&["namespace", "c3"]).is_null()).await;
    // If no other add-on exists, credentials are kept for an hour, because the hub may have lost all add-ons.
    hub.kubectl.run_with(&["create", "-f", "-"], &addon("other", "c3", "c3"));
    register(&hub.kubectl, "c3", "c3");
    installed.says(hub, "ClusterCertificateRotated", "ClientCertificateUpdateFailed").await;
    let refusal = message(&installed.on_hub(hub), "ClusterCertificateRotated");
    assert!(refusal.contains("for the cluster c9"), "{refusal}");
    assert_eq!(requests(&hub.kubectl), [""; 0], "it would ask again and again");
    beside.delete(SECRET, &DeleteParams::default()).await.unwrap();
    approve(&hub.kubectl, 1).await;
    installed.says(hub, "ClusterCertificateRotated", "ClientCertificateUpdated").await;
    assert_eq!((credentials(&host).await, credentials(&spoke).await), (1, 0));

    installed.says(hub, "Available", "ManagedClusterAddOnLeaseNotFound").await;
    let missing = message(&installed.on_hub(hub), "Available");
    assert!(missing.contains("No lease found on hosting cluster \"host\""), "{missing}");
    let lease = json!({"metadata": {"name": NAME}, "spec": {"renewTime": format!("{:.6}", now())}});
    create(Api::<Lease>::namespaced(host.clone(), "c3"), lease).await;
    installed.says(hub, "Available", "ManagedClusterAddOnLeaseUpdated").await;

    hub.kubectl.run(&["annotate", ADDONS, NAME, "-n", "c3", &format!("{HOST}-")]);
    approve(&hub.kubectl, 2).await;
    eventually("the credentials move to the cluster", async || {
        (credentials(&host).await, credentials(&spoke).await) == (0, 1)
    })
    .await;
    installed.says(hub, "Available", "ManagedClusterAddOnLeaseNotFound").await;
    hub.kubectl.run(&["annotate", ADDONS, NAME, "-n", "c3", &format!("{HOST}=host")]);
    approve(&hub.kubectl, 3).await;
    eventually("they move back", async || (credentials(&host).await, credentials(&spoke).await) == (1, 0))
        .await;
    hub.kubectl.run(&["delete", ADDONS, NAME, "-n", "c3", "--timeout=60s"]);
    eventually("they go with the add-on", async || credentials(&host).await == 0).await;
}
