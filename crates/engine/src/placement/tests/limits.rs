//! Tests for costs, expiry and extreme weights of individual clusters.

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::harness::{Hub, hub};

fn cel(expression: &str) -> Value {
    json!([{ "requiredClusterSelector": { "celSelector": { "celExpressions": [expression] } } }])
}

fn nested(levels: usize, last: &str) -> String {
    let ten = "[0,1,2,3,4,5,6,7,8,9]";
    (0..levels).fold(last.to_owned(), |inner, level| format!("{ten}.all(x{level}, {inner})"))
}

fn tainted(name: &str, added: String) -> Value {
    let taint = json!({ "key": "t", "effect": "NoSelect", "timeAdded": added });
    json!({ "metadata": { "name": name }, "spec": { "taints": [taint] } })
}

#[test]
fn an_expression_that_exceeds_the_limit_of_one_cluster_refuses_the_placement() {
    let mut hub = hub(json!({ "predicates": cel(&nested(5, "true")) }), &["a"]);
    hub.schedule();
    assert!(hub.condition("PlacementMisconfigured").contains("cost too much"));
}

#[test]
fn expressions_cost_the_same_for_clusters_that_are_not_selected() {
    let is_refused = |hub: &mut Hub| {
        hub.schedule();
        hub.condition("PlacementMisconfigured").contains("cost too much")
    };
    let slow = |last: &str| cel(&format!("{} && {last}", nested(3, "true")));
    let names: Vec<String> = (0..30).map(|i| format!("c{i}")).collect();
    let mut unmatched = Hub::new(json!({ "predicates": slow("false") }));
    names.iter().for_each(|name| unmatched.cluster(name, &[]));
    assert!(is_refused(&mut unmatched));
    for seconds in [None, Some(0)] {
        let toleration = json!({ "key": "t", "operator": "Exists", "tolerationSeconds": seconds });
        let tolerations = if seconds.is_some() { json!([toleration]) } else { json!([]) };
        let mut hub = Hub::new(json!({ "predicates": slow("true"), "tolerations": tolerations }));
        names.iter().for_each(|name| hub.put(tainted(name, "2023-11-14T22:00:00Z".into())));
        assert!(is_refused(&mut hub), "{seconds:?}");
    }
}

#[test]
fn a_score_that_expires_wakes_placements_whose_expressions_did_not_select_the_cluster() {
    let reads = |bound: i32| cel(&format!("managedCluster.scores('usage').exists(s, s.value > {bound})"));
    for (bound, taint) in [(50, false), (0, true)] {
        let mut hub = Hub::new(json!({ "predicates": reads(bound) }));
        if taint {
            hub.put(tainted("a", "2023-11-14T22:00:00Z".into()));
        } else {
            hub.cluster("a", &[]);
        }
        hub.score("a", 10, Some(30));
        let expired = hub.now + SignedDuration::from_secs(30) + SignedDuration::from_nanos(1);
        assert_eq!(hub.schedule().wake_at, Some(expired), "above {bound}");
    }
}

#[test]
fn a_toleration_that_expires_sooner_than_removals_settle_moves_the_decision_at_that_time() {
    let tolerations = json!([{ "key": "t", "operator": "Exists", "tolerationSeconds": 3 }]);
    let mut hub = hub(json!({ "numberOfClusters": 1, "tolerations": tolerations }), &["a", "b"]);
    hub.settle();
    hub.put(tainted("a", hub.now.to_string()));
    hub.wait(3);
    assert_eq!(hub.settle(), ["b"]);
}

#[test]
fn a_taint_counts_from_the_time_it_was_added() {
    let mut hub = hub(json!({}), &["a", "b"]);
    hub.settle();
    hub.put(tainted("a", (hub.now - SignedDuration::from_secs(8)).to_string()));
    assert_eq!(hub.settle(), ["a", "b"]);
    hub.wait(2);
    assert_eq!(hub.settle(), ["b"]);
}

#[test]
fn totals_beyond_their_type_stay_at_its_ends() {
    let steady = |weight: i32| json!({ "scoreCoordinate": { "builtIn": "Steady" }, "weight": weight });
    for (weight, total) in [(i32::MAX, i32::MAX), (i32::MIN, i32::MIN)] {
        let policy = json!({ "mode": "Exact", "configurations": [steady(weight)] });
        let mut hub = hub(json!({ "prioritizerPolicy": policy }), &["a"]);
        hub.settle();
        assert_eq!(hub.explain().clusters[0].total, Some(i64::from(total)));
    }
}
