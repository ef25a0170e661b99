//! Tests for conditions, misconfigurations, and the times at which clusters come and leave.

use serde_json::json;

use super::harness::{hub, selector};

#[test]
fn every_cluster_of_the_sets_is_selected_by_an_empty_spec() {
    let mut hub = hub(json!({}), &["b", "a"]);
    assert_eq!(hub.settle(), ["a", "b"]);
    assert_eq!(hub.shape(), ["p-decision-1[0 ] a,b"]);
    assert_eq!(
        hub.condition("PlacementSatisfied"),
        "True AllDecisionsScheduled: All cluster decisions scheduled"
    );
    assert_eq!(
        hub.condition("PlacementMisconfigured"),
        "False Succeedconfigured: Placement configurations check pass"
    );
    let status = hub.placement.status.as_ref().unwrap();
    assert_eq!(
        (status.number_of_selected_clusters, status.decision_groups[0].decisions.clone()),
        (2, vec!["p-decision-1".to_owned()])
    );
}

#[test]
fn there_is_always_one_decision() {
    let mut hub = hub(json!({}), &[]);
    assert_eq!(hub.settle(), [""; 0]);
    assert_eq!(hub.shape(), ["p-decision-1[0 ] "]);
    assert_eq!(hub.decisions["p-decision-1"].status.as_ref().unwrap().decisions.len(), 0);
    assert_eq!(
        hub.condition("PlacementSatisfied"),
        "False AllManagedClusterSetsEmpty: All ManagedClusterSets [global] have no member ManagedCluster"
    );
}

#[test]
fn the_status_lists_decisions_by_their_numbers_and_comes_to_rest() {
    let mut hub = hub(json!({}), &[]);
    for i in 0..1050 {
        hub.cluster(&format!("c{i:04}"), &[]);
    }
    hub.settle();
    let status = hub.placement.status.clone().unwrap();
    let names: Vec<String> = (1..=11).map(|number| format!("p-decision-{number}")).collect();
    assert_eq!(status.decision_groups[0].decisions, names);
    hub.cluster("c0007", &[("a", "b")]);
    assert!(hub.schedule().steps.is_empty());
    assert_eq!(hub.placement.status, Some(status), "a change that matters to nobody writes nothing");
}

#[test]
fn the_condition_says_which_stage_left_nothing() {
    let mut hub = hub(json!({ "clusterSets": ["a", "b"] }), &["c"]);
    hub.settle();
    assert_eq!(
        hub.condition("PlacementSatisfied"),
        "False NoIntersection: None of ManagedClusterSets [a,b] is bound to placement namespace"
    );
    hub.spec(json!({ "predicates": selector("env", "prod") }));
    hub.settle();
    assert_eq!(
        hub.condition("PlacementSatisfied"),
        "False NoManagedClusterMatched: No ManagedCluster matches any of the cluster predicate"
    );
    let mut tainted = super::harness::hub(json!({}), &[]);
    tainted.put(json!({ "metadata": { "name": "c" }, "spec": { "taints": [{ "key": "gpu", "effect": "NoSelect" }] } }));
    tainted.settle();
    assert_eq!(
        tainted.condition("PlacementSatisfied"),
        "False NoManagedClusterMatched: No ManagedCluster matches any of the cluster predicate and tolerates its taints; \
         1 match, with taints that are not tolerated"
    );
    hub.spec(json!({ "numberOfClusters": 3 }));
    hub.settle();
    assert_eq!(
        hub.condition("PlacementSatisfied"),
        "False NotAllDecisionsScheduled: 2 cluster decisions unscheduled"
    );
    hub.sets.clear();
    hub.settle();
    assert_eq!(
        hub.condition("PlacementSatisfied"),
        "False NoManagedClusterSetBindings: No valid ManagedClusterSetBindings found in placement namespace"
    );
}

#[test]
fn a_misconfiguration_keeps_the_last_good_decisions_and_says_so() {
    let mut hub = hub(json!({}), &["a", "b"]);
    hub.settle();
    for spec in [
        json!({ "numberOfClusters": -1 }),
        json!({ "predicates": [{ "requiredClusterSelector": { "celSelector": { "celExpressions": ["managedCluster."] } } }] }),
        json!({ "decisionStrategy": { "groupStrategy": { "clustersPerDecisionGroup": "5" } } }),
        json!({ "tolerations": [{ "value": "v" }] }),
        json!({ "prioritizerPolicy": { "mode": "Precise" } }),
    ] {
        hub.spec(spec.clone());
        hub.wait(3600);
        assert_eq!(hub.settle(), ["a", "b"], "{spec}");
        let message = hub.condition("PlacementMisconfigured");
        assert!(
            message.starts_with("True Misconfigured: ") && message.ends_with("; the decisions are kept"),
            "{message}"
        );
    }
    hub.spec(json!({ "numberOfClusters": 1 }));
    hub.settle();
    hub.wait(10);
    assert_eq!(hub.settle(), ["a"]);
    assert_eq!(
        hub.condition("PlacementMisconfigured"),
        "False Succeedconfigured: Placement configurations check pass"
    );
}

#[test]
fn a_misconfiguration_is_reported_even_if_no_cluster_reaches_it() {
    let mut hub = hub(json!({ "tolerations": [{ "value": "v" }] }), &[]);
    hub.sets.clear();
    hub.schedule();
    assert!(
        hub.condition("PlacementMisconfigured")
            .starts_with("True Misconfigured: TaintToleration:If the key is empty")
    );
}

/// As in OCM, every placement has a decision that clients can find.
#[test]
fn a_placement_that_was_never_valid_has_an_empty_decision() {
    let mut hub = hub(json!({ "tolerations": [{ "value": "v" }] }), &["a"]);
    assert!(hub.settle().is_empty());
    assert_eq!(hub.decisions.keys().collect::<Vec<_>>(), ["p-decision-1"]);
}

#[test]
fn additions_come_at_once_and_removals_when_settled() {
    let mut hub = hub(json!({ "predicates": selector("env", "prod") }), &[]);
    hub.cluster("a", &[("env", "prod")]);
    hub.settle();
    hub.cluster("a", &[]);
    hub.cluster("b", &[("env", "prod")]);
    assert_eq!(hub.settle(), ["a", "b"]);
    let reason = &hub.decisions["p-decision-1"].status.as_ref().unwrap().decisions[0].reason;
    assert_eq!(reason, "leaving since 2023-11-14T22:13:20Z");
    hub.wait(5);
    hub.cluster("a", &[("env", "prod")]);
    assert_eq!(hub.settle(), ["a", "b"]);
    hub.cluster("a", &[]);
    hub.settle();
    hub.wait(9);
    assert_eq!(hub.settle(), ["a", "b"]);
    assert_eq!(hub.schedule().wake_at, Some(hub.now + jiff::SignedDuration::from_secs(1)));
    hub.wait(1);
    assert_eq!(hub.settle(), ["b"]);
}

#[test]
fn a_cluster_that_is_deleted_leaves_at_once() {
    let mut hub = hub(json!({}), &["a", "b", "c"]);
    hub.settle();
    hub.put(json!({ "metadata": { "name": "a", "deletionTimestamp": "2023-11-14T22:13:20Z" } }));
    hub.fleet.remove_cluster("b");
    assert_eq!(hub.settle(), ["c"]);
}

#[test]
fn a_toleration_that_expires_moves_the_decision_at_that_time() {
    let tolerations = json!([{ "key": "unreachable", "operator": "Exists", "tolerationSeconds": 10 }]);
    let mut hub = hub(json!({ "numberOfClusters": 1, "tolerations": tolerations }), &["a", "b"]);
    assert_eq!(hub.settle(), ["a"]);
    let taint = json!({ "key": "unreachable", "effect": "NoSelect", "timeAdded": hub.now.to_string() });
    hub.put(json!({ "metadata": { "name": "a" }, "spec": { "taints": [taint] } }));
    assert_eq!(hub.settle(), ["a"]);
    assert_eq!(hub.schedule().wake_at, Some(hub.now + jiff::SignedDuration::from_secs(10)));
    hub.wait(10);
    assert_eq!(hub.settle(), ["b"]);
    hub.cluster("a", &[]);
    assert_eq!(hub.settle(), ["b"], "recovery does not flap back");
}

#[test]
fn a_replacement_never_exceeds_the_wanted_number_of_decisions() {
    let mut hub = hub(json!({ "numberOfClusters": 2 }), &["a", "b", "c", "d"]);
    hub.settle();
    for name in ["a", "b"] {
        hub.put(json!({ "metadata": { "name": name }, "spec": { "taints": [{ "key": "maintenance", "effect": "NoSelect" }] } }));
    }
    assert_eq!(hub.settle(), ["a", "b"]);
    hub.wait(10);
    hub.schedule();
    assert!(hub.seen.iter().all(|seen| seen.values().flatten().count() == 2), "{:?}", hub.seen);
    assert_eq!(hub.settle(), ["c", "d"]);
}

#[test]
fn a_set_that_cannot_be_read_freezes_removals_but_not_additions() {
    let mut hub = hub(json!({}), &["a"]);
    hub.settle();
    let broken = json!({ "metadata": { "name": "broken" }, "spec": { "clusterSelector": {
        "selectorType": "LabelSelector", "labelSelector": { "matchExpressions": [{ "key": "k", "operator": "Like" }] },
    } } });
    let own = json!({ "metadata": { "name": "own" }, "spec": {} });
    hub.sets = [broken, own]
        .into_iter()
        .map(|set| std::sync::Arc::new(serde_json::from_value(set).unwrap()))
        .collect();
    hub.cluster("b", &[("cluster.open-cluster-management.io/clusterset", "own")]);
    hub.settle();
    hub.wait(60);
    assert_eq!(hub.settle(), ["a", "b"]);
    assert!(
        hub.condition("PlacementSatisfied")
            .starts_with("False NotAllDecisionsScheduled: ManagedClusterSet broken: ")
    );
}

#[test]
fn expressions_that_cost_too_much_keep_the_decisions_until_they_cost_less() {
    let ten = "[0,1,2,3,4,5,6,7,8,9]";
    let slow = format!("{ten}.all(a, {ten}.all(b, {ten}.all(c, true)))");
    let selector = json!({ "labelSelector": { "matchLabels": { "slow": "yes" } }, "celSelector": { "celExpressions": [slow] } });
    let mut hub = hub(
        json!({ "predicates": [{ "requiredClusterSelector": selector }, { "requiredClusterSelector": {} }] }),
        &[],
    );
    (0..4).for_each(|i| hub.cluster(&format!("c{i}"), &[("slow", "yes")]));
    hub.settle();
    assert_eq!(
        hub.condition("PlacementMisconfigured"),
        "False Succeedconfigured: Placement configurations check pass"
    );
    (4..30).for_each(|i| hub.cluster(&format!("c{i}"), &[("slow", "yes")]));
    hub.settle();
    let refusal = "True Misconfigured: Predicate:the expressions cost too much to evaluate for every cluster; the decisions are kept";
    assert_eq!((hub.condition("PlacementMisconfigured"), hub.decided().len()), (refusal.into(), 4));
    assert_eq!(
        hub.explain().error.unwrap(),
        "Predicate:the expressions cost too much to evaluate for every cluster"
    );
    for i in 4..30 {
        hub.cluster(&format!("c{i}"), &[]);
        hub.schedule();
    }
    hub.settle();
    assert_eq!(
        hub.condition("PlacementMisconfigured"),
        "False Succeedconfigured: Placement configurations check pass"
    );
    assert_eq!(hub.decided().len(), 30);
}

#[test]
fn a_cluster_that_has_left_its_sets_leaves_once_settled() {
    let mut hub = hub(json!({}), &["a"]);
    hub.settle();
    hub.bind(1);
    assert_eq!(hub.settle(), ["a"]);
    hub.wait(10);
    assert_eq!(hub.settle(), [""; 0]);
}

#[test]
fn the_condition_counts_every_cluster_that_taints_keep_away_and_none_outside_of_the_sets() {
    let tolerations = json!([{ "key": "old", "operator": "Exists", "tolerationSeconds": 1 }]);
    let mut tainted = super::harness::hub(json!({ "tolerations": tolerations }), &[]);
    for (name, key) in [("a", "old"), ("b", "gpu")] {
        let taint = json!({ "key": key, "effect": "NoSelect", "timeAdded": "2023-11-14T22:00:00Z" });
        tainted.put(json!({ "metadata": { "name": name }, "spec": { "taints": [taint] } }));
    }
    tainted.settle();
    assert!(
        tainted.condition("PlacementSatisfied").contains("; 2 match, with taints that are not tolerated")
    );
    let mut outside = hub(json!({}), &["a", "b"]);
    outside.bind(1);
    outside.settle();
    assert!(outside.condition("PlacementSatisfied").starts_with("False AllManagedClusterSetsEmpty:"));
}

#[test]
fn a_set_without_a_selector_type_has_the_clusters_with_its_label() {
    for (selector_type, expected) in [("", vec!["b"]), ("Strange", vec![])] {
        let set = json!({ "metadata": { "name": "own" }, "spec": { "clusterSelector": { "selectorType": selector_type } } });
        let mut hub = hub(json!({}), &["a"]);
        hub.sets = vec![std::sync::Arc::new(serde_json::from_value(set).unwrap())];
        hub.cluster("b", &[("cluster.open-cluster-management.io/clusterset", "own")]);
        assert_eq!(hub.settle(), expected, "{selector_type:?}");
    }
}
