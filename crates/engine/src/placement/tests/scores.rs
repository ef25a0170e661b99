//! Tests for scores, their validity, and the resulting order.

use serde_json::{Value, json};

use super::harness::{Hub, hub, selector};

#[test]
fn an_expired_or_missing_score_never_outranks_a_valid_one() {
    let coordinate = json!({ "type": "AddOn", "addOn": { "resourceName": "usage", "scoreName": "cpu" } });
    let policy = json!({ "mode": "Exact", "configurations": [{ "scoreCoordinate": coordinate }] });
    let mut hub =
        hub(json!({ "numberOfClusters": 1, "prioritizerPolicy": policy }), &["expired", "missing", "valid"]);
    hub.score("expired", 90, Some(-1));
    hub.score("valid", -90, Some(60));
    assert_eq!(hub.settle(), ["valid"]);
    hub.score("missing", -80, Some(600));
    hub.settle();
    hub.wait(10);
    assert_eq!(hub.settle(), ["missing"]);
    hub.score("valid", 100, Some(20));
    hub.settle();
    hub.wait(10);
    assert_eq!(hub.settle(), ["valid"]);
    let expires = hub.now + jiff::SignedDuration::from_secs(10);
    assert_eq!(hub.schedule().wake_at, Some(expires + jiff::SignedDuration::from_nanos(1)));
}

#[test]
fn prefer_no_select_is_selected_last() {
    let mut hub = hub(json!({ "numberOfClusters": 1 }), &["b"]);
    hub.put(json!({ "metadata": { "name": "a" }, "spec": { "taints": [{ "key": "k", "effect": "PreferNoSelect" }] } }));
    assert_eq!(hub.settle(), ["b"]);
    hub.spec(json!({ "numberOfClusters": 2 }));
    assert_eq!(hub.settle(), ["a", "b"]);
}

#[test]
fn sort_by_score_orders_decisions_and_refreshes_them_no_more_often_than_asked() {
    let coordinate = json!({ "type": "AddOn", "addOn": { "resourceName": "usage", "scoreName": "cpu" } });
    let policy = json!({ "mode": "Exact", "configurations": [{ "scoreCoordinate": coordinate }] });
    let mut hub =
        hub(json!({ "sortBy": "Score", "scoreRateLimit": "30s", "prioritizerPolicy": policy }), &["a", "b"]);
    hub.score("a", 10, None);
    hub.score("b", 20, None);
    hub.settle();
    assert_eq!(hub.shape(), ["p-decision-1[0 ] b,a"]);
    hub.score("a", 30, None);
    hub.wait(29);
    let waiting = hub.schedule();
    assert!(waiting.steps.is_empty());
    assert_eq!(waiting.wake_at, Some(hub.now + jiff::SignedDuration::from_secs(1)));
    hub.wait(1);
    hub.settle();
    assert_eq!(hub.shape(), ["p-decision-1[0 ] a,b"]);
    assert_eq!(hub.decisions["p-decision-1"].status.as_ref().unwrap().decisions[0].score, Some(30));
}

#[test]
fn resources_are_measured_again_when_other_clusters_may_be_selected() {
    let cpu = json!({ "mode": "Exact", "configurations": [{ "scoreCoordinate": { "builtIn": "ResourceAllocatableCPU" } }] });
    let spec = |env: Value| json!({ "numberOfClusters": 1, "predicates": env, "prioritizerPolicy": cpu });
    let mut hub = Hub::new(spec(json!([])));
    for (name, cpu) in [("a", "10"), ("b", "20"), ("huge", "1000")] {
        let env = if name == "huge" { "test" } else { "prod" };
        let amount = json!({ "cpu": cpu });
        let status = json!({ "conditions": [], "allocatable": amount, "capacity": amount });
        hub.put(json!({ "metadata": { "name": name, "labels": { "env": env } }, "status": status }));
    }
    assert_eq!(hub.settle(), ["huge"]);
    hub.spec(spec(selector("env", "prod")));
    hub.settle();
    hub.wait(10);
    hub.settle();
    assert_eq!(hub.decisions["p-decision-1"].status.as_ref().unwrap().decisions[0].score, Some(100));
}

#[test]
fn a_score_counts_to_the_end_of_its_time_and_the_next_moment_it_does_not() {
    let coordinate = json!({ "type": "AddOn", "addOn": { "resourceName": "usage", "scoreName": "cpu" } });
    let policy = json!({ "mode": "Exact", "configurations": [{ "scoreCoordinate": coordinate }] });
    let mut hub = hub(json!({ "numberOfClusters": 1, "prioritizerPolicy": policy }), &["a", "b"]);
    hub.score("b", 5, Some(30));
    assert_eq!(hub.settle(), ["b"]);
    hub.wait(30);
    let wake_at = hub.schedule().wake_at.unwrap();
    assert!(wake_at > hub.now && hub.decided() == ["b"]);
    hub.now = wake_at;
    hub.schedule();
    assert!(hub.explain().clusters.iter().all(|explained| explained.total == Some(0)));
}

#[test]
fn a_warning_names_every_score_that_has_expired_and_its_prioritizer() {
    let coordinate = |resource: &str| json!({ "scoreCoordinate": { "type": "AddOn", "addOn": { "resourceName": resource, "scoreName": "cpu" } } });
    let policy = json!({ "mode": "Exact", "configurations": [coordinate("other"), coordinate("usage")] });
    for number in [json!(3), Value::Null] {
        let mut hub =
            hub(json!({ "numberOfClusters": number, "prioritizerPolicy": policy }), &["a", "b", "c"]);
        hub.score("a", 5, Some(-1));
        hub.score("b", 5, Some(60));
        hub.score("c", 5, Some(-1));
        let events = hub.schedule().events;
        let warning = events.iter().find(|event| event.is_warning).map(|event| event.message.as_str());
        let about = "Decision p-decision-1 is updated with placement p in namespace ns";
        assert_eq!(
            warning,
            Some(&*format!(
                "{about}: AddOnPlacementScores a/usage c/usage expired in plugin AddOn/usage/cpu"
            ))
        );
    }
}

#[test]
fn an_explanation_names_kept_clusters_and_missing_scores() {
    let coordinate = json!({ "type": "AddOn", "addOn": { "resourceName": "usage", "scoreName": "cpu" } });
    let policy = json!({ "mode": "Exact", "configurations": [{ "scoreCoordinate": coordinate }] });
    let mut hub = hub(json!({ "prioritizerPolicy": policy }), &["expired", "missing", "valid"]);
    hub.score("expired", 90, Some(-1));
    hub.score("valid", 90, Some(60));
    hub.settle();
    let lines = |hub: &Hub| -> Vec<String> {
        let clusters = hub.explain().clusters;
        clusters
            .iter()
            .map(|explained| {
                format!("{} {} {}", explained.cluster_name, explained.state, explained.unscored.join(", "))
            })
            .collect()
    };
    let expected = [
        "expired Selected AddOn/usage/cpu expired at 2023-11-14T22:13:19Z",
        "missing Selected AddOn/usage/cpu is missing",
        "valid Selected ",
    ];
    assert_eq!(lines(&hub), expected);
    hub.spec(json!({ "numberOfClusters": -1 }));
    assert_eq!(lines(&hub), ["expired Kept ", "missing Kept ", "valid Kept "]);
    assert!(hub.explain().error.is_some());
}

#[test]
fn balance_counts_the_decisions_of_other_placements_only() {
    let mut hub = hub(json!({ "numberOfClusters": 2 }), &["a", "b", "c"]);
    let other = |clusters: &[&str]| {
        let entries: Vec<_> =
            clusters.iter().map(|cluster| json!({ "clusterName": cluster, "reason": "" })).collect();
        serde_json::from_value(json!({ "metadata": {}, "status": { "decisions": entries } })).unwrap()
    };
    hub.fleet.set_decision(None, Some(&other(&["a", "b"])));
    hub.fleet.set_decision(None, Some(&other(&["a"])));
    assert_eq!(hub.settle(), ["b", "c"]);
    let totals: Vec<_> = hub.explain().clusters.iter().map(|explained| explained.total.unwrap()).collect();
    assert_eq!(totals, [-100, 100, 200]);
}

#[test]
fn expressions_read_scores_for_as_long_as_they_are_valid() {
    let cel = json!({ "celSelector": { "celExpressions": ["managedCluster.scores('usage').exists(s, s.name == 'cpu' && s.value > 5)"] } });
    let mut hub =
        hub(json!({ "predicates": [{ "requiredClusterSelector": cel }] }), &["high", "low", "none"]);
    hub.score("high", 10, Some(30));
    hub.score("low", 1, Some(30));
    assert_eq!(hub.settle(), ["high"]);
    hub.wait(31);
    hub.settle();
    hub.wait(10);
    assert_eq!(hub.settle(), [""; 0]);
}

#[test]
fn memory_is_ranked_by_what_is_allocatable() {
    let memory = json!({ "scoreCoordinate": { "builtIn": "ResourceAllocatableMemory" } });
    let policy = json!({ "mode": "Exact", "configurations": [memory] });
    let mut hub = Hub::new(json!({ "numberOfClusters": 1, "prioritizerPolicy": policy }));
    for (name, memory) in [("a", "1Gi"), ("b", "4Gi"), ("c", "2Gi")] {
        let amount = json!({ "memory": memory });
        let status = json!({ "conditions": [], "allocatable": amount, "capacity": amount });
        hub.put(json!({ "metadata": { "name": name }, "status": status }));
    }
    assert_eq!(hub.settle(), ["b"]);
}

#[test]
fn the_scale_follows_the_least_and_the_most_amount() {
    let cpu = json!({ "scoreCoordinate": { "builtIn": "ResourceAllocatableCPU" } });
    let policy = json!({ "mode": "Exact", "configurations": [cpu] });
    let mut hub = Hub::new(json!({ "sortBy": "Score", "scoreRateLimit": "1s", "prioritizerPolicy": policy }));
    let amounts = [("a", "10"), ("b", "20"), ("c", "30"), ("c", "25"), ("a", "12"), ("c", "40"), ("a", "5")];
    for (name, cpu) in amounts {
        let amount = json!({ "cpu": cpu });
        let status = json!({ "conditions": [], "allocatable": amount, "capacity": amount });
        hub.put(json!({ "metadata": { "name": name }, "status": status }));
        hub.wait(10);
        hub.settle();
    }
    let scores = hub.decisions["p-decision-1"].status.as_ref().unwrap().decisions.iter();
    let scores: Vec<_> = scores.map(|entry| (entry.cluster_name.as_str(), entry.score.unwrap())).collect();
    assert_eq!(scores, [("c", 100), ("b", -14), ("a", -100)]);
}
