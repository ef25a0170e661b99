use super::*;
use serde_json::json;

fn object(value: Value) -> Manifest {
    serde_json::from_value(value).unwrap()
}

/// Checks both conversions: `old` converts to `new`, and `new` converts to `back`.
fn check(kind: &str, old: Value, new: Value, back: Value) {
    let with = |version: &str, mut body: Value| {
        body["apiVersion"] = format!("addon.open-cluster-management.io/{version}").into();
        body["kind"] = kind.into();
        object(body)
    };
    let (old, new, back) = (with("v1alpha1", old), with("v1beta1", new), with("v1alpha1", back));
    assert_eq!(convert(&old, "addon.open-cluster-management.io/v1beta1").unwrap(), new);
    assert_eq!(convert(&new, "addon.open-cluster-management.io/v1alpha1").unwrap(), back);
}

#[test]
fn a_kind_without_a_default_has_a_reserved_name() {
    let group = "addon.open-cluster-management.io";
    let old = json!({"metadata": {"name": "a"}, "spec": {
        "supportedConfigs": [
            {"group": group, "resource": "addontemplates", "defaultConfig": {"name": "a-1"}},
            {"group": group, "resource": "addondeploymentconfigs", "defaultConfig": {"namespace": "n", "name": "c"}},
            {"group": "", "resource": "configmaps"},
        ],
        "installStrategy": {"type": "Manual"},
    }});
    let new = json!({"metadata": {"name": "a"}, "spec": {
        "defaultConfigs": [
            {"group": group, "resource": "addontemplates", "name": "a-1"},
            {"group": group, "resource": "addondeploymentconfigs", "namespace": "n", "name": "c"},
            {"group": "", "resource": "configmaps", "name": "__reserved_no_default__"},
        ],
        "installStrategy": {"type": "Manual"},
    }});
    check("ClusterManagementAddOn", old.clone(), new, old);
}

#[test]
fn default_config_references_are_spelled_two_ways() {
    let references =
        json!([{"group": "g", "resource": "r", "desiredConfig": {"name": "c", "specHash": "h"}}]);
    let spec = json!({"installStrategy": {"type": "Manual"}});
    let old = json!({"metadata": {}, "spec": spec, "status": {"defaultconfigReferences": references}});
    let new = json!({"metadata": {}, "spec": spec, "status": {"defaultConfigReferences": references}});
    check("ClusterManagementAddOn", old.clone(), new, old);
}

#[test]
fn an_old_configuration_is_dropped() {
    let spec = json!({"installStrategy": {"type": "Manual"}});
    let mut old = json!({"metadata": {}, "spec": spec});
    old["spec"]["addOnConfiguration"] = json!({"crdName": "x"});
    let new = json!({"metadata": {}, "spec": spec});
    check("ClusterManagementAddOn", old, new.clone(), new);
}

#[test]
fn the_install_namespace_is_an_annotation() {
    let old = json!({"metadata": {"annotations": {"a": "b"}}, "spec": {"installNamespace": "ns"}});
    let annotations = json!({"a": "b", "addon.open-cluster-management.io/v1alpha1-install-namespace": "ns"});
    let new = json!({"metadata": {"annotations": annotations}, "spec": {}});
    check("ManagedClusterAddOn", old.clone(), new, old);
}

#[test]
fn registrations_say_what_they_are_for() {
    let old = json!({"metadata": {}, "spec": {"installNamespace": "ns"}, "status": {
        "kubeClientDriver": "token",
        "registrations": [
            {"signerName": "kubernetes.io/kube-apiserver-client", "subject": {"user": "u", "groups": ["g"], "organizationUnit": ["lost"]}},
            {"signerName": "example.com/signer", "subject": {"user": "v", "organizationUnit": ["o"]}},
        ],
    }});
    let annotations = json!({"addon.open-cluster-management.io/v1alpha1-install-namespace": "ns"});
    let new = json!({"metadata": {"annotations": annotations}, "spec": {}, "status": {
        "registrations": [
            {"type": "kubeClient", "kubeClient": {"subject": {"user": "u", "groups": ["g"]}, "driver": "token"}},
            {"type": "customSigner", "customSigner": {"signerName": "example.com/signer", "subject": {"user": "v", "organizationUnits": ["o"]}}},
        ],
    }});
    let mut back = old.clone();
    back["status"]["registrations"][0]["subject"].as_object_mut().unwrap().remove("organizationUnit");
    check("ManagedClusterAddOn", old, new, back);
}

#[test]
fn flat_names_of_configurations_come_from_the_desired_ones() {
    let reference = json!({"group": "g", "resource": "r", "lastObservedGeneration": 3, "desiredConfig": {"namespace": "n", "name": "c", "specHash": "h"}});
    let mut flat = reference.clone();
    flat["namespace"] = "n".into();
    flat["name"] = "c".into();
    let annotations = json!({"addon.open-cluster-management.io/v1alpha1-install-namespace": "ns"});
    let old =
        json!({"metadata": {}, "spec": {"installNamespace": "ns"}, "status": {"configReferences": [flat]}});
    let new = json!({"metadata": {"annotations": annotations}, "spec": {}, "status": {"configReferences": [reference]}});
    check("ManagedClusterAddOn", old.clone(), new, old);
}

#[test]
fn an_object_without_a_conversion_is_an_error() {
    let refused = |kind: &str, from: &str, to: &str| {
        convert(&object(json!({"apiVersion": from, "kind": kind})), to).unwrap_err().to_string()
    };
    let (old, new) = ("addon.open-cluster-management.io/v1alpha1", "addon.open-cluster-management.io/v2");
    assert_eq!(
        refused("ManagedClusterAddOn", old, new),
        format!("there is no conversion of ManagedClusterAddOn from {old} to {new}")
    );
    assert_eq!(
        refused("Placement", "cluster.open-cluster-management.io/v1beta1", new)
            .split(" of ")
            .last()
            .unwrap()
            .split(' ')
            .next(),
        Some("Placement")
    );
    let wrong = object(json!({"apiVersion": old, "kind": "ManagedClusterAddOn", "spec": 1}));
    assert!(matches!(
        convert(&wrong, "addon.open-cluster-management.io/v1beta1"),
        Err(Unconvertible::Malformed { .. })
    ));
}
