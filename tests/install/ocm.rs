//! The CRDs in OCM's API module: a hub that uses them, with OCM's conversion webhook, and what ours lack.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::run;
use crate::kube::{Cluster, Kubectl, built, free_port, helm};
use crate::running::Running;
use crate::wait::eventually;

const KINDS: [&str; 2] = [
    "clustermanagementaddons.addon.open-cluster-management.io",
    "managedclusteraddons.addon.open-cluster-management.io",
];
const OLD: [&str; 2] = [
    "clustermanagementaddons.v1alpha1.addon.open-cluster-management.io",
    "managedclusteraddons.v1alpha1.addon.open-cluster-management.io",
];
const NEW: &str = "clustermanagementaddons.v1beta1.addon.open-cluster-management.io";

/// Returns the conversion of OCM's CRDs. Its service does not respond here, as in an outage.
fn conversion(hub: &Cluster) -> Value {
    let service = json!({
        "namespace": "open-cluster-management-hub", "name": "cluster-manager-addon-webhook", "path": "/convert", "port": 9443,
    });
    let client = json!({"service": service, "caBundle": STANDARD.encode(hub.ca_pem())});
    json!({"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1", "v1beta1"]}})
}

/// Returns OCM's CRDs by name.
fn definitions() -> BTreeMap<String, Value> {
    let folder = format!("{}.crds", built("tests/addon-framework/build").display());
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let read = |file| serde_saphyr::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    files.map(read).map(|one: Value| (one["metadata"]["name"].as_str().unwrap().to_owned(), one)).collect()
}

/// Installs the CRDs of the add-on kinds as OCM does: v1alpha1 is stored, both versions are served.
fn install_definitions(kubectl: &Kubectl, conversion: &Value) {
    let mut definitions = definitions();
    for kind in KINDS {
        let mut definition = definitions.remove(kind).unwrap();
        definition["spec"]["conversion"] = conversion.clone();
        kubectl.run_with(&["apply", "-f", "-"], &definition.to_string());
    }
    kubectl.finds(&KINDS.map(str::to_owned));
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

/// Starts an operator that converts versions, and waits until the API server serves the newer version. Services
/// are not routed here, so this one becomes an alias of this machine with the operator's port.
async fn converts(hub: &Cluster, kubectl: &Kubectl) {
    let service = ["service", "wheelwright-webhook", "-n", helm::NAMESPACE];
    kubectl.run(&[&["delete"][..], &service].concat());
    let external = ["create", "service", "externalname", "--external-name=127.0.0.1"];
    kubectl.run(&[&external[..], &service[1..]].concat());
    let port = free_port();
    let listen = format!("--webhook-listen=127.0.0.1:{port}");
    let kubeconfig = ["--kubeconfig", hub.kubeconfig.to_str().unwrap()];
    let args = [&["operator", "--controllers=clusterset", &listen][..], &kubeconfig].concat();
    let mut operator = Running::start("converting-operator", &hub.path(""), &args);
    let client = json!({"service": {"port": port}});
    let patch = json!({"spec": {"conversion": {"webhook": {"clientConfig": client}}}}).to_string();
    eventually("the newer version is served", async || {
        assert!(operator.is_running());
        kubectl.run(&["patch", "crd", KINDS[0], "--type=merge", "-p", &patch]);
        let read = ["get", NEW, "a", "-o", "jsonpath={.spec.defaultConfigs[0].name}"];
        kubectl.command(&read).output().unwrap().stdout == b"d"
    })
    .await;
}

/// Adds the places where our schema drops one of OCM's fields, accepts another type, or requires a field that
/// OCM's does not.
fn differences(path: &str, theirs: &Value, ours: &Value, found: &mut Vec<String>) {
    if theirs["type"] != ours["type"] {
        found.push(format!("{path} is {}, and {} here", theirs["type"], ours["type"]));
    }
    let wanted = theirs["required"].as_array().cloned().unwrap_or_default();
    let more = ours["required"].as_array().into_iter().flatten().filter(|field| !wanted.contains(field));
    found.extend(more.map(|field| format!("{path} wants {field} here")));
    for (name, field) in theirs["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        match ours["properties"].get(name) {
            Some(ours) => differences(&path, field, ours, found),
            None if ours["x-kubernetes-preserve-unknown-fields"] == true => {}
            None => found.push(format!("{path} is dropped here")),
        }
    }
    for nested in ["items", "additionalProperties"] {
        if theirs[nested].is_object() {
            differences(&format!("{path}[]"), &theirs[nested], &ours[nested], found);
        }
    }
}

#[test]
fn every_field_of_ocms_definitions_is_in_ours() {
    let ours: BTreeMap<String, Value> = api::crds::all()
        .iter()
        .map(|one| (one.metadata.name.clone().unwrap(), serde_json::to_value(one).unwrap()))
        .collect();
    let schema = |definition: &Value, version: &Value| {
        let versions = definition["spec"]["versions"].as_array().cloned().unwrap_or_default();
        let found = versions.into_iter().find(|one| one["name"] == *version);
        found.map(|one| one["schema"]["openAPIV3Schema"].clone()).unwrap_or_default()
    };
    let theirs = definitions();
    assert!(theirs.len() > 14, "{:?}", theirs.keys());
    let mut found = Vec::new();
    for (name, definition) in &theirs {
        for version in definition["spec"]["versions"].as_array().unwrap() {
            let version = &version["name"];
            let ours = schema(&ours[name], version);
            differences(&format!("{name} {version} "), &schema(definition, version), &ours, &mut found);
        }
    }
    assert_eq!(found, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_of_the_definitions_of_ocm_keeps_stored_objects_and_takes_their_conversion_over() {
    let hub = Cluster::start("install-ocm").await;
    let kubectl = hub.kubectl();
    let wanted = conversion(&hub);
    install_definitions(&kubectl, &wanted);
    kubectl.run(&["create", "namespace", "c1"]);
    // Includes fields that v1beta1 lacks.
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
    let left = "left unchanged: another component of Open Cluster Management owns it\n";
    let mut ours = wanted.clone();
    let service = &mut ours["webhook"]["clientConfig"]["service"];
    (service["namespace"], service["name"]) = (json!(helm::NAMESPACE), json!("wheelwright-webhook"));
    for (arguments, verb, conversion) in [
        (&["install", "--wait", "0"][..], left, &wanted),
        (&["upgrade", "--wait", "0", "--take-ownership", "--dry-run"], "configured (dry run)\n", &wanted),
        (&["install", "--wait", "0", "--take-ownership"], "configured\n", &ours),
        (&["upgrade", "--wait", "0"], "unchanged\n", &ours),
    ] {
        let printed = run(&hub, arguments);
        for kind in KINDS {
            assert!(printed.contains(&format!("{kind} {verb}")), "{arguments:?}: {printed}");
            let is_taken = printed.contains(&format!("{kind} now uses the operator's conversion webhook"));
            assert_eq!(is_taken, arguments.contains(&"--take-ownership"), "{arguments:?}: {printed}");
            let definition = definition(kind);
            assert_eq!(definition["spec"]["conversion"], *conversion, "{arguments:?}");
            assert_eq!(definition["status"]["storedVersions"], json!(["v1alpha1"]), "{arguments:?}");
            for version in definition["spec"]["versions"].as_array().unwrap() {
                let is_old = version["name"] == "v1alpha1";
                assert_eq!((&version["served"], &version["storage"]), (&json!(true), &json!(is_old)));
            }
        }
        assert_eq!(stored(&kubectl), before, "{arguments:?}");
    }

    // Nothing converts yet. Clients of the stored version can read and write.
    let edit = json!({"metadata": {"labels": {"during": "outage"}}}).to_string();
    for (resource, namespace) in OLD.iter().zip(["default", "c1"]) {
        kubectl.run(&["patch", resource, "a", "-n", namespace, "--type=merge", "-p", &edit]);
    }
    let refused = kubectl.fails(&["get", NEW, "a"]);
    assert!(refused.contains("conversion webhook"), "{refused}");
    assert_eq!(stored(&kubectl), before);
    converts(&hub, &kubectl).await;
    assert_eq!(stored(&kubectl), before);
}
