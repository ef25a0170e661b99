//! Tests that a change wakes only the keys that it affects.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::memory_hub::MemoryHub;
use super::work::{advance_a_second, hub_with};
use crate::hub::addon_config::AddOnConfigController;
use crate::hub::addon_deploy::AddOnDeployController;
use crate::hub::addon_health::AddOnHealthController;
use crate::hub::addon_token::AddOnTokenController;
use crate::hub::cluster_decision::ClusterDecisionController;
use crate::hub::managed_namespaces::ManagedNamespacesController;
use crate::hub::work_ttl::WorkTtlController;
use object::{Key, Object};
use reconcile::{Dispatcher, Register as _};

const CLUSTER: &str = "cluster.open-cluster-management.io";
const ADDON: &str = "addon.open-cluster-management.io";

/// Returns a settled hub.
fn hub(register: impl FnOnce(&mut Dispatcher), objects: Vec<Value>) -> MemoryHub {
    let mut hub = hub_with(register, objects);
    while !advance_a_second(&mut hub).plans.is_empty() {}
    hub
}

/// Returns the controllers and keys that are planned after a change.
fn woken(hub: &mut MemoryHub) -> BTreeSet<String> {
    advance_a_second(hub).plans.into_keys().collect()
}

fn put(hub: &mut MemoryHub, object: Value) {
    hub.put(Object::from_value(object).unwrap());
}

fn cluster(name: &str, labels: Value) -> Value {
    json!({
        "apiVersion": format!("{CLUSTER}/v1"), "kind": "ManagedCluster",
        "metadata": {"name": name, "uid": name, "labels": labels}, "spec": {"hubAcceptsClient": true},
    })
}

fn keys(keys: &[&str]) -> BTreeSet<String> {
    keys.iter().map(|key| (*key).to_owned()).collect()
}

#[test]
fn a_change_of_a_policy_wakes_the_add_ons_that_it_is_or_was_for() {
    let mut objects = vec![cluster("c1", json!({})), cluster("c2", json!({}))];
    for name in ["a", "b", "c"] {
        objects.push(json!({
            "apiVersion": format!("{ADDON}/v1alpha1"), "kind": "ClusterManagementAddOn",
            "metadata": {"name": name, "uid": name}, "spec": {},
        }));
        objects.extend(["c1", "c2"].map(|cluster| {
            json!({
                "apiVersion": format!("{ADDON}/v1alpha1"), "kind": "ManagedClusterAddOn",
                "metadata": {"namespace": cluster, "name": name, "uid": cluster}, "spec": {},
            })
        }));
    }
    let register = |dispatcher: &mut Dispatcher| {
        dispatcher.add::<AddOnDeployController>();
        dispatcher.add::<AddOnConfigController>();
    };
    let mut hub = hub(register, objects);
    let of = |name: &str| {
        [format!("addon-config {name}"), format!("addon-deploy c1/{name}"), format!("addon-deploy c2/{name}")]
    };
    let (a, b): (BTreeSet<String>, BTreeSet<String>) = (of("a").into(), of("b").into());
    let all: BTreeSet<String> = ["a", "b", "c"].into_iter().flat_map(of).collect();
    put(
        &mut hub,
        json!({
            "apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "RolloutPolicy",
            "metadata": {"name": "p", "uid": "p"}, "spec": {"addOns": ["a"]},
        }),
    );
    assert_eq!(woken(&mut hub), a, "a new policy");
    for (change, concerned) in [
        (json!({"success": "Applied"}), &a),
        (json!({"addOns": ["b"]}), &(&a | &b)),
        (json!({"addOns": []}), &all),
        (json!({"success": "Available"}), &all),
        (json!({"replicaSets": ["ns/s"]}), &all),
        (json!({"success": "Applied"}), &BTreeSet::new()),
    ] {
        hub.patch("RolloutPolicy", &Key::cluster("p"), &json!({"spec": change}));
        assert_eq!(woken(&mut hub), *concerned, "{change}");
    }
    hub.patch("RolloutPolicy", &Key::cluster("p"), &json!({"spec": {"addOns": ["b"]}}));
    assert_eq!(woken(&mut hub), b);
    hub.delete("RolloutPolicy", &Key::cluster("p"));
    assert_eq!(woken(&mut hub), b, "the policy is gone");
}

#[test]
fn a_change_of_a_set_wakes_the_clusters_on_which_it_wants_or_wanted_namespaces() {
    let in_set = |name: &str, set: &str| cluster(name, json!({(format!("{CLUSTER}/clusterset")): set}));
    let objects = vec![
        in_set("c1", "team"),
        in_set("c2", "team"),
        in_set("c3", "other"),
        cluster("c4", json!({"zone": "north"})),
        json!({
            "apiVersion": format!("{CLUSTER}/v1beta2"), "kind": "ManagedClusterSet",
            "metadata": {"name": "team", "uid": "team"}, "spec": {},
        }),
    ];
    let mut hub = hub(Dispatcher::add::<ManagedNamespacesController>, objects);
    let north = json!({"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"zone": "north"}}});
    for (change, concerned) in [
        (json!({"managedNamespaces": [{"name": "a"}]}), keys(&["c1", "c2"])),
        (json!({"clusterSelector": north}), keys(&["c1", "c2", "c4"])),
        (json!({"managedNamespaces": []}), keys(&["c4"])),
        (json!({"clusterSelector": {"selectorType": "ExclusiveClusterSetLabel"}}), keys(&[])),
    ] {
        hub.patch("ManagedClusterSet", &Key::cluster("team"), &json!({"spec": change}));
        let concerned = concerned.iter().map(|name| format!("managed-namespaces {name}")).collect();
        assert_eq!(woken(&mut hub), concerned, "{change}");
    }
    hub.patch(
        "ManagedClusterSet",
        &Key::cluster("team"),
        &json!({"spec": {"managedNamespaces": [{"name": "a"}]}}),
    );
    assert_eq!(woken(&mut hub).len(), 2);
    hub.delete("ManagedClusterSet", &Key::cluster("team"));
    assert_eq!(woken(&mut hub).len(), 2);
}

#[test]
fn a_change_of_a_cluster_wakes_the_placements_whose_list_names_the_label_or_claim() {
    let placement = |name: &str, wanted: &str| {
        json!({
            "apiVersion": format!("{CLUSTER}/v1beta1"), "kind": "Placement",
            "metadata": {
                "namespace": "default", "name": name, "uid": name,
                "annotations": {"gitops.wheelwright.dev/cluster-decision": wanted},
            },
            "spec": {},
        })
    };
    let objects = vec![
        cluster("c1", json!({"region": "eu", "feature": "x"})),
        placement("regions", "zone, region"),
        placement("names", ""),
    ];
    let mut hub = hub(Dispatcher::add::<ClusterDecisionController>, objects);
    for (change, concerned) in [
        (json!({"metadata": {"labels": {"feature": "y"}}}), &[][..]),
        (json!({"metadata": {"labels": {"region": "us"}}}), &["regions"]),
        (json!({"status": {"clusterClaims": [{"name": "other", "value": "a"}]}}), &[]),
        (json!({"status": {"clusterClaims": [{"name": "zone", "value": "a"}]}}), &["regions"]),
        (json!({"spec": {"leaseDurationSeconds": 30}}), &[]),
    ] {
        hub.patch("ManagedCluster", &Key::cluster("c1"), &change);
        let concerned = concerned.iter().map(|name| format!("cluster-decision default/{name}")).collect();
        assert_eq!(woken(&mut hub), concerned, "{change}");
    }
    hub.delete("ManagedCluster", &Key::cluster("c1"));
    assert_eq!(woken(&mut hub).len(), 2);
}

#[test]
fn a_change_of_what_a_controller_does_not_read_plans_nothing() {
    let register = |dispatcher: &mut Dispatcher| {
        dispatcher.add::<AddOnHealthController>();
        dispatcher.add::<AddOnTokenController>();
        dispatcher.add::<WorkTtlController>();
    };
    let objects = vec![
        cluster("c1", json!({})),
        json!({
            "apiVersion": format!("{ADDON}/v1alpha1"), "kind": "ManagedClusterAddOn",
            "metadata": {"namespace": "c1", "name": "a", "uid": "a"}, "spec": {},
        }),
        json!({
            "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
            "metadata": {"namespace": "c1", "name": "w", "uid": "w"},
            "spec": {"deleteOption": {"ttlSecondsAfterFinished": 60}},
        }),
    ];
    let mut hub = hub(register, objects);
    let condition = |type_: &str| {
        let condition = json!({
            "type": type_, "status": "True", "reason": "R", "message": "",
            "lastTransitionTime": "2023-01-01T00:00:00Z",
        });
        json!({"status": {"conditions": [condition]}})
    };
    for (kind, name, type_, concerned) in [
        ("ManagedClusterAddOn", "a", "Progressing", &[][..]),
        ("ManifestWork", "w", "Applied", &[]),
        ("ManagedClusterAddOn", "a", "Available", &["addon-health c1/a"]),
        ("ManifestWork", "w", "Complete", &["work-ttl c1/w"]),
    ] {
        hub.patch(kind, &Key::namespaced("c1", name), &condition(type_));
        assert_eq!(woken(&mut hub), keys(concerned), "{type_}");
    }
}
