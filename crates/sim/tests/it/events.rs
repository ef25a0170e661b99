//! Events of rollouts: each state change emits one event, regardless of the plans in between.

use serde_json::{Value, json};

use crate::fixtures::{
    ADDON, addon, is_completed, merged, progressive, put, seconds, seeded, select, select_all, template,
    with, work, world,
};
use crate::replica_sets;
use crate::reports::caches;
use api::cluster::v1::ManagedCluster;
use api::condition::find_condition;
use controllers::hub::addon_config;
use controllers::hub::overview::Overview;
use jiff::Timestamp;
use object::Key;
use reconcile::{Action, Event, Failure, FailureKind, Outcome};
use sim::{Servers, Setup, World, execute};

/// Seeds for the order in which the processes run.
const SEEDS: std::ops::Range<u64> = 0..6;

/// Returns the type and reason of the events about objects of a kind since the last call.
fn new_events(world: &mut World, kind: &str) -> Vec<String> {
    let events = world.take_events();
    let about = events.iter().filter(|event| event.regarding.gvk.kind == kind);
    about.map(|event| format!("{:?} {}", event.event_type, event.reason)).collect()
}

/// Runs until nothing changes, and returns the events about the add-on.
fn rest(world: &mut World) -> Vec<String> {
    world.run_for(seconds(120)).unwrap();
    new_events(world, "ClusterManagementAddOn")
}

fn policy(world: &mut World, spec: Value) {
    let kind = json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "RolloutPolicy"});
    put(world, merged(kind, json!({"metadata": {"name": "p"}, "spec": spec})));
}

#[test]
fn an_add_on_reports_each_step_of_its_rollouts_once() {
    for seed in SEEDS {
        tell_of_an_add_on(seeded(seed, 4));
    }
}

fn tell_of_an_add_on(mut world: World) {
    template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", progressive());
    select_all(&mut world);
    assert_eq!(rest(&mut world), ["Normal RolloutStarted", "Normal RolloutCompleted"]);
    policy(&mut world, json!({"approval": {"mode": "BetweenGroups"}, "onBreach": "Rollback"}));
    template(&mut world, "msa", "msa:0.4.1");
    assert_eq!(rest(&mut world), ["Normal RolloutStarted", "Warning ApprovalNeeded"]);
    policy(&mut world, json!({"approval": {"mode": "Never"}, "onBreach": "Rollback"}));
    assert_eq!(rest(&mut world), ["Normal RolloutCompleted"]);
    template(&mut world, "msa", "msa:0.4.7");
    // The cluster reports no failure, so it has time to report before its version is rolled back.
    let undone = ["Normal RolloutStarted", "Warning RolloutStopped", "Warning RolledBack"];
    assert_eq!(rest(&mut world), undone);
    policy(&mut world, json!({"approval": {"mode": "Never"}, "onBreach": "Pause"}));
    template(&mut world, "msa", "msa:0.4.8");
    assert_eq!(rest(&mut world), ["Normal RolloutStarted", "Warning RolloutStopped"]);
    policy(&mut world, json!({"paused": true}));
    template(&mut world, "msa", "msa:0.4.0");
    assert_eq!(rest(&mut world), ["Normal RolloutPaused"]);
    let always = json!([{"name": "always", "schedule": "* * * * *", "duration": "2m"}]);
    policy(&mut world, json!({"paused": false, "freezeWindows": always}));
    let frozen = rest(&mut world);
    assert!(!frozen.is_empty() && frozen.iter().all(|event| event == "Normal RolloutFrozen"), "{frozen:?}");
    policy(&mut world, json!({"freezeWindows": []}));
    assert_eq!(rest(&mut world), ["Normal RolloutStarted", "Normal RolloutCompleted"]);
}

#[test]
fn a_rollback_names_the_failed_cluster_and_the_reason_even_if_no_cluster_runs_the_revision() {
    let mut world = seeded(0, 4);
    template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", progressive());
    select_all(&mut world);
    rest(&mut world);
    policy(&mut world, json!({"onBreach": "Rollback"}));
    template(&mut world, "msa", "msa:0.4.7");
    world.run_for(seconds(120)).unwrap();
    let events = world.take_events();
    let event = events.iter().find(|event| event.reason == "RolledBack").unwrap();
    assert!(event.message.contains(" is quarantined; rolling back "), "{event:?}");
    assert!(event.message.contains("; it failed on cluster1: "), "{event:?}");
    let explained = addon_config::explain(ADDON, &caches(&world), world.now).unwrap().unwrap();
    assert!(explained.rollouts[0].failure.starts_with("cluster1: "), "{:?}", explained.rollouts[0].failure);
    let overview = Overview::read(&caches(&world), world.now).unwrap();
    let holds = &overview.add_ons[0].holds;
    assert!(holds.len() == 1 && holds[0].contains(": it failed on cluster1: "), "{holds:?}");
    let remedy = format!(
        "fix or revert the commit first; wheelwright rollout resume {ADDON} --release rolls the same revision out again"
    );
    assert!(holds[0].ends_with(&remedy), "{holds:?}");
}

/// Refuses to delete a work, as an admission policy on the hub would.
fn keep_works(servers: &mut Servers<'_>, manager: &str, action: &Action, now: Timestamp) -> Outcome {
    match action {
        Action::Delete { target, .. } if target.gvk.kind == "ManifestWork" => {
            Err(Failure { kind: FailureKind::Forbidden, message: "cannot write it: no".into() })
        }
        action => execute(servers, manager, action, now),
    }
}

#[test]
fn a_leaving_cluster_reports_its_cleanup_or_the_reason_for_the_delay() {
    for (setup, expected) in [
        (Setup::default(), "Normal ResourceCleanupCompleted"),
        (Setup { execute: keep_works, ..Setup::default() }, "Warning ResourceCleanupFail"),
    ] {
        let mut world = with(setup, 7, 1);
        let taints = world.take_events();
        let tainted = |event: &&Event| event.reason == "ManagedClusterConditionAvailableUpdated";
        let taints: Vec<&str> = taints.iter().filter(tainted).map(|event| event.message.as_str()).collect();
        assert_eq!(
            taints,
            [
                "Update the original taints to the [cluster.open-cluster-management.io/unreachable:NoSelect]",
                "Update the original taints to the []"
            ]
        );
        work(&mut world, &[("a", "1")]);
        world.delete::<ManagedCluster>(&Key::cluster("cluster1")).unwrap();
        world.run_for(seconds(300)).unwrap();
        assert_eq!(new_events(&mut world, "ManagedCluster"), [expected]);
        if let Some(cluster) = world.get::<ManagedCluster>(&Key::cluster("cluster1")) {
            let status = cluster.status.unwrap();
            let deleting = find_condition(&status.conditions, "Deleting").unwrap();
            assert_eq!(
                (deleting.reason.as_str(), deleting.message.as_str()),
                ("DeletingError", "cannot write it: no")
            );
        }
    }
}

#[test]
fn a_denied_cluster_reports_a_completed_cleanup_before_it_goes() {
    let mut world = world(1);
    let cluster = json!({"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster"});
    let denied = json!({"metadata": {"name": "cluster1"}, "spec": {"hubAcceptsClient": false}});
    put(&mut world, merged(cluster, denied));
    world.run_for(seconds(60)).unwrap();
    new_events(&mut world, "ManagedCluster");
    world.keep_history();
    world.delete::<ManagedCluster>(&Key::cluster("cluster1")).unwrap();
    world.run_for(seconds(60)).unwrap();
    assert_eq!(new_events(&mut world, "ManagedCluster"), ["Normal ResourceCleanupCompleted"]);
    let history = world.take_history();
    let states = history.iter().filter(|write| write.id.kind == "ManagedCluster");
    let last = states.filter_map(|write| write.after.as_ref()).next_back().unwrap();
    let conditions = last.at(&["status", "conditions"]).unwrap().as_array().unwrap();
    let deleting = conditions.iter().find(|condition| condition["type"] == "Deleting");
    assert_eq!(deleting.map(|condition| &condition["reason"]), Some(&json!("NoResource")));
}

#[test]
fn an_event_says_how_many_clusters_are_done_without_the_words_of_ocm() {
    let mut world = world(2);
    template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", json!({"type": "All"}));
    select_all(&mut world);
    assert!(world.run_until(seconds(60), is_completed).unwrap());
    world.run_for(seconds(1)).unwrap();
    let events = world.take_events();
    let completed = events.iter().find(|event| event.reason == "RolloutCompleted").unwrap();
    let revision = completed.message.strip_suffix(" on placement default/fleet: 2 of 2 clusters done");
    assert!(revision.is_some_and(|revision| revision.starts_with("msa (")), "{completed:?}");
    assert_eq!((completed.regarding.key.name.as_str(), completed.uid.is_empty()), (ADDON, false));
}

#[test]
fn an_add_on_that_lacks_its_configuration_says_so_once() {
    let mut world = world(2);
    addon(&mut world, "msa", json!({"type": "All"}));
    select_all(&mut world);
    let events = rest(&mut world);
    assert_eq!(events.len(), 1, "{events:?}");
    assert!(events[0].starts_with("Warning Config"), "{events:?}");
    template(&mut world, "msa", "msa:0.4.0");
    assert_eq!(rest(&mut world), ["Normal RolloutStarted", "Normal RolloutCompleted"]);
}

#[test]
fn a_held_removal_is_reported_once() {
    let mut world = world(3);
    template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", json!({"type": "All"}));
    select_all(&mut world);
    policy(&mut world, json!({"soak": "1s"}));
    rest(&mut world);
    select(&mut world, json!({"no": "such"}));
    assert_eq!(rest(&mut world), ["Warning RemovalHeld"]);
    // Cause further plans of the add-on.
    policy(&mut world, json!({"soak": "2s"}));
    template(&mut world, "msa", "msa:0.4.1");
    assert!(!rest(&mut world).contains(&"Warning RemovalHeld".to_owned()));
}

#[test]
fn a_replica_set_reports_each_step_of_its_rollouts_once() {
    for seed in SEEDS {
        tell_of_a_replica_set(seeded(seed, 4));
    }
}

fn tell_of_a_replica_set(mut world: World) {
    let rest = |world: &mut World| {
        world.run_for(seconds(120)).unwrap();
        new_events(world, "ManifestWorkReplicaSet")
    };
    select_all(&mut world);
    replica_sets::set(&mut world, "1", progressive());
    assert_eq!(rest(&mut world), ["Normal RolloutStarted", "Normal RolloutCompleted"]);
    let update = |template: Value| json!({"manifestWorkTemplate": template, "placementRefs": replica_sets::refs("fleet", progressive())});
    replica_sets::set_with(&mut world, update(replica_sets::bad()));
    let stopped = ["Normal RolloutStarted", "Warning RolloutStopped", "Warning ClusterFailing"];
    assert_eq!(rest(&mut world), stopped);
    policy(&mut world, json!({"approval": {"mode": "BetweenGroups"}}));
    replica_sets::set(&mut world, "2", progressive());
    assert_eq!(rest(&mut world), ["Normal RolloutStarted", "Warning ApprovalNeeded"]);
    policy(&mut world, json!({"approval": {"mode": "Never"}}));
    assert_eq!(rest(&mut world), ["Normal RolloutCompleted"]);
    // Another controller writes the policy's status too, so the write of the set's record may conflict.
    let always = json!([{"name": "always", "schedule": "* * * * *", "duration": "2m"}]);
    policy(&mut world, json!({"freezeWindows": always}));
    replica_sets::set(&mut world, "3", progressive());
    let frozen = rest(&mut world);
    assert!(!frozen.is_empty() && frozen.iter().all(|event| event == "Normal RolloutFrozen"), "{frozen:?}");
}
