//! Rollouts whose clusters do not report in time, because the hub is unavailable or because they fail.

use std::cell::Cell;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::fixtures::{
    self, addon, images, is_completed, progress, progressive, seconds, select_all, with, world,
};
use crate::replica_sets::{bad, get, policy, refs, set, set_with, settle, template, values};
use api::addon::v1alpha1::AddOnTemplate;
use api::condition::Conditions as _;
use api::gitops::v1alpha1::{RolloutPolicy, RolloutStatus};
use object::Key;
use reconcile::{Action, Failure, FailureKind, Outcome, Site};
use sim::{Servers, Setup, World, Write, execute};

thread_local! {
    /// True if the hub's API server accepts no write.
    static IS_AWAY: Cell<bool> = const { Cell::new(false) };
}

fn execute_unless_away(sites: &mut Servers<'_>, manager: &str, action: &Action, now: Timestamp) -> Outcome {
    let is_on_hub = match action {
        Action::Apply { site, .. }
        | Action::Create { site, .. }
        | Action::Replace { site, .. }
        | Action::Patch { site, .. }
        | Action::Delete { site, .. } => *site == Site::Hub,
        Action::Push(_) | Action::SetCommitStatus(_) | Action::Notify(_) => false,
    };
    if is_on_hub && IS_AWAY.get() {
        return Err(Failure { kind: FailureKind::Unavailable, message: "the hub is away".into() });
    }
    execute(sites, manager, action, now)
}

fn strategy(deadline: &str) -> Value {
    json!({"type": "Progressive", "progressive": {"maxConcurrency": 1, "progressDeadline": deadline}})
}

/// Returns two clusters that run a set under a policy that rolls back failures.
fn undoing(deadline: &str) -> World {
    let mut world = world(2);
    select_all(&mut world);
    policy(&mut world, json!({"replicaSets": ["default/settings"], "onBreach": "Rollback"}));
    set(&mut world, "1", strategy(deadline));
    settle(&mut world);
    world
}

/// Returns a world whose first cluster is assigned a template that it never applies.
fn hanging(deadline: &str) -> World {
    let mut world = undoing(deadline);
    set_with(
        &mut world,
        json!({"manifestWorkTemplate": bad(), "placementRefs": refs("fleet", strategy(deadline))}),
    );
    assert!(world.run_until(seconds(30), |world| values(world)[0] == "bad").unwrap());
    world
}

/// Returns two clusters, the first of which was just assigned another version of an add-on. The version becomes
/// ready there in three seconds.
fn arriving(seed: u64) -> World {
    let mut world = with(Setup { execute: execute_unless_away, ..Setup::default() }, seed, 2);
    policy(&mut world, json!({"onBreach": "Rollback"}));
    fixtures::template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", strategy("10m"));
    select_all(&mut world);
    assert!(world.run_until(seconds(120), is_completed).unwrap(), "{:?}", progress(&world));
    fixtures::template(&mut world, "msa", "msa:0.4.1");
    assert!(world.run_until(seconds(30), |world| images(world)[0] == "0.4.1").unwrap());
    world
}

/// Runs until the rollout of the version is complete.
fn arrive(world: &mut World) {
    let is_there = |world: &World| is_completed(world) && images(world) == ["0.4.1"; 2];
    assert!(world.run_until(seconds(120), is_there).unwrap(), "{:?}", progress(world));
    assert_eq!((late_since(world), is_quarantined(world)), (None, false));
}

/// Returns the record of the rollout.
fn record(world: &World) -> RolloutStatus {
    let policy: RolloutPolicy = world.get(&Key::cluster("p")).unwrap();
    policy.status.unwrap().rollouts.pop().unwrap()
}

fn late_since(world: &World) -> Option<Timestamp> {
    record(world).late_since.map(|since| since.0)
}

fn is_quarantined(world: &World) -> bool {
    !record(world).quarantined.is_empty()
}

fn was_awaited(write: &Write) -> bool {
    format!("{:?}", write.after).contains("lateSince")
}

/// Returns the set's condition message about the rollout.
fn reported(world: &World) -> String {
    get(world).condition("PlacementRolledOut").unwrap().message.clone()
}

#[test]
fn a_hub_that_is_down_for_longer_than_the_deadline_quarantines_nothing() {
    let mut decided_first = false;
    for seed in 1..7 {
        let mut world = arriving(seed);
        IS_AWAY.set(true);
        world.run_for(SignedDuration::from_mins(12)).unwrap();
        assert_eq!(
            (record(&world).counts.progressing, late_since(&world)),
            (1, None),
            "{:?}",
            record(&world)
        );
        IS_AWAY.set(false);
        world.restart_operator();
        world.keep_history();
        arrive(&mut world);
        decided_first |= world.take_history().iter().any(was_awaited);
    }
    assert!(decided_first, "the agent reports before the operator decides, in each order of events");
}

#[test]
fn late_clusters_are_rolled_back_after_their_time_across_restarts_with_a_visible_wait() {
    let mut world = hanging("1m");
    assert!(
        world.run_until(seconds(90), |world| late_since(world).is_some()).unwrap(),
        "{}",
        reported(&world)
    );
    let since = late_since(&world).unwrap();
    let until = since + seconds(60);
    let wait =
        format!("the revision is quarantined once late clusters have reported, at {until} at the latest");
    assert!(reported(&world).contains(&wait) && record(&world).hold.contains(&wait), "{}", reported(&world));
    world.keep_history();
    world.run_for(seconds(30)).unwrap();
    world.restart_operator();
    world.run_for(seconds(25)).unwrap();
    let written = world.take_history();
    assert!(written.iter().all(|write| write.id.kind == "Lease"), "nothing is written at rest: {written:?}");
    assert_eq!((late_since(&world), is_quarantined(&world)), (Some(since), false));
    assert!(world.run_until(seconds(10), is_quarantined).unwrap(), "{}", reported(&world));
    assert!(world.now >= until && world.now <= until + seconds(1), "{} {until}", world.now);
    assert_eq!(late_since(&world), None);
    world.run_for(seconds(60)).unwrap();
    assert_eq!(values(&world), ["1", "1"]);
}

#[test]
fn a_record_of_a_clock_that_was_ahead_ends_in_its_time() {
    let mut world = hanging("1m");
    world.set_operator_clock(SignedDuration::from_hours(1));
    assert!(
        world.run_until(seconds(30), |world| late_since(world).is_some()).unwrap(),
        "{}",
        reported(&world)
    );
    world.set_operator_clock(SignedDuration::ZERO);
    assert!(world.run_until(seconds(150), is_quarantined).unwrap(), "{}", reported(&world));
}

#[test]
fn a_jump_of_the_hubs_clock_quarantines_no_revision() {
    let mut world = arriving(1);
    world.set_operator_clock(SignedDuration::from_mins(12));
    assert!(world.run_until(seconds(2), |world| late_since(world).is_some()).unwrap());
    arrive(&mut world);
}

#[test]
fn another_template_starts_its_time_again() {
    let mut world = hanging("1m");
    assert!(
        world.run_until(seconds(90), |world| late_since(world).is_some()).unwrap(),
        "{}",
        reported(&world)
    );
    let first = late_since(&world).unwrap();
    world.run_for(seconds(50)).unwrap();
    let mut other = bad();
    other["workload"]["manifests"][0]["metadata"]["name"] = json!("y");
    set_with(
        &mut world,
        json!({"manifestWorkTemplate": other, "placementRefs": refs("fleet", strategy("1m"))}),
    );
    let is_late = |world: &World| late_since(world).is_some_and(|since| since > first);
    assert!(world.run_until(seconds(90), is_late).unwrap(), "{}", reported(&world));
    assert!(late_since(&world) >= Some(first + seconds(110)) && !is_quarantined(&world));
}

#[test]
fn no_breach_is_recorded_while_the_configuration_of_an_addon_is_missing() {
    let mut world = world(2);
    policy(&mut world, json!({"onBreach": "Rollback"}));
    fixtures::template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", progressive());
    select_all(&mut world);
    assert!(world.run_until(seconds(120), is_completed).unwrap(), "{:?}", progress(&world));
    fixtures::template(&mut world, "msa", "msa:0.4.9");
    assert!(
        world.run_until(seconds(60), |world| late_since(world).is_some()).unwrap(),
        "{:?}",
        record(&world)
    );
    world.delete::<AddOnTemplate>(&Key::cluster("msa")).unwrap();
    world.run_for(seconds(5)).unwrap();
    assert_eq!(late_since(&world), None);
    world.run_for(seconds(60)).unwrap();
    fixtures::template(&mut world, "msa", "msa:0.4.9");
    world.run_for(seconds(5)).unwrap();
    assert!(late_since(&world).is_some() && !is_quarantined(&world), "its time begins anew");
}

#[test]
fn a_failure_that_a_cluster_reports_is_undone_at_once() {
    let mut world = undoing("10m");
    let map = json!({"group": "", "resource": "configmaps", "name": "settings", "namespace": "default"});
    let rule = json!({"type": "CEL", "condition": "Degraded", "celExpressions": ["true"]});
    let mut fails = template("2");
    fails["manifestConfigs"] = json!([{"resourceIdentifier": map, "conditionRules": [rule]}]);
    set_with(
        &mut world,
        json!({"manifestWorkTemplate": fails, "placementRefs": refs("fleet", strategy("10m"))}),
    );
    world.keep_history();
    assert!(world.run_until(seconds(60), is_quarantined).unwrap(), "{}", reported(&world));
    let history = world.take_history();
    assert!(!history.iter().any(was_awaited), "{}", reported(&world));
    world.run_for(seconds(60)).unwrap();
    assert_eq!(values(&world), ["1", "1"]);
}
