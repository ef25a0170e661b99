//! A hub whose add-on definitions OCM installed, with its conversion webhook.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::run;
use crate::kube::{Cluster, Kubectl};

const KINDS: [&str; 2] = [
    "clustermanagementaddons.addon.open-cluster-management.io",
    "managedclusteraddons.addon.open-cluster-management.io",
];
const OLD: [&str; 2] = [
    "clustermanagementaddons.v1alpha1.addon.open-cluster-management.io",
    "managedclusteraddons.v1alpha1.addon.open-cluster-management.io",
];
const NEW: &str = "clustermanagementaddons.v1beta1.addon.open-cluster-management.io";

/// Returns the conversion of OCM's definitions. Nothing answers at its service here, as in an outage.
fn conversion(hub: &Cluster) -> Value {
    let service = json!({
        "namespace": "open-cluster-management-hub", "name": "cluster-manager-addon-webhook", "path": "/convert", "port": 9443,
    });
    let client = json!({"service": service, "caBundle": STANDARD.encode(hub.ca_pem())});
    json!({"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1", "v1beta1"]}})
}

/// Installs the definitions of the add-on kinds as OCM 1.2 and 1.3 do: v1alpha1 is stored, both versions are
/// served.
fn install_definitions(kubectl: &Kubectl, conversion: &Value) {
    for definition in api::crds::hub() {
        let mut definition = serde_json::to_value(definition).unwrap();
        if !KINDS.contains(&definition["metadata"]["name"].as_str().unwrap()) {
            continue;
        }
        definition["spec"]["conversion"] = conversion.clone();
        for version in definition["spec"]["versions"].as_array_mut().unwrap() {
            version["served"] = true.into();
        }
        definition["apiVersion"] = "apiextensions.k8s.io/v1".into();
        definition["kind"] = "CustomResourceDefinition".into();
        kubectl.run_with(&["apply", "-f", "-"], &definition.to_string());
    }
    for kind in KINDS {
        kubectl.run(&["wait", "crd", kind, "--for=condition=Established", "--timeout=60s"]);
    }
}

/// Returns the contents of the stored objects.
fn stored(kubectl: &Kubectl) -> Vec<Value> {
    let read = |resource: &str| -> Value {
        serde_json::from_str(&kubectl.run(&["get", resource, "-A", "-o", "json"])).unwrap()
    };
    OLD.iter()
        .flat_map(|resource| read(resource)["items"].as_array().cloned().unwrap())
        .map(|object| {
            json!([object["metadata"]["name"], object["metadata"]["uid"], object["spec"], object["status"]])
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_of_the_definitions_of_ocm_keeps_stored_objects_and_their_conversion() {
    let hub = Cluster::start("install-ocm").await;
    let kubectl = hub.kubectl();
    let wanted = conversion(&hub);
    install_definitions(&kubectl, &wanted);
    kubectl.run(&["create", "namespace", "c1"]);
    // Fields that v1beta1 does not have are among them.
    let config = json!({"group": "addon.open-cluster-management.io", "resource": "addondeploymentconfigs",
        "defaultConfig": {"namespace": "default", "name": "d"}});
    let cma = json!({
        "apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ClusterManagementAddOn", "metadata": {"name": "a"},
        "spec": {"addOnConfiguration": {"crdName": "old"}, "addOnMeta": {"displayName": "A"}, "supportedConfigs": [config],
            "installStrategy": {"type": "Manual"}},
    });
    let mca = json!({
        "apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ManagedClusterAddOn",
        "metadata": {"name": "a", "namespace": "c1"}, "spec": {"installNamespace": "mine"},
    });
    for object in [&cma, &mca] {
        kubectl.run_with(&["apply", "-f", "-"], &object.to_string());
    }
    let status = json!({"status": {"kubeClientDriver": "token", "conditions": [{"type": "Available", "status": "True",
        "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    let patch = ["patch", OLD[1], "a", "-n", "c1", "--subresource=status", "--type=merge", "-p"];
    kubectl.run(&[&patch[..], &[&status.to_string()]].concat());
    let before = stored(&kubectl);
    assert_eq!(before.len(), 2);

    let definition = |kind: &str| -> Value {
        serde_json::from_str(&kubectl.run(&["get", "crd", kind, "-o", "json"])).unwrap()
    };
    let left = "left as it is: another component of Open Cluster Management owns it\n";
    for (arguments, told) in [
        (&["install", "--wait", "0"][..], left),
        (&["install", "--wait", "0", "--take-ownership"], "configured\n"),
        (&["upgrade", "--wait", "0"], "unchanged\n"),
    ] {
        let printed = run(&hub, arguments);
        for kind in KINDS {
            assert!(printed.contains(&format!("{kind} {told}")), "{arguments:?}: {printed}");
            let definition = definition(kind);
            assert_eq!(definition["spec"]["conversion"], wanted, "{arguments:?}");
            assert_eq!(definition["status"]["storedVersions"], json!(["v1alpha1"]), "{arguments:?}");
            for version in definition["spec"]["versions"].as_array().unwrap() {
                let is_old = version["name"] == "v1alpha1";
                assert_eq!((&version["served"], &version["storage"]), (&json!(true), &json!(is_old)));
            }
        }
        assert_eq!(stored(&kubectl), before, "{arguments:?}");
    }

    // OCM's webhook is away. Clients of the stored version read and write.
    let edit = json!({"metadata": {"labels": {"during": "outage"}}}).to_string();
    for (resource, namespace) in OLD.iter().zip(["default", "c1"]) {
        kubectl.run(&["patch", resource, "a", "-n", namespace, "--type=merge", "-p", &edit]);
    }
    let refused = kubectl.fails(&["get", NEW, "a"]);
    assert!(refused.contains("conversion webhook"), "{refused}");
    assert_eq!(stored(&kubectl), before);
}
