//! Tests ten thousand clusters with an add-on, ten thousand simultaneous changes of decisions, and a cluster that
//! changes every second.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::memory_hub::MemoryHub;
use super::work::{advance_a_second, hub_with};
use crate::hub::addon_config::AddOnConfigController;
use crate::hub::addon_install::AddOnInstallController;
use crate::hub::placement::PlacementController;
use object::{Key, Object};
use reconcile::{Dispatcher, Register as _};

const CLUSTERS: usize = 10_000;
const CLUSTER: &str = "cluster.open-cluster-management.io";
const ADDON: &str = "addon.open-cluster-management.io";

fn hub() -> MemoryHub {
    let register = |dispatcher: &mut Dispatcher| {
        dispatcher.add::<PlacementController>();
        dispatcher.add::<AddOnInstallController>();
        dispatcher.add::<AddOnConfigController>();
    };
    hub_with(register, fleet())
}

/// Returns the number of waiting keys.
fn waiting(hub: &MemoryHub) -> usize {
    hub.dispatcher.controllers().map(|info| info.depth).sum()
}

fn name(i: usize) -> String {
    format!("cluster-{i:05}")
}

fn available(status: &str) -> Value {
    json!({"status": {"conditions": [{
        "type": "ManagedClusterConditionAvailable", "status": status, "reason": "ManagedClusterLeaseUpdated",
        "message": "", "lastTransitionTime": "2023-01-01T00:00:00Z",
    }]}})
}

fn placement(name: &str, labels: Value) -> Value {
    json!({
        "apiVersion": format!("{CLUSTER}/v1beta1"), "kind": "Placement",
        "metadata": {"namespace": "ns", "name": name, "resourceVersion": "1", "uid": name, "generation": 1},
        "spec": {"predicates": [{"requiredClusterSelector": {"labelSelector": {"matchLabels": labels}}}]},
    })
}

fn fleet() -> Vec<Value> {
    let cluster = |i: usize| {
        let mut cluster = json!({
            "apiVersion": format!("{CLUSTER}/v1"), "kind": "ManagedCluster",
            "metadata": {"name": name(i), "resourceVersion": "1", "uid": format!("c{i}"), "labels": {"flaps": (i == 0).to_string()}},
            "spec": {"hubAcceptsClient": true},
        });
        json_patch::merge(&mut cluster, &available("True"));
        cluster
    };
    let addon = |i: usize| {
        json!({
            "apiVersion": format!("{ADDON}/v1alpha1"), "kind": "ManagedClusterAddOn",
            "metadata": {
                "namespace": name(i), "name": "msa", "resourceVersion": "1", "uid": format!("a{i}"),
                "annotations": {"gitops.wheelwright.dev/installed-by-placement": "true"},
                "ownerReferences": [{
                    "apiVersion": format!("{ADDON}/v1alpha1"), "kind": "ClusterManagementAddOn", "name": "msa",
                    "uid": "cma", "controller": true, "blockOwnerDeletion": true,
                }, {
                    "apiVersion": format!("{CLUSTER}/v1"), "kind": "ManagedCluster", "name": name(i), "uid": format!("c{i}"),
                }],
            },
            "spec": {},
        })
    };
    let mut objects: Vec<_> = (0..CLUSTERS).flat_map(|i| [cluster(i), addon(i)]).collect();
    objects.extend([
        json!({
            "apiVersion": format!("{CLUSTER}/v1beta2"), "kind": "ManagedClusterSet",
            "metadata": {"name": "global", "resourceVersion": "1"},
            "spec": {"clusterSelector": {"selectorType": "LabelSelector", "labelSelector": {}}},
        }),
        json!({
            "apiVersion": format!("{CLUSTER}/v1beta2"), "kind": "ManagedClusterSetBinding",
            "metadata": {"namespace": "ns", "name": "global", "resourceVersion": "1"}, "spec": {"clusterSet": "global"},
        }),
        placement("all", json!({})),
        placement("flapping", json!({"flaps": "true"})),
        json!({
            "apiVersion": format!("{ADDON}/v1alpha1"), "kind": "ClusterManagementAddOn",
            "metadata": {"name": "msa", "uid": "cma", "resourceVersion": "1"},
            "spec": {"installStrategy": {"type": "Placements", "placements": [{"namespace": "ns", "name": "all"}]}},
        }),
    ]);
    objects
}

/// Returns a placement without clusters, and the controller and key that plan it.
fn another(name: &str) -> (Object, String) {
    let object = placement(name, json!({"flaps": "never"}));
    (Object::from_value(object).unwrap(), format!("placement ns/{name}"))
}

#[test]
fn ten_thousand_clusters_and_ten_thousand_changes_of_decisions_cost_one_plan_of_each_key() {
    let mut hub = hub();
    let first = advance_a_second(&mut hub);
    let slices = CLUSTERS / 100;
    assert_eq!(first.writes["PlacementDecision"], 2 * (slices + 1), "created, then filled: {first:?}");
    assert_eq!(first.writes["ManagedClusterAddOn"], CLUSTERS, "{first:?}");
    assert!(first.plans.values().all(|plans| *plans <= 3), "{first:?}");
    assert!(advance_a_second(&mut hub).plans.is_empty(), "the fleet rests");

    let all = |((kind, key), _): &(&(String, Key), &Object)| {
        kind == "PlacementDecision" && key.name.starts_with("all-")
    };
    let decisions: Vec<_> = hub.objects.iter().filter(all).map(|(_, decision)| decision.clone()).collect();
    assert_eq!(decisions.len(), slices);
    for round in 0..100 {
        for decision in &decisions {
            let mut decision = decision.clone();
            decision.metadata_mut().insert("annotations".into(), json!({"round": round.to_string()}));
            hub.put(decision);
        }
    }
    let keys = waiting(&hub);
    assert!((1..=3).contains(&keys), "the queue has keys, not changes: {keys}");
    let (other, planned) = another("other");
    hub.put(other);
    let flood = advance_a_second(&mut hub);
    // The new placement creates and fills a list of decisions.
    let writes = BTreeMap::from([("Placement".to_owned(), 1), ("PlacementDecision".to_owned(), 2)]);
    assert!(flood.plans.contains_key(&planned), "no key starves: {flood:?}");
    assert!(flood.plans.iter().all(|(key, plans)| *plans == 1 || *key == planned), "{flood:?}");
    assert_eq!(flood.writes, writes, "{flood:?}");

    for second in 0..10 {
        hub.patch("ManagedCluster", &Key::cluster(name(0)), &available(["Unknown", "True"][second % 2]));
        let (other, planned) = another(&format!("other-{second}"));
        hub.put(other);
        let work = advance_a_second(&mut hub);
        assert!(work.plans.values().all(|plans| *plans <= 2), "{second}: {work:?}");
        assert!(work.plans.contains_key(&planned), "{second}: {work:?}");
        assert_eq!(work.writes, writes, "{second}: {work:?}");
    }
}
