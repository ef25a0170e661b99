//! The requests of published managers to a hub, sent with their service accounts.
//!
//! The managers are Go programs that run only on real nodes (`tests/cluster/addons.rs`). The requests are the rows
//! of `docs/addon-managers.md`.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use wheelwright::pki::{Authority, CertificateRequest, KeyPair, Subject, Usage, request};
use wheelwright::shell::now;

use super::hub::Hub;
use crate::kube::Kubectl;
use crate::wait::eventually;

const SIGNER: &str = "open-cluster-management.io/proxy-agent-signer";
const PROXY: [&str; 3] =
    ["managedclusteraddons.v1beta1.addon.open-cluster-management.io", "cluster-proxy", "-n"];
const AGENT: [&str; 3] = [
    "--as=system:open-cluster-management:c1:agent",
    "--as-group=system:open-cluster-management:c1",
    "--as-group=system:open-cluster-management:managed-clusters",
];

/// Merge-patches an object as a manager does.
fn patch(kubectl: &Kubectl, what: &[&str], change: &Value, more: &[&str]) {
    let change = change.to_string();
    kubectl.run(&[&["patch"][..], what, &["--type=merge", "-p", &change], more].concat());
}

fn addon(hub: &Hub) -> Value {
    hub.get(&[&PROXY[..], &["c1"]].concat())
}

fn condition<'v>(object: &'v Value, type_: &str) -> &'v Value {
    let conditions = object["status"]["conditions"].as_array();
    conditions.and_then(|all| all.iter().find(|one| one["type"] == type_)).unwrap_or(&Value::Null)
}

/// The manager finds its add-ons and writes its configuration hash; the hub assigns it to the clusters.
pub(super) async fn a_hash_of_the_manager_reaches_its_clusters(hub: &Hub) {
    let manager = hub.kubectl_of("cluster-proxy");
    for kind in [
        "managedclusters",
        "clustermanagementaddons",
        "managedclusteraddons",
        "addondeploymentconfigs",
        "manifestworks",
    ] {
        manager.run(&["get", kind, "-A"]);
    }
    let of = ["clustermanagementaddons.v1beta1.addon.open-cluster-management.io", "cluster-proxy"];
    eventually("the hub lists the configuration", async || {
        !hub.get(&of)["status"]["defaultConfigReferences"].is_null()
    })
    .await;
    let desired = json!({"name": "cluster-proxy", "specHash": "hash-of-the-manager"});
    let reference = json!({"group": "proxy.open-cluster-management.io", "resource": "managedproxyconfigurations", "desiredConfig": desired});
    // The framework writes both lists, based on the current status.
    let mut progressions = hub.get(&of)["status"]["installProgressions"].clone();
    progressions[0]["configReferences"] = json!([reference]);
    let status = json!({"defaultConfigReferences": [reference], "installProgressions": progressions});
    patch(&manager, &of, &json!({"status": status}), &["--subresource=status"]);
    eventually("the cluster is assigned the configuration", async || {
        let addon = addon(hub);
        addon["status"]["configReferences"][0]["desiredConfig"] == desired
            && condition(&addon, "Configured")["status"] == "True"
    })
    .await;
}

/// The manager deploys a work with the hashes, and the hub counts it as this cluster's rollout.
pub(super) async fn a_work_of_the_manager_completes_the_rollout(hub: &Hub) {
    let manager = hub.kubectl_of("cluster-proxy");
    let metadata = &addon(hub)["metadata"];
    let owner = json!({"apiVersion": "addon.open-cluster-management.io/v1beta1", "kind": "ManagedClusterAddOn", "name": "cluster-proxy",
        "uid": metadata["uid"], "controller": true, "blockOwnerDeletion": true});
    let hashes = json!({"managedproxyconfigurations.proxy.open-cluster-management.io//cluster-proxy": "hash-of-the-manager"});
    let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "proxy", "namespace": "default"}});
    let work = json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {
            "name": "addon-cluster-proxy-deploy-0", "namespace": "c1", "ownerReferences": [owner],
            "labels": {"open-cluster-management.io/addon-name": "cluster-proxy"},
            "annotations": {"open-cluster-management.io/config-spec-hash": hashes.to_string()},
        },
        "spec": {"workload": {"manifests": [manifest]}},
    });
    manager.run_with(&["create", "-f", "-"], &work.to_string());
    let applied = |type_: &str| {
        json!({"type": type_, "status": "True", "reason": "R", "message": "", "observedGeneration": 1,
            "lastTransitionTime": now().strftime("%FT%TZ").to_string()})
    };
    let status = json!({"status": {"conditions": [applied("Applied"), applied("Available")]}});
    let of = ["manifestwork", "addon-cluster-proxy-deploy-0", "-n", "c1"];
    patch(&hub.kubectl, &of, &status, &["--subresource=status"]);
    eventually("the rollout on the cluster is complete", async || {
        let addon = addon(hub);
        condition(&addon, "Progressing")["reason"] == "Completed"
            && addon["status"]["configReferences"][0]["lastAppliedConfig"]["specHash"]
                == "hash-of-the-manager"
    })
    .await;
}

/// The manager registers its agent with its own signer, then approves and signs the agent's request. The hub
/// changes none of these.
pub(super) fn a_manager_signs_for_a_signer_of_its_own(hub: &Hub) {
    let manager = hub.kubectl_of("cluster-proxy");
    let custom = json!({"signerName": SIGNER, "subject": {"user": "open-cluster-management:cluster-proxy:addon-agent"}});
    let of_cluster = "system:open-cluster-management:cluster:c1:addon:cluster-proxy";
    let subject = json!({"user": format!("{of_cluster}:agent:cluster-proxy"), "groups": [of_cluster]});
    let registrations = json!([
        {"type": "customSigner", "customSigner": custom},
        {"type": "kubeClient", "kubeClient": {"subject": subject}},
    ]);
    let status = json!({"status": {"registrations": registrations, "namespace": "open-cluster-management-cluster-proxy"}});
    patch(&manager, &[&PROXY[..], &["c1"]].concat(), &status, &["--subresource=status"]);
    let registered = addon(hub)["status"]["registrations"].clone();
    assert_eq!(registered[0]["customSigner"]["signerName"], SIGNER);
    assert_eq!(registered[1]["type"], "kubeClient");

    let user = Subject::new("open-cluster-management:cluster-proxy:addon-agent", &[]);
    let pem =
        request(&KeyPair::generate().unwrap(), &user, &["cluster-proxy.addon.open-cluster-management.io"])
            .unwrap();
    let name = "addon-c1-cluster-proxy-abcde";
    let csr = json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": name, "labels": {
            "open-cluster-management.io/cluster-name": "c1", "open-cluster-management.io/addon-name": "cluster-proxy",
        }},
        "spec": {"request": STANDARD.encode(&pem), "signerName": SIGNER, "usages": ["digital signature", "key encipherment", "client auth"]},
    });
    hub.kubectl.run_with(&[&["create", "-f", "-"][..], &AGENT].concat(), &csr.to_string());
    manager.run(&["certificate", "approve", name]);
    let authority = Authority::create("proxy", now()).unwrap();
    let parsed = CertificateRequest::parse(&pem).unwrap();
    let signed = authority.sign(&parsed, &[Usage::Client], now(), Duration::from_secs(3600)).unwrap();
    let status = json!({"status": {"certificate": STANDARD.encode(signed)}});
    patch(&manager, &["csr", name], &status, &["--subresource=status"]);
    let conditions = hub.get(&["csr", name])["status"]["conditions"].clone();
    assert_eq!(conditions.as_array().unwrap().len(), 1, "{conditions}");
}

/// Sends the other requests that the manager's role allows.
pub(super) fn a_manager_keeps_its_own_objects(hub: &Hub) {
    let manager = hub.kubectl_of("cluster-proxy");
    let object = |api_version: &str, kind: &str, name: &str, namespace: &str, more: Value| {
        let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": namespace}});
        json_patch::merge(&mut object, &more);
        object
    };
    let rbac = "rbac.authorization.k8s.io/v1";
    let rule = json!({"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get"]});
    let review =
        json!({"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]});
    let group = json!({"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:open-cluster-management:cluster:c1:addon:cluster-proxy"});
    let binding = |kind: &str| {
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "cluster-proxy-addon-agent"});
        json!({"roleRef": role, "subjects": [group]})
    };
    let secret = object("v1", "Secret", "proxy-client", super::hub::NAMESPACE, json!({"type": "Opaque"}));
    let lease = object(
        "coordination.k8s.io/v1",
        "Lease",
        "proxy-manager",
        super::hub::NAMESPACE,
        json!({"spec": {"holderIdentity": "x"}}),
    );
    let settings =
        object("v1", "ConfigMap", "proxy-settings", super::hub::NAMESPACE, json!({"data": {"k": "v"}}));
    let role = object(rbac, "Role", "cluster-proxy-addon-agent", "c1", json!({"rules": [rule]}));
    let bound = object(rbac, "RoleBinding", "cluster-proxy-addon-agent", "c1", binding("Role"));
    let mut hub_role =
        object(rbac, "ClusterRole", "cluster-proxy-addon-agent", "", json!({"rules": [review]}));
    let mut hub_bound =
        object(rbac, "ClusterRoleBinding", "cluster-proxy-addon-agent", "", binding("ClusterRole"));
    for object in [&mut hub_role, &mut hub_bound] {
        object["metadata"].as_object_mut().unwrap().remove("namespace");
    }
    let objects = [secret, lease, settings, role, bound, hub_role, hub_bound];
    let documents: Vec<String> = objects.iter().map(ToString::to_string).collect();
    manager.run_with(&["create", "-f", "-"], &documents.join("\n"));
}
