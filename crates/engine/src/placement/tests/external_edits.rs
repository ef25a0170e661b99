//! Tests for edits of published decisions by others, and for lost writes. All are corrected, and they never
//! remove a cluster.

use serde_json::{Value, json};

use super::super::IncrementalSchedule;
use super::harness::Hub;

fn hub(spec: Value, clusters: usize) -> Hub {
    let mut hub = Hub::new(spec);
    (0..clusters).for_each(|i| hub.cluster(&format!("c{i:03}"), &[("zone", ["a", "b", "c"][i % 3])]));
    hub.settle();
    hub
}

/// Returns a copy of a decision with other entries.
fn decision(hub: &Hub, name: &str, clusters: &[(&str, &str)]) -> Value {
    let mut decision = serde_json::to_value(&*hub.decisions[name]).unwrap();
    let entries: Vec<_> = clusters
        .iter()
        .map(|(cluster, reason)| json!({ "clusterName": cluster, "reason": reason }))
        .collect();
    decision["status"]["decisions"] = json!(entries);
    decision
}

#[test]
fn a_deleted_decision_is_recreated_with_its_clusters() {
    let zones =
        json!({ "spreadConstraints": [{ "topologyKey": "zone", "topologyKeyType": "Label", "maxSkew": 2 }] });
    for spec in [
        json!({}),
        json!({ "numberOfClusters": 150 }),
        json!({ "numberOfClusters": 150, "spreadPolicy": zones }),
    ] {
        let mut hub = hub(spec.clone(), 200);
        let before = hub.decided();
        hub.edit("p-decision-1", Value::Null);
        assert_eq!(hub.settle(), before, "{spec}");
    }
}

#[test]
fn a_decision_deleted_after_a_change_of_the_spec_is_recreated() {
    let mut hub = hub(json!({}), 2);
    hub.spec(json!({ "numberOfClusters": 2 }));
    assert!(hub.schedule().steps.is_empty(), "the spec selects the same clusters");
    hub.edit("p-decision-1", Value::Null);
    assert_eq!(hub.settle(), ["c000", "c001"]);
}

#[test]
fn a_decision_with_another_name_hands_its_clusters_over_and_is_deleted() {
    for name in ["stranger", "p-decision-0", "p-decision-01", "p-decision-4294967296"] {
        let mut hub =
            hub(json!({ "decisionStrategy": { "groupStrategy": { "clustersPerDecisionGroup": 2 } } }), 3);
        let mut stranger = decision(&hub, "p-decision-1", &[("c000", ""), ("c001", "")]);
        stranger["metadata"]["name"] = name.into();
        hub.edit(name, stranger);
        hub.edit("p-decision-1", Value::Null);
        hub.schedule();
        assert!(
            hub.seen.iter().all(|seen| seen.values().flatten().any(|cluster| cluster == "c000")),
            "{:?}",
            hub.seen
        );
        hub.settle();
        assert_eq!(hub.decided(), ["c000", "c001", "c002"], "{name}");
        assert_eq!(hub.decisions.keys().collect::<Vec<_>>(), ["p-decision-1", "p-decision-2"], "{name}");
    }
}

#[test]
fn an_index_label_that_is_lost_moves_no_cluster() {
    let mut hub = hub(json!({}), 250);
    let before = hub.shape();
    let mut decision = serde_json::to_value(&*hub.decisions["p-decision-2"]).unwrap();
    decision["metadata"]["labels"]["cluster.open-cluster-management.io/decision-group-index"] = json!("none");
    hub.edit("p-decision-2", decision);
    hub.settle();
    assert_eq!(hub.shape(), before);
}

#[test]
fn a_mark_of_leaving_in_the_future_holds_no_cluster_longer_than_usual() {
    let mut hub = hub(json!({ "numberOfClusters": 1 }), 2);
    let marked =
        decision(&hub, "p-decision-1", &[("c000", ""), ("c001", "leaving since 2999-01-01T00:00:00Z")]);
    hub.edit("p-decision-1", marked);
    hub.settle();
    hub.wait(10);
    assert_eq!(hub.settle(), ["c000"]);
}

#[test]
fn a_cluster_found_in_two_decisions_of_ours_is_not_more_used_for_that() {
    let spec = json!({ "numberOfClusters": 1, "decisionStrategy": { "groupStrategy": { "clustersPerDecisionGroup": 1 } } });
    let mut hub = hub(spec, 3);
    assert_eq!(hub.decided(), ["c000"]);
    let mut second = decision(&hub, "p-decision-1", &[("c000", "")]);
    second["metadata"]["name"] = "p-decision-2".into();
    hub.edit("p-decision-2", second);
    hub.schedule();
    assert_eq!(hub.decisions["p-decision-1"].status.as_ref().unwrap().decisions[0].reason, "");
    hub.settle();
    assert_eq!(hub.shape(), ["p-decision-1[0 ] c000"]);
}

#[test]
fn writes_interrupted_by_a_crash_are_finished_and_no_cluster_is_lost() {
    let groups =
        |size: u32| json!({ "decisionStrategy": { "groupStrategy": { "clustersPerDecisionGroup": size } } });
    for writes in 0..12 {
        let mut hub = hub(groups(120), 250);
        let all = hub.decided();
        hub.spec(groups(70));
        hub.crash_after = Some(writes);
        hub.schedule();
        assert_eq!(hub.decided(), all, "after {writes} writes");
        hub.incremental = IncrementalSchedule::default();
        assert_eq!(hub.settle(), all, "after {writes} writes");
        let sizes = hub.group_sizes();
        assert_eq!(sizes, [70, 70, 70, 40], "after {writes} writes");
    }
}
