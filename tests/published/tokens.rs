//! Token registration: the hub creates a service account for the add-on, and the cluster's agent gets its tokens.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use wheelwright::shell::now;

use super::hub::Hub;
use crate::kube::{Kubectl, helm};
use crate::wait::eventually;

const SPOKE: &str = "c4";
const ADDON: &str = "by-token";
const NAMESPACE: &str = "open-cluster-management-agent-addon";

/// Grants the operator the permissions of the chart value `tokenAddOns`.
pub(super) fn allow(hub: &Hub) {
    let objects = helm::render("wheelwright", &[&format!("tokenAddOns=[{ADDON:?}]")]).unwrap();
    let is_it = |object: &&Value| {
        object["kind"] == "ClusterRole" && object["metadata"]["name"] == "wheelwright-operator-tokens"
    };
    hub.apply(&objects.iter().find(is_it).unwrap().to_string());
    let role = "--clusterrole=wheelwright-operator-tokens";
    hub.kubectl.run(&["create", "clusterrolebinding", "tokens", role, "--user=operator"]);
}

/// Returns a template whose agents may read the ConfigMaps in their cluster's namespace, and the add-on on one
/// cluster.
fn objects() -> String {
    let addons = "addon.open-cluster-management.io/v1alpha1";
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    let current = json!({"type": "CurrentCluster", "currentCluster": {"clusterRoleName": "open-cluster-management:managedcluster:registration"}});
    let template = json!({
        "addonName": ADDON, "agentSpec": {"workload": {"manifests": [namespace]}},
        "registration": [{"type": "KubeClient", "kubeClient": {"hubPermissions": [current]}}],
    });
    let config = json!({"group": "addon.open-cluster-management.io", "resource": "addontemplates", "defaultConfig": {"name": ADDON}});
    let objects = [
        json!({"apiVersion": addons, "kind": "AddOnTemplate", "metadata": {"name": ADDON}, "spec": template}),
        json!({"apiVersion": addons, "kind": "ClusterManagementAddOn", "metadata": {"name": ADDON}, "spec": {"supportedConfigs": [config]}}),
        json!({"apiVersion": addons, "kind": "ManagedClusterAddOn", "metadata": {"name": ADDON, "namespace": SPOKE}, "spec": {}}),
    ];
    objects.map(|object| object.to_string()).join("\n---\n")
}

fn condition(hub: &Hub, name: &str) -> Value {
    let addon = hub.get(&["managedclusteraddon", ADDON, "-n", SPOKE]);
    let conditions = addon["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|one| one["type"] == name).unwrap_or_default()
}

/// Returns a token of the account with, as far as the agent can tell, a tenth of its lifetime left.
fn ending_token(uid: &str) -> String {
    let now = now().as_second();
    let account = json!({"serviceaccount": {"uid": uid}});
    let claims = json!({"iat": now - 9 * 3600, "exp": now + 3600, "kubernetes.io": account});
    format!("h.{}.s", URL_SAFE_NO_PAD.encode(claims.to_string()))
}

pub(super) async fn an_addon_gets_a_token_of_its_service_account(hub: &mut Hub) {
    let by_token = ["--addon-kubeclient-registration-auth=token"];
    let spoke = hub.join_with_agent(SPOKE, &by_token).await;
    hub.apply(&objects());
    let secrets: Api<Secret> = Api::namespaced(spoke, NAMESPACE);
    let name = format!("{ADDON}-hub-kubeconfig");
    let mut secret = None;
    eventually("the agent keeps the token", async || {
        secret = secrets.get_opt(&name).await.unwrap();
        secret.is_some()
    })
    .await;
    let data = secret.unwrap().data.unwrap();
    assert_eq!(data.keys().collect::<Vec<_>>(), ["cluster-name", "kubeconfig", "token"]);
    let uid = hub.get(&["serviceaccount", &format!("{ADDON}-agent"), "-n", SPOKE])["metadata"]["uid"].clone();
    let ready = condition(hub, "TokenInfrastructureReady");
    let message = format!("ServiceAccount {SPOKE}/{ADDON}-agent (UID: {}) is ready", uid.as_str().unwrap());
    assert_eq!((ready["status"].as_str(), ready["message"].as_str()), (Some("True"), Some(message.as_str())));
    eventually("the agent says that the token is fresh", async || {
        condition(hub, "TokenRefreshed")["reason"] == "AddonTokenRefreshed"
    })
    .await;
    let dir = tempfile::tempdir().unwrap();
    for (key, bytes) in &data {
        fs::write(dir.path().join(key), &bytes.0).unwrap();
    }
    let addon = Kubectl::new(&dir.path().join("kubeconfig"), dir.path().join("home"));
    eventually("the token has the permissions of the template", async || {
        let get = ["get", "managedclusteraddon", ADDON, "-n", SPOKE];
        addon.command(&get).output().unwrap().status.success()
    })
    .await;
    assert!(!addon.command(&["get", "managedclusteraddons", "-n", "c1"]).output().unwrap().status.success());

    let old = ending_token(uid.as_str().unwrap());
    let patch = Patch::Merge(json!({"data": {"token": ByteString(old.clone().into_bytes())}}));
    let age = async || drop(secrets.patch(&name, &PatchParams::default(), &patch).await.unwrap());
    hub.restart_agent(SPOKE, &by_token, age).await;
    eventually("the agent keeps a new token before the old one has ended", async || {
        let data = secrets.get(&name).await.unwrap().data.unwrap();
        data["token"].0 != old.as_bytes()
    })
    .await;

    hub.kubectl.run(&["delete", "managedclusteraddon", ADDON, "-n", SPOKE]);
    eventually("the account, its role and the token go with the add-on", async || {
        let of_hub = ["serviceaccounts,roles,rolebindings", "-n", SPOKE, "-l"];
        let label = ["addon.open-cluster-management.io/token-infrastructure=true"];
        let left = hub.get(&[&of_hub[..], &label].concat());
        left["items"].as_array().is_none_or(Vec::is_empty) && secrets.get_opt(&name).await.unwrap().is_none()
    })
    .await;
}
