//! Tests for the cache between cycles. Each `schedule` of the hub compares the result with a full cycle.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::harness::{Hub, hub};

/// Returns a placement with an expression and a limited number of steps.
fn limited(clusters: &[&str], max_steps: u64) -> Hub {
    let cel = json!({ "celSelector": { "celExpressions": ["1 + 1 == 2"] } });
    let mut hub = hub(json!({ "predicates": [{ "requiredClusterSelector": cel }] }), clusters);
    hub.max_steps = max_steps;
    hub
}

/// Returns the number of steps that the clusters require.
fn steps(clusters: &[&str]) -> u64 {
    (0..100).find(|max_steps| !is_refused(&mut limited(clusters, *max_steps))).unwrap()
}

fn is_refused(hub: &mut Hub) -> bool {
    hub.schedule();
    hub.condition("PlacementMisconfigured").contains("cost too much")
}

#[test]
fn the_limit_of_steps_holds_to_the_step_and_no_cluster_is_left_out() {
    let one = steps(&["a"]);
    assert!(one > 0);
    for max_steps in [one, 2 * one - 1] {
        assert!(is_refused(&mut limited(&["a", "b"], max_steps)), "{max_steps} steps");
    }
    assert_eq!(limited(&["a", "b"], 2 * one).settle(), ["a", "b"]);
}

#[test]
fn a_cluster_that_changes_together_with_its_decision_costs_its_steps_once() {
    let mut hub = limited(&["a", "b"], steps(&["a", "b"]));
    assert_eq!(hub.settle(), ["a", "b"]);
    let mut edited = serde_json::to_value(&*hub.decisions["p-decision-1"]).unwrap();
    edited["status"]["decisions"].as_array_mut().unwrap().remove(0);
    hub.edit("p-decision-1", edited);
    hub.cluster("a", &[("l", "1")]);
    assert_eq!(hub.settle(), ["a", "b"]);
    assert!(!is_refused(&mut hub));
}

#[test]
fn writes_that_all_failed_are_planned_again() {
    let mut hub = hub(json!({}), &["a"]);
    hub.settle();
    let mut edited = serde_json::to_value(&*hub.decisions["p-decision-1"]).unwrap();
    edited["metadata"]["labels"]["cluster.open-cluster-management.io/decision-group-index"] = json!("7");
    hub.edit("p-decision-1", edited);
    hub.crash_after = Some(0);
    let failed = hub.schedule();
    assert!(!failed.steps.is_empty());
    assert_eq!(hub.schedule().steps, failed.steps);
}

#[test]
fn a_decision_that_returns_unchanged_is_read_again() {
    let mut hub = hub(json!({}), &["a", "b"]);
    hub.settle();
    let before = Arc::clone(&hub.decisions["p-decision-1"]);
    let mut edited = serde_json::to_value(&*before).unwrap();
    edited["status"]["decisions"] = json!([]);
    hub.edit("p-decision-1", edited);
    hub.crash_after = Some(0);
    assert!(!hub.schedule().steps.is_empty());
    hub.replace("p-decision-1", Some(before));
    assert!(hub.schedule().steps.is_empty());
}

#[test]
fn another_scale_ranks_every_cluster_again() {
    let score = json!({ "type": "AddOn", "addOn": { "resourceName": "usage", "scoreName": "cpu" } });
    let cpu = json!({ "builtIn": "ResourceAllocatableCPU" });
    let configurations = [cpu, score].map(|coordinate| json!({ "scoreCoordinate": coordinate }));
    let policy = json!({ "mode": "Exact", "configurations": configurations });
    let mut hub = Hub::new(json!({ "numberOfClusters": 1, "prioritizerPolicy": policy }));
    let put = |hub: &mut Hub, name: &str, cpu: &str| {
        let amount = json!({ "cpu": cpu });
        let status = json!({ "conditions": [], "allocatable": amount, "capacity": amount });
        hub.put(json!({ "metadata": { "name": name }, "status": status }));
    };
    for (name, cpu, score) in [("small", "10", 10), ("medium", "20", 0), ("huge", "1000", -100)] {
        put(&mut hub, name, cpu);
        hub.score(name, score, None);
    }
    assert_eq!(hub.settle(), ["huge"]);
    put(&mut hub, "huge", "15");
    hub.settle();
    hub.wait(10);
    assert_eq!(hub.settle(), ["medium"]);
}

#[test]
fn a_cluster_is_evaluated_again_at_the_first_of_its_deadlines() {
    let toleration = json!({ "key": "t", "operator": "Exists", "tolerationSeconds": 60 });
    let score = json!({ "type": "AddOn", "addOn": { "resourceName": "usage", "scoreName": "cpu" } });
    let policy = json!({ "mode": "Exact", "configurations": [{ "scoreCoordinate": score }] });
    let spec = json!({ "numberOfClusters": 1, "tolerations": [toleration], "prioritizerPolicy": policy });
    let wake_at = |valid_for: i64| {
        let mut hub = Hub::new(spec.clone());
        let taint = json!({ "key": "t", "effect": "NoSelect", "timeAdded": hub.now.to_string() });
        hub.put(json!({ "metadata": { "name": "a" }, "spec": { "taints": [taint] } }));
        hub.score("a", 5, Some(valid_for));
        hub.schedule().wake_at.map(|at: Timestamp| at.duration_since(hub.now))
    };
    assert_eq!(wake_at(30), Some(SignedDuration::new(30, 1)));
    assert_eq!(wake_at(90), Some(SignedDuration::from_secs(60)));
}
