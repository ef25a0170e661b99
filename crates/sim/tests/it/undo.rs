//! A person rolls back next to an existing policy, as `wheelwright rollout undo` does.

use serde_json::json;

use crate::fixtures::{
    ADDON, addon, cluster, images, is_completed, merged, progress, progressive, put, seconds, select,
    select_all, template, world,
};
use crate::replica_sets::{bad, condition, refs, set, set_with, settle, values};
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::condition::find_condition;
use api::gitops::v1alpha1::{RolloutPolicy, RolloutStatus};
use engine::addon::progress as on_cluster;
use object::Key;
use sim::World;

const POLICY: &str = "p";

fn policy(world: &mut World) {
    let kind = json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "RolloutPolicy"});
    put(world, merged(kind, json!({"metadata": {"name": POLICY}, "spec": {"soak": "1s"}})));
}

fn records(world: &World) -> Vec<RolloutStatus> {
    let policy: Option<RolloutPolicy> = world.get(&Key::cluster(POLICY));
    policy.and_then(|policy| policy.status).unwrap_or_default().rollouts
}

/// Writes what the command writes: the quarantine of the revision that is being rolled out.
fn undo(world: &mut World) {
    let mut rollouts = records(world);
    assert!(!rollouts.is_empty(), "the operator keeps a record in the policy");
    for rollout in &mut rollouts {
        rollout.quarantined.clone_from(&rollout.revision);
    }
    world
        .patch_status::<RolloutPolicy>(&Key::cluster(POLICY), json!({"status": {"rollouts": rollouts}}))
        .unwrap();
}

/// Returns the reason of the add-on's Progressing condition on each cluster.
fn progressing(world: &World) -> Vec<String> {
    let reason = |addon: &ManagedClusterAddOn| {
        let conditions = &addon.status.as_ref()?.conditions;
        Some(find_condition(conditions, "Progressing")?.reason.clone())
    };
    world.list::<ManagedClusterAddOn>().iter().filter_map(reason).collect()
}

fn counts(world: &World) -> (i32, i32, i32) {
    let counts = records(world).pop().unwrap_or_default().counts;
    (counts.returning, counts.returned, counts.quarantined)
}

/// Returns the number of events about a quarantine since the last call.
fn quarantines(world: &mut World) -> usize {
    world.take_events().iter().filter(|event| event.reason == "RevisionQuarantined").count()
}

/// Returns a fleet on which 0.4.0 succeeded and 0.4.9 stopped at the canary.
fn stopped(clusters: usize) -> World {
    let mut world = world(clusters);
    policy(&mut world);
    template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", progressive());
    select_all(&mut world);
    assert!(world.run_until(seconds(120), is_completed).unwrap(), "{:?}", progress(&world));
    template(&mut world, "msa", "msa:0.4.9");
    world.run_for(seconds(120)).unwrap();
    assert_eq!(images(&world)[0], "0.4.9", "the canary has it, and nothing more happens");
    world
}

#[test]
fn an_undone_add_on_returns_at_once_and_reports_it() {
    for restarts in [false, true] {
        let mut world = stopped(3);
        world.take_events();
        undo(&mut world);
        let is_assigned = |world: &World| counts(world).0 == 1;
        assert!(world.run_until(seconds(2), is_assigned).unwrap(), "{:?}", records(&world));
        assert!(
            progress(&world).1.contains("rolling back 1 cluster, 2 clusters run"),
            "{:?}",
            progress(&world)
        );
        assert_eq!(quarantines(&mut world), 1);
        if restarts {
            world.restart_operator();
        }
        let is_back = |world: &World| images(world) == ["0.4.0"; 3] && counts(world) == (0, 3, 0);
        assert!(world.run_until(seconds(15), is_back).unwrap(), "{:?} {:?}", images(&world), records(&world));
        assert_eq!(progressing(&world), ["Completed"; 3]);
        assert!(
            progress(&world).1.contains("rolled back; 3 clusters run the previous revision"),
            "{:?}",
            progress(&world)
        );
        assert_eq!(quarantines(&mut world), 0, "an event reports a change, once");
    }
}

#[test]
fn an_undone_set_returns_at_once() {
    let mut world = world(3);
    select_all(&mut world);
    policy(&mut world);
    set(&mut world, "1", progressive());
    settle(&mut world);
    set_with(
        &mut world,
        json!({"manifestWorkTemplate": bad(), "placementRefs": refs("fleet", progressive())}),
    );
    world.run_for(seconds(120)).unwrap();
    assert_eq!(values(&world), ["bad", "1", "1"], "{}", condition(&world, "PlacementRolledOut"));
    undo(&mut world);
    let is_back = |world: &World| values(world) == ["1"; 3] && counts(world) == (0, 3, 0);
    assert!(world.run_until(seconds(5), is_back).unwrap(), "{:?} {:?}", values(&world), records(&world));
}

/// The previous version never completed on all clusters.
#[test]
fn a_cluster_returns_to_the_version_that_succeeded_on_it_alone() {
    let mut world = world(2);
    policy(&mut world);
    world.spokes.get_mut(&cluster(1)).unwrap().workloads.images.clear();
    template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", progressive());
    select_all(&mut world);
    world.run_for(seconds(60)).unwrap();
    template(&mut world, "msa", "msa:0.4.1");
    world.run_for(seconds(60)).unwrap();
    assert_eq!((images(&world)[0].as_str(), progressing(&world)[0].as_str()), ("0.4.1", "Completed"));
    world.restart_operator();
    undo(&mut world);
    let is_back = |world: &World| images(world)[0] == "0.4.0" && progressing(world)[0] == "Completed";
    assert!(world.run_until(seconds(15), is_back).unwrap(), "{:?} {:?}", images(&world), records(&world));
    // The next version fails too, and the cluster does not return to the rolled-back one.
    template(&mut world, "msa", "msa:0.4.9");
    let is_tried = |world: &World| images(world)[0] == "0.4.9";
    assert!(world.run_until(seconds(60), is_tried).unwrap(), "{:?}", images(&world));
    undo(&mut world);
    assert!(world.run_until(seconds(15), is_back).unwrap(), "{:?} {:?}", images(&world), records(&world));
}

#[test]
fn a_cluster_returns_to_the_template_that_succeeded_on_it_alone() {
    let mut world = world(2);
    select_all(&mut world);
    policy(&mut world);
    world.spokes.get_mut(&cluster(1)).unwrap().connected = false;
    for value in ["1", "2"] {
        set(&mut world, value, progressive());
        let arrived = |world: &World| values(world)[0] == value;
        assert!(world.run_until(seconds(30), arrived).unwrap(), "{:?}", values(&world));
        world.run_for(seconds(10)).unwrap();
    }
    undo(&mut world);
    let is_back = |world: &World| values(world)[0] == "1";
    assert!(world.run_until(seconds(5), is_back).unwrap(), "{:?} {:?}", values(&world), records(&world));
}

/// The cluster leaves the placement while a version is quarantined, and comes back.
#[test]
fn a_cluster_that_returns_during_a_quarantine_gets_the_last_good_version() {
    let mut world = stopped(1);
    undo(&mut world);
    world.run_for(seconds(15)).unwrap();
    assert_eq!(images(&world), ["0.4.0"]);
    select(&mut world, json!({"no": "such"}));
    let is_gone = |world: &World| world.list::<ManagedClusterAddOn>().is_empty();
    assert!(world.run_until(seconds(30), is_gone).unwrap());
    select(&mut world, json!({}));
    let is_back = |world: &World| images(world) == ["0.4.0"] && progressing(world) == ["Completed"];
    assert!(world.run_until(seconds(30), is_back).unwrap(), "{:?} {:?}", images(&world), records(&world));
    let addon: ManagedClusterAddOn = world.get(&Key::namespaced("cluster1", ADDON)).unwrap();
    assert!(on_cluster::last_good(&addon).is_some());
}
