//! Properties of every history of a placement, checked on random histories.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::layout::SLICE;
use super::harness::Hub;

/// An event on the hub.
#[derive(Clone, Debug)]
enum Event {
    /// Clusters in a range of numbers appear or change. Their labels follow from their number and the third
    /// field.
    Put(u16, u16, u8),
    Lose(u16, u16),
    Taint(u16, u8),
    Score(u16, i32, Option<i64>),
    Spec(usize),
    Sets(u8),
    /// Another client changes a decision: the index of the decision, and the kind of change.
    Edit(u16, u8),
    /// Another placement selects exactly these clusters.
    Select(u16, u16),
    /// The fleet renumbers its clusters, and the cache is dropped.
    Renumber,
    /// Only this many writes of the next schedule succeed.
    Crash(u8),
    Wait(i64),
    Nothing,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let one = prop_oneof![
        4 => (0..260_u16, 1..130_u16, 0..4_u8).prop_map(|(at, many, label)| Event::Put(at, many, label)),
        2 => (0..260_u16, 1..60_u16).prop_map(|(at, many)| Event::Lose(at, many)),
        2 => (0..260_u16, 0..5_u8).prop_map(|(at, taint)| Event::Taint(at, taint)),
        2 => (0..260_u16, -100..101_i32, proptest::option::of(-5..40_i64))
            .prop_map(|(at, score, until)| Event::Score(at, score, until)),
        3 => (0..specs().len()).prop_map(Event::Spec),
        1 => (0..4_u8).prop_map(Event::Sets),
        2 => (0..100_u16, 0..10_u8).prop_map(|(which, how)| Event::Edit(which, how)),
        2 => (0..260_u16, 1..60_u16).prop_map(|(at, many)| Event::Select(at, many)),
        1 => Just(Event::Renumber),
        1 => (0..6_u8).prop_map(Event::Crash),
        3 => (1..15_i64).prop_map(Event::Wait),
        1 => Just(Event::Nothing),
    ];
    proptest::collection::vec(one, 1..14)
}

fn specs() -> Vec<Value> {
    let group = |name: &str, label: &str| json!({ "groupName": name, "groupClusterSelector": { "labelSelector": { "matchLabels": { "l": label } } } });
    let one = json!([{ "requiredClusterSelector": { "labelSelector": { "matchExpressions": [{ "key": "l", "operator": "In", "values": ["0", "1"] }] } } }]);
    let cpu = json!({ "scoreCoordinate": { "builtIn": "ResourceAllocatableCPU" }, "weight": 2 });
    let score = json!({ "scoreCoordinate": { "type": "AddOn", "addOn": { "resourceName": "usage", "scoreName": "cpu" } } });
    let zone = |unsatisfiable: &str| json!({ "spreadConstraints": [{ "topologyKey": "l", "topologyKeyType": "Label", "maxSkew": 2, "whenUnsatisfiable": unsatisfiable }] });
    let scored = json!([{ "requiredClusterSelector": { "celSelector": { "celExpressions": [
        "managedCluster.scores('usage').exists(s, s.value > 0)",
    ] } } }]);
    let tolerations = json!([{ "key": "t", "operator": "Exists", "tolerationSeconds": 12 }]);
    vec![
        json!({}),
        json!({ "numberOfClusters": 3 }),
        json!({ "numberOfClusters": 120, "tolerations": tolerations }),
        json!({ "predicates": one, "decisionStrategy": { "groupStrategy": { "clustersPerDecisionGroup": "30%" } } }),
        json!({ "decisionStrategy": { "groupStrategy": { "clustersPerDecisionGroup": 70, "decisionGroups": [group("canary", "1"), group("early", "2")] } } }),
        json!({ "decisionStrategy": { "groupStrategy": { "decisionGroups": [group("early", "2"), group("canary", "1")] } } }),
        json!({ "numberOfClusters": 7, "prioritizerPolicy": { "configurations": [cpu, score] } }),
        json!({ "numberOfClusters": 9, "spreadPolicy": zone("DoNotSchedule") }),
        json!({ "numberOfClusters": 9, "spreadPolicy": zone("ScheduleAnyway"), "tolerations": tolerations }),
        json!({ "sortBy": "Score", "scoreRateLimit": "5s", "prioritizerPolicy": { "mode": "Exact", "configurations": [score] } }),
        json!({ "numberOfClusters": 20, "spreadPolicy": zone("DoNotSchedule") }),
        json!({ "numberOfClusters": 80, "spreadPolicy": zone("ScheduleAnyway"), "prioritizerPolicy": { "configurations": [cpu] } }),
        json!({ "numberOfClusters": 5, "predicates": one, "prioritizerPolicy": { "mode": "Exact", "configurations": [cpu] } }),
        json!({ "numberOfClusters": 40, "predicates": one, "decisionStrategy": { "groupStrategy": { "clustersPerDecisionGroup": "34%" } } }),
        json!({ "numberOfClusters": 30, "sortBy": "Score", "scoreRateLimit": "3s", "prioritizerPolicy": { "configurations": [score, cpu] } }),
        json!({ "decisionStrategy": { "groupStrategy": { "clustersPerDecisionGroup": 40, "decisionGroups": [group("twin", "1"), group("early", "2"), group("twin", "3")] } } }),
        json!({ "predicates": scored }),
        json!({ "numberOfClusters": 0 }),
        json!({ "numberOfClusters": -1 }),
    ]
}

fn happen(hub: &mut Hub, event: &Event) {
    let name = |number: u16| format!("c{:03}", number % 260);
    match event {
        Event::Put(at, many, label) => (*at..at + many).for_each(|i| {
            let labels = json!({ "l": ((i + u16::from(*label)) % 4).to_string(), "cluster.open-cluster-management.io/clusterset": "own" });
            let amount = json!({ "cpu": (i % 7).to_string() });
            hub.put(json!({
                "metadata": { "name": name(i), "labels": labels },
                "status": { "conditions": [], "allocatable": amount, "capacity": amount },
            }));
        }),
        Event::Lose(at, many) => (*at..at + many).for_each(|i| hub.fleet.remove_cluster(&name(i))),
        Event::Taint(at, taint) => {
            let effect = ["NoSelect", "NoSelectIfNew", "PreferNoSelect", "NoSelect", "NoSelect"][usize::from(*taint)];
            let key = if *taint == 4 { "other" } else { "t" };
            let taint = json!({ "key": key, "effect": effect, "timeAdded": hub.now.to_string() });
            hub.put(json!({ "metadata": { "name": name(*at), "labels": { "l": "1" } }, "spec": { "taints": [taint] } }));
        }
        Event::Score(at, score, until) => hub.score(&name(*at), *score, *until),
        Event::Spec(number) => hub.spec(specs()[*number].clone()),
        Event::Sets(which) => hub.bind(*which),
        Event::Edit(which, how) => edit(hub, *which, *how),
        Event::Select(at, many) => hub.select_elsewhere((*at..at + many).map(name)),
        Event::Renumber => hub.renumber(),
        Event::Crash(after) => hub.crash_after = Some(usize::from(*after)),
        Event::Wait(seconds) => hub.wait(*seconds),
        Event::Nothing => {}
    }
}

/// Changes a decision as a person might do by hand.
fn edit(hub: &mut Hub, which: u16, how: u8) {
    let names: Vec<String> = hub.decisions.keys().cloned().collect();
    let Some(name) = names.get(usize::from(which) % names.len().max(1)).cloned() else { return };
    let mut decision = serde_json::to_value(&*hub.decisions[&name]).unwrap();
    let label = |key: &str| format!("cluster.open-cluster-management.io/decision-group-{key}");
    let entry = |cluster: String, reason: &str| json!({ "clusterName": cluster, "reason": reason });
    let mut entries = decision["status"]["decisions"].as_array().cloned().unwrap_or_default();
    match how {
        0 => return hub.edit(&name, Value::Null),
        1 => entries.clear(),
        2 => entries.truncate(entries.len() / 2),
        3 => entries.extend([entry(format!("c{which:03}"), ""), entry("nowhere".into(), "")]),
        4 => entries.insert(0, entry(format!("c{:03}", which + 7), "leaving since 2999-01-01T00:00:00Z")),
        5 => {
            entries.iter_mut().for_each(|entry| entry["reason"] = "leaving since 2020-01-01T00:00:00Z".into())
        }
        6 => decision["metadata"]["labels"][label("index")] = json!((which % 12).to_string()),
        7 => {
            decision["metadata"]["labels"][label("name")] =
                json!(["", "early", "stranger"][usize::from(which) % 3])
        }
        8 => decision["metadata"]["labels"][label("index")] = json!("first"),
        _ => {
            decision["metadata"]["name"] = json!("stranger");
            decision["status"]["decisions"] = json!(entries);
            return hub.edit("stranger", decision);
        }
    }
    decision["status"]["decisions"] = json!(entries);
    hub.edit(&name, decision);
}

/// Schedules once and checks every state that a reader could see.
fn schedule(hub: &mut Hub) -> bool {
    let before: BTreeSet<String> = hub.decided().into_iter().collect();
    let largest =
        hub.decisions.values().map(|d| d.status.iter().map(|s| s.decisions.len()).sum()).max().unwrap_or(0);
    let schedule = hub.schedule();
    let after: BTreeSet<String> = hub.decided().into_iter().collect();
    let wanted = hub
        .placement
        .spec
        .number_of_clusters
        .and_then(|number| usize::try_from(number).ok())
        .unwrap_or(usize::MAX);
    for seen in &hub.seen {
        let union: BTreeSet<String> = seen.values().flatten().cloned().collect();
        assert!(
            before.intersection(&after).all(|name| union.contains(name)),
            "a cluster vanished between two writes"
        );
        assert!(seen.values().all(|members| members.len() <= SLICE.max(largest)), "a slice is too large");
        assert!(union.len() <= wanted.max(before.len()), "more decisions than wanted");
    }
    let counted: i32 = schedule.status.decision_groups.iter().map(|group| group.cluster_count).sum();
    assert_eq!(counted, schedule.status.number_of_selected_clusters);
    schedule.steps.is_empty()
}

/// Checks the properties that must hold once nothing more is written.
fn check_settled(hub: &Hub) {
    assert!(!hub.decisions.is_empty(), "no decision at all");
    let numbered =
        |name: &str| name.strip_prefix("p-decision-").is_some_and(|number| number.parse::<u32>().is_ok());
    assert!(hub.decisions.keys().all(|name| numbered(name)), "a decision of another name stays");
    let status = hub.placement.status.as_ref().unwrap();
    let indexes: Vec<i32> = status.decision_groups.iter().map(|group| group.decision_group_index).collect();
    assert_eq!(indexes, (0..).take(indexes.len()).collect::<Vec<_>>(), "group indexes have a gap");
    assert_eq!(
        status.number_of_selected_clusters as usize,
        hub.decided().len(),
        "a cluster is decided twice"
    );
    let mut runs: BTreeMap<&str, usize> = BTreeMap::new();
    for group in &status.decision_groups {
        *runs.entry(&group.decision_group_name).or_default() += 1;
        assert!(
            group.decisions.len() <= (group.cluster_count as usize).div_ceil(SLICE).max(1),
            "a slice too many"
        );
    }
    let is_whole = hub.placement.spec.decision_strategy.as_ref().is_none_or(|strategy| {
        let size = strategy.group_strategy.as_ref().map(|groups| groups.clusters_per_decision_group.clone());
        matches!(size, Some(k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::String(text)) if text == "100%")
    });
    assert!(!is_whole || runs.values().all(|runs| *runs == 1), "a group was cut without need");
}

/// Returns the number of histories to test. An environment variable can increase it.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").map_or(32, |cases| cases.parse().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(), failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn every_history_is_safe_and_comes_to_rest(events in events()) {
        let mut hub = Hub::new(json!({}));
        for event in &events {
            happen(&mut hub, event);
            schedule(&mut hub);
        }
        let mut rounds = 0;
        while !schedule(&mut hub) {
            rounds += 1;
            prop_assert!(rounds < 12, "it does not come to rest");
        }
        if !hub.condition("PlacementMisconfigured").starts_with("True") {
            check_settled(&hub);
        }
    }

    #[test]
    fn the_order_in_which_objects_were_seen_decides_nothing(events in events()) {
        let mut hub = Hub::new(json!({}));
        for event in &events {
            happen(&mut hub, event);
            hub.schedule();
            hub.compare_with_reversed();
        }
    }
}
