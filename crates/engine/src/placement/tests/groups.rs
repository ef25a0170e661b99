//! Tests for decision groups and slices over several schedules.

use serde_json::json;

use super::harness::{Hub, hub};

#[test]
fn groups_are_stable_under_churn() {
    let strategy = json!({ "groupStrategy": { "clustersPerDecisionGroup": 2, "decisionGroups": [
        { "groupName": "canary", "groupClusterSelector": { "labelSelector": { "matchLabels": { "canary": "true" } } } },
    ] } });
    let mut hub = hub(json!({ "decisionStrategy": strategy }), &["b", "c", "d", "e"]);
    hub.cluster("x", &[("canary", "true")]);
    hub.settle();
    assert_eq!(hub.shape(), ["p-decision-1[0 canary] x", "p-decision-2[1 ] b,c", "p-decision-3[2 ] d,e"]);
    hub.cluster("a", &[]);
    hub.settle();
    assert_eq!(hub.shape()[1..], ["p-decision-2[1 ] b,c", "p-decision-3[2 ] d,e", "p-decision-4[3 ] a"]);
    hub.fleet.remove_cluster("x");
    hub.fleet.remove_cluster("c");
    hub.settle();
    assert_eq!(hub.shape(), ["p-decision-1[0 canary] ", "p-decision-2[1 ] a,b", "p-decision-3[2 ] d,e"]);
    hub.cluster("y", &[("canary", "true")]);
    hub.settle();
    assert_eq!(hub.shape()[0], "p-decision-1[0 canary] y");
}

#[test]
fn no_cluster_vanishes_when_it_moves_between_slices() {
    let mut hub = hub(json!({}), &[]);
    (0..250).for_each(|i| hub.cluster(&format!("c{i:03}"), &[]));
    hub.settle();
    let group = json!({ "groupName": "canary", "groupClusterSelector": { "labelSelector": { "matchLabels": { "canary": "true" } } } });
    (0..250).step_by(3).for_each(|i| hub.cluster(&format!("c{i:03}"), &[("canary", "true")]));
    hub.spec(json!({ "decisionStrategy": { "groupStrategy": { "decisionGroups": [group] } } }));
    let all = hub.decided();
    for _ in 0..5 {
        hub.schedule();
        for seen in &hub.seen {
            let union: std::collections::BTreeSet<_> = seen.values().flatten().collect();
            assert_eq!(union.len(), all.len());
            assert!(seen.values().all(|members| members.len() <= 100));
        }
    }
    assert!(hub.schedule().steps.is_empty());
}

#[test]
fn groups_of_one_name_are_one_group_and_come_to_rest() {
    let group = |name: &str, label: &str| json!({ "groupName": name, "groupClusterSelector": { "labelSelector": { "matchLabels": { "l": label } } } });
    let groups = json!({ "decisionGroups": [group("twin", "1"), group("other", "2"), group("twin", "3")] });
    let mut hub = Hub::new(json!({ "decisionStrategy": { "groupStrategy": groups } }));
    for (name, label) in [("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")] {
        hub.cluster(name, &[("l", label)]);
    }
    hub.settle();
    assert_eq!(hub.shape(), ["p-decision-1[0 twin] a,c", "p-decision-2[1 other] b", "p-decision-3[2 ] d"]);
}

#[test]
fn clusters_that_wait_for_a_place_do_not_resize_the_groups() {
    let spec = json!({ "numberOfClusters": 10, "decisionStrategy": { "groupStrategy": { "clustersPerDecisionGroup": "34%" } } });
    let mut hub = Hub::new(spec);
    (0..20).for_each(|i| hub.cluster(&format!("c{i:02}"), &[]));
    hub.settle();
    let members = |hub: &Hub, slice: usize| hub.shape()[slice].clone();
    let before = members(&hub, 0);
    for i in [5, 6, 9] {
        hub.put(json!({ "metadata": { "name": format!("c{i:02}") }, "spec": { "taints": [{ "key": "k", "effect": "NoSelect" }] } }));
    }
    for _ in 0..4 {
        hub.settle();
        let sizes = hub.group_sizes();
        assert_eq!((sizes, members(&hub, 0)), (vec![4, 4, 2], before.clone()));
        hub.wait(4);
    }
}

#[test]
fn the_group_of_the_other_clusters_ends_with_the_last_of_them() {
    let selector = json!({ "labelSelector": { "matchLabels": { "l": "1" } } });
    let groups = json!({ "decisionGroups": [{ "groupName": "early", "groupClusterSelector": selector }] });
    let mut hub = Hub::new(json!({ "decisionStrategy": { "groupStrategy": groups } }));
    hub.cluster("a", &[("l", "1")]);
    hub.cluster("b", &[]);
    hub.settle();
    assert_eq!(hub.shape(), ["p-decision-1[0 early] a", "p-decision-2[1 ] b"]);
    hub.fleet.remove_cluster("b");
    hub.settle();
    assert_eq!(hub.shape(), ["p-decision-1[0 early] a"]);
}

#[test]
fn the_only_cluster_moves_when_its_group_changes() {
    let selector = json!({ "labelSelector": { "matchLabels": { "l": "1" } } });
    let groups = json!({ "decisionGroups": [{ "groupName": "early", "groupClusterSelector": selector }] });
    let mut hub = Hub::new(json!({ "decisionStrategy": { "groupStrategy": groups } }));
    hub.cluster("a", &[("l", "1")]);
    hub.settle();
    hub.cluster("a", &[]);
    hub.settle();
    assert_eq!(hub.shape(), ["p-decision-1[0 early] ", "p-decision-2[1 ] a"]);
}

#[test]
fn a_hard_spread_constraint_leaves_clusters_out_and_a_soft_one_does_not() {
    for (action, expected) in [("DoNotSchedule", 3), ("ScheduleAnyway", 4)] {
        let constraint = json!({ "topologyKey": "zone", "topologyKeyType": "Label", "maxSkew": 1, "whenUnsatisfiable": action });
        let spread = json!({ "spreadConstraints": [constraint] });
        let mut hub = Hub::new(json!({ "numberOfClusters": 4, "spreadPolicy": spread }));
        for (name, zone) in [("a", "x"), ("b", "x"), ("c", "x"), ("d", "y")] {
            hub.cluster(name, &[("zone", zone)]);
        }
        assert_eq!(hub.settle().len(), expected, "{action}");
    }
}
