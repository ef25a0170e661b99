//! Claims about schedules, one placement at a time.

use serde_json::{Value, json};

use super::harness::Hub;

fn hub(spec: Value, clusters: &[&str]) -> Hub {
    let mut hub = Hub::new(spec);
    clusters.iter().for_each(|name| hub.cluster(name, &[]));
    hub
}

fn selector(key: &str, value: &str) -> Value {
    json!([{ "requiredClusterSelector": { "labelSelector": { "matchLabels": { key: value } } } }])
}

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
    let mut tainted = self::hub(json!({}), &[]);
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
        let said = hub.condition("PlacementMisconfigured");
        assert!(
            said.starts_with("True Misconfigured: ") && said.ends_with("; the decisions stay as they are"),
            "{said}"
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
fn a_misconfiguration_is_reported_where_no_cluster_would_come_upon_it() {
    let mut hub = hub(json!({ "tolerations": [{ "value": "v" }] }), &[]);
    hub.sets.clear();
    hub.schedule();
    assert!(
        hub.condition("PlacementMisconfigured")
            .starts_with("True Misconfigured: TaintToleration:If the key is empty")
    );
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
fn a_replacement_never_makes_more_decisions_than_wanted() {
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
fn resources_are_measured_anew_when_other_clusters_may_be_selected() {
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
        let sizes: Vec<i32> = hub
            .placement
            .status
            .as_ref()
            .unwrap()
            .decision_groups
            .iter()
            .map(|group| group.cluster_count)
            .collect();
        assert_eq!((sizes, members(&hub, 0)), (vec![4, 4, 2], before.clone()));
        hub.wait(4);
    }
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
    assert!(hub.explain().clusters.iter().all(|story| story.total == Some(0)));
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
    let refusal = "True Misconfigured: Predicate:the expressions cost too much to evaluate for every cluster; the decisions stay as they are";
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
fn an_explanation_says_who_is_kept_and_which_scores_are_not_there() {
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
            .map(|story| format!("{} {} {}", story.cluster_name, story.state, story.unscored.join(", ")))
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
fn balance_counts_the_decisions_of_others_and_not_the_placements_own() {
    let mut hub = hub(json!({ "numberOfClusters": 2 }), &["a", "b", "c"]);
    let other = |clusters: &[&str]| {
        let entries: Vec<_> =
            clusters.iter().map(|cluster| json!({ "clusterName": cluster, "reason": "" })).collect();
        serde_json::from_value(json!({ "metadata": {}, "status": { "decisions": entries } })).unwrap()
    };
    hub.fleet.set_decision(None, Some(&other(&["a", "b"])));
    hub.fleet.set_decision(None, Some(&other(&["a"])));
    assert_eq!(hub.settle(), ["b", "c"]);
    let totals: Vec<_> = hub.explain().clusters.iter().map(|story| story.total.unwrap()).collect();
    assert_eq!(totals, [-100, 100, 200]);
}
