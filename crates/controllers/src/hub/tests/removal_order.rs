//! Tests the order in which clusters lose an add-on if the policy rolls out removals.

use serde_json::{Value, json};

use super::addon_removal::{Fleet, addon, decided, names, silent, terminating};
use crate::addon_removal::AddOnDeletion;
use api::names::{DECISION_GROUP_INDEX_LABEL, PLACEMENT_LABEL};

/// The decision groups of a placement. The first one is the canary.
const GROUPS: &[&[&str]] = &[&["c3"], &["c1", "c2", "c4"]];

/// Returns a strategy with the canary first, and then a limited number of clusters at a time.
fn progressive(concurrency: Value) -> Value {
    let canary = json!({"groupIndex": 0});
    let options = json!({"mandatoryDecisionGroups": [canary], "maxConcurrency": concurrency});
    json!({"type": "Progressive", "progressive": options})
}

/// Makes a placement with these groups install the add-on with a strategy.
fn place(fleet: &mut Fleet, strategy: &Value, groups: &[&[&str]]) {
    let placement = json!({"namespace": "default", "name": "p", "rolloutStrategy": strategy});
    let install = json!({"type": "Placements", "placements": [placement]});
    fleet.add_ons = vec![json!({"metadata": {"name": "a"}, "spec": {"installStrategy": install}})];
    fleet.placements = vec![json!({"metadata": {"namespace": "default", "name": "p"}, "spec": {}})];
    let page = |(index, clusters): (usize, &&[&str])| {
        let decision = |name: &&str| json!({"clusterName": name, "reason": ""});
        let decisions: Vec<Value> = clusters.iter().map(decision).collect();
        let labels = json!({PLACEMENT_LABEL: "p", DECISION_GROUP_INDEX_LABEL: index.to_string()});
        let metadata = json!({"namespace": "default", "name": format!("p-{index}"), "labels": labels});
        json!({"metadata": metadata, "status": {"decisions": decisions}})
    };
    fleet.decisions = groups.iter().enumerate().map(page).collect();
}

/// Returns five clusters with the add-on, whose removal is rolled out. The fifth is in no group.
fn five(removal_budget: &Value) -> Fleet {
    let policy = json!({"removalBudget": removal_budget, "rollOut": "InstallAndContent"});
    let mut fleet = Fleet::new(["c1", "c2", "c3", "c4", "c5"].map(addon).into(), &policy);
    place(&mut fleet, &progressive(json!(2)), GROUPS);
    fleet
}

/// Starts the deletion of one cluster's add-on.
fn lose(fleet: &mut Fleet, cluster: usize) {
    fleet.addons[cluster] = terminating(fleet.addons[cluster].take());
}

#[test]
fn a_deleted_addon_leaves_the_canary_and_then_a_few_clusters_at_a_time() {
    type Edit = fn(&mut Fleet);
    let cases: [(&str, Edit, &[&str]); 8] = [
        ("every cluster has it", |_| {}, &["c3"]),
        ("the canary is losing it", |fleet| lose(fleet, 2), &[]),
        (
            "the canary is losing it and silent",
            |fleet| {
                lose(fleet, 2);
                fleet.clusters[2] = silent("c3");
            },
            &["c1", "c2"],
        ),
        ("the canary has lost it", |fleet| drop(fleet.addons.remove(2)), &["c1", "c2"]),
        (
            "another cluster is losing it",
            |fleet| {
                lose(fleet, 0);
                fleet.addons.remove(2);
            },
            &["c2"],
        ),
        ("every group has lost it", |fleet| drop(fleet.addons.drain(..4)), &["c5"]),
        ("the Placement is gone and its decisions are not", |fleet| fleet.placements.clear(), &["c3"]),
        (
            "the Placement and its decisions are gone",
            |fleet| {
                fleet.placements.clear();
                fleet.decisions.clear();
            },
            &["c1", "c2"],
        ),
    ];
    for (case, change, next) in cases {
        let mut fleet = five(&json!("100%"));
        change(&mut fleet);
        let removal = fleet.removal(&[], Some(AddOnDeletion::Approved));
        assert_eq!(removal.decision.removed, names(next), "{case}");
    }
}

#[test]
fn a_budget_below_the_slots_of_the_strategy_limits_a_deletion() {
    let mut fleet = five(&json!(1));
    fleet.addons.remove(2);
    let removal = fleet.removal(&[], Some(AddOnDeletion::Approved));
    assert_eq!((removal.decision.removed, removal.later), (names(&["c1"]), names(&["c2", "c4", "c5"])));
}

#[test]
fn clusters_that_no_placement_selects_leave_within_the_slots_of_the_strategy() {
    let all = json!({"type": "All"});
    let rolled_out = json!({"removalBudget": "100%", "rollOut": "InstallAndContent"});
    let at_once = json!({"removalBudget": "100%"});
    for (policy, strategy, number) in [
        (&rolled_out, &progressive(json!(2)), 2),
        (&rolled_out, &progressive(json!("50%")), 3),
        (&rolled_out, &progressive(json!("0%")), 1),
        (&rolled_out, &all, 4),
        (&at_once, &progressive(json!(2)), 4),
    ] {
        let left = ["c5", "c6", "c7", "c8"];
        let mut fleet = Fleet::new(left.map(decided).into(), policy);
        place(&mut fleet, strategy, &[&["c1"]]);
        let removal = fleet.removal(&["c1"], None);
        let (now, later) = left.split_at(number);
        assert_eq!((removal.decision.removed, removal.later), (names(now), names(later)), "{strategy}");
    }
}
