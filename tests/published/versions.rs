//! Clients of v1alpha1 and v1beta1 at the same time, and an outage of the webhook.

use serde_json::{Value, json};

use super::hub::Hub;
use crate::wait::eventually;

const OLD: &str = "managedclusteraddons.v1alpha1.addon.open-cluster-management.io";
const NEW: &str = "managedclusteraddons.v1beta1.addon.open-cluster-management.io";
const INSTALL_NAMESPACE: &str = "addon.open-cluster-management.io/v1alpha1-install-namespace";

fn read(hub: &Hub, version: &str) -> Value {
    hub.get(&[version, "both", "-n", "c2"])
}

/// Checks that each version shows what the other one wrote in its own fields, and returns it unchanged.
pub(super) fn each_version_shows_what_the_other_wrote(hub: &Hub) {
    let object = json!({
        "apiVersion": "addon.open-cluster-management.io/v1beta1", "kind": "ManagedClusterAddOn",
        "metadata": {"name": "both", "namespace": "c2", "annotations": {INSTALL_NAMESPACE: "mine", "kept": "yes"}}, "spec": {},
    });
    hub.kubectl.run_with(&["create", "-f", "-"], &object.to_string());
    let old = read(hub, OLD);
    assert_eq!(
        (&old["spec"]["installNamespace"], &old["metadata"]["annotations"]),
        (&json!("mine"), &json!({"kept": "yes"}))
    );
    assert_eq!(read(hub, NEW)["metadata"]["annotations"], object["metadata"]["annotations"]);

    let subject = json!({"user": "u", "groups": ["g"]});
    let registrations =
        json!([{"type": "kubeClient", "kubeClient": {"driver": "token", "subject": subject}}]);
    let group = "addon.open-cluster-management.io";
    let supported = json!([
        {"group": group, "resource": "addondeploymentconfigs"}, {"group": "", "resource": "configmaps"},
    ]);
    let status = json!({"registrations": registrations, "supportedConfigs": supported});
    let status = json!({"status": status}).to_string();
    let patch = ["patch", NEW, "both", "-n", "c2", "--subresource=status", "--type=merge", "-p", &status];
    hub.kubectl.run(&patch);
    let old = read(hub, OLD)["status"].clone();
    assert_eq!(old["kubeClientDriver"], "token");
    assert_eq!(
        old["registrations"],
        json!([{"signerName": "kubernetes.io/kube-apiserver-client", "subject": subject}])
    );
    assert_eq!(read(hub, NEW)["status"]["registrations"], registrations);
    for version in [OLD, NEW] {
        assert_eq!(read(hub, version)["status"]["supportedConfigs"], supported, "{version}");
    }

    let moved = json!({"spec": {"installNamespace": "other"}}).to_string();
    hub.kubectl.run(&["patch", OLD, "both", "-n", "c2", "--type=merge", "-p", &moved]);
    assert_eq!(read(hub, NEW)["metadata"]["annotations"][INSTALL_NAMESPACE], "other");
}

/// Without the webhook, the stored version is still served. A replica that is not the leader restores the other
/// version.
pub(super) async fn an_outage_of_the_webhook_stops_the_newer_version_only(hub: &mut Hub) {
    hub.stop_operator();
    let edit = json!({"metadata": {"labels": {"during": "outage"}}}).to_string();
    hub.kubectl.run(&["patch", OLD, "both", "-n", "c2", "--type=merge", "-p", &edit]);
    let refused = hub.kubectl.fails(&["get", NEW, "both", "-n", "c2"]);
    assert!(refused.contains("conversion webhook"), "{refused}");
    let at = wheelwright::shell::now().strftime("%FT%T.000000Z").to_string();
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "wheelwright-operator", "namespace": "wheelwright-system"},
        "spec": {"holderIdentity": "elsewhere", "leaseDurationSeconds": 3600, "acquireTime": at, "renewTime": at},
    });
    hub.apply(&lease.to_string());
    hub.start_operator(&[]);
    eventually("a replica that does not lead converts", async || {
        let got = hub.kubectl.command(&["get", NEW, "both", "-n", "c2", "-o", "json"]).output().unwrap();
        got.status.success() && String::from_utf8_lossy(&got.stdout).contains("outage")
    })
    .await;
}
