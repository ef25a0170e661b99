//! Tests a ManifestWorkReplicaSet on a large fleet.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::MOST_WORKS;
use crate::hub::replica_set::ReplicaSetController;
use crate::hub::tests::work::hub_with;
use reconcile::{Action, Command, Register as _};

const CLUSTER: &str = "cluster.open-cluster-management.io";
const CLUSTERS: usize = 2 * MOST_WORKS + 500;

fn name(i: usize) -> String {
    format!("cluster-{i:05}")
}

/// Returns a set with a placement that selects the whole fleet.
fn objects() -> Vec<Value> {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
    let set = json!({
        "apiVersion": "work.open-cluster-management.io/v1alpha1", "kind": "ManifestWorkReplicaSet",
        "metadata": {
            "namespace": "ns", "name": "s", "uid": "s", "resourceVersion": "1",
            "finalizers": [api::names::WORK_REPLICA_SET_FINALIZER],
        },
        "spec": {
            "placementRefs": [{"name": "p", "rolloutStrategy": {"type": "All"}}],
            "manifestWorkTemplate": {"workload": {"manifests": [map]}},
        },
    });
    let placement = json!({
        "apiVersion": format!("{CLUSTER}/v1beta1"), "kind": "Placement",
        "metadata": {"namespace": "ns", "name": "p", "resourceVersion": "1"}, "spec": {},
        "status": {"numberOfSelectedClusters": CLUSTERS, "conditions": [{
            "type": "PlacementSatisfied", "status": "True", "reason": "R", "message": "",
            "lastTransitionTime": "2023-01-01T00:00:00Z",
        }]},
    });
    let page = |page: usize| {
        let clusters = (page * 100)..((page + 1) * 100).min(CLUSTERS);
        let decisions: Vec<Value> = clusters.map(|i| json!({"clusterName": name(i), "reason": ""})).collect();
        json!({
            "apiVersion": format!("{CLUSTER}/v1beta1"), "kind": "PlacementDecision",
            "metadata": {
                "namespace": "ns", "name": format!("p-{page}"), "resourceVersion": "1",
                "labels": {
                    (format!("{CLUSTER}/placement")): "p",
                    (format!("{CLUSTER}/decision-group-index")): "0",
                    (format!("{CLUSTER}/decision-group-name")): "",
                },
            },
            "status": {"decisions": decisions},
        })
    };
    let cluster = |i: usize| {
        json!({
            "apiVersion": format!("{CLUSTER}/v1"), "kind": "ManagedCluster",
            "metadata": {"name": name(i), "uid": name(i), "resourceVersion": "1"},
            "spec": {"hubAcceptsClient": true},
        })
    };
    let pages = (0..CLUSTERS.div_ceil(100)).map(page);
    [set, placement].into_iter().chain(pages).chain((0..CLUSTERS).map(cluster)).collect()
}

#[test]
fn a_plan_writes_a_limited_number_of_works_and_the_next_ones_write_the_rest() {
    let mut hub = hub_with(|dispatcher| dispatcher.add::<ReplicaSetController>(), objects());
    let mut writes: BTreeMap<u64, usize> = BTreeMap::new();
    for _ in 0..600 {
        hub.now += SignedDuration::from_millis(100);
        for command in hub.dispatcher.due(hub.now) {
            if let Command::Act(act) = &command
                && let Action::Create { object, .. } = act.action()
                && object.gvk().kind == "ManifestWork"
            {
                *writes.entry(act.reconcile_id).or_default() += 1;
            }
            hub.execute(command);
        }
    }
    let writes: Vec<usize> = writes.into_values().collect();
    assert_eq!(writes, [MOST_WORKS, MOST_WORKS, 500], "each work is written once");
}
