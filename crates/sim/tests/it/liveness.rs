//! Clusters that stop reporting, have a wrong clock, or have an unresponsive API server.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::json;

use crate::fixtures::{ADDON, addon, is_completed, put, seconds, seeded, select_all, template, world};
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::cluster::v1::ManagedCluster;
use api::cluster::v1beta1::PlacementDecision;
use api::condition::find_condition;
use api::names::{PLACEMENT_LABEL, UNREACHABLE_TAINT};
use object::{Key, Metadata as _, Object};
use sim::{World, Write};

pub(crate) const AVAILABLE: &str = "ManagedClusterConditionAvailable";
const CLOCK_SYNCED: &str = "ManagedClusterConditionClockSynced";

/// Returns the status, reason and message of a condition of a cluster.
pub(crate) fn condition(world: &World, cluster: &str, type_: &str) -> (String, String, String) {
    let cluster: ManagedCluster = world.get(&Key::cluster(cluster)).unwrap();
    let condition = find_condition(&cluster.status.unwrap().conditions, type_).cloned().unwrap_or_default();
    (condition.status.to_string(), condition.reason, condition.message)
}

fn taints(world: &World, cluster: &str) -> Vec<String> {
    let cluster: ManagedCluster = world.get(&Key::cluster(cluster)).unwrap();
    cluster.spec.taints.iter().map(|taint| taint.key.rsplit('/').next().unwrap().to_owned()).collect()
}

/// Returns the add-on's availability; `None` while the cluster lacks the add-on.
fn addon_available(world: &World) -> Option<String> {
    let addon: ManagedClusterAddOn = world.get(&Key::namespaced("cluster1", ADDON))?;
    let available = find_condition(&addon.status.unwrap().conditions, "Available").cloned();
    Some(available.unwrap().status.to_string())
}

/// Returns the maximum number of writes per minute to the status of the cluster or one of its add-ons.
fn most_writes_a_minute(world: &mut World) -> usize {
    let mut counts: BTreeMap<_, usize> = BTreeMap::new();
    for write in world.take_history() {
        let status =
            |object: &Option<Arc<Object>>| object.as_ref().and_then(|object| object.0.get("status").cloned());
        let is_about = matches!(write.id.kind.as_str(), "ManagedCluster" | "ManagedClusterAddOn");
        if is_about && status(&write.before) != status(&write.after) {
            *counts.entry((write.id, write.at.as_second() / 60)).or_default() += 1;
        }
    }
    counts.into_values().max().unwrap_or_default()
}

/// Returns a cluster with two add-ons: the agent reports the health of one, and the hub determines the health of
/// the other.
fn with_addons(seed: u64) -> World {
    let mut world = seeded(seed, 1);
    template(&mut world, "msa-0.4.0", "msa:0.4.0");
    addon(&mut world, "msa-0.4.0", json!({"type": "All"}));
    select_all(&mut world);
    assert!(world.run_until(seconds(60), is_completed).unwrap());
    let lease = json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ManagedClusterAddOn",
        "metadata": {"name": "by-lease", "namespace": "cluster1"}, "spec": {}});
    put(&mut world, lease);
    world.run_for(seconds(60)).unwrap();
    world
}

#[test]
fn a_wrong_clock_makes_no_cluster_silent_and_costs_few_writes() {
    for minutes in [-6, 6] {
        let mut world = with_addons(3);
        assert_eq!(condition(&world, "cluster1", CLOCK_SYNCED).1, "ManagedClusterClockSynced");
        world.keep_history();
        world.set_clock("cluster1", SignedDuration::from_mins(minutes));
        for _ in 0..30 {
            world.run_for(seconds(60)).unwrap();
            assert_eq!(condition(&world, "cluster1", AVAILABLE).0, "True", "{minutes} minutes ahead");
        }
        assert_eq!(condition(&world, "cluster1", CLOCK_SYNCED).1, "ManagedClusterClockOutOfSync");
        let most = most_writes_a_minute(&mut world);
        assert!(most <= 5, "{minutes} minutes ahead: {most} writes in one minute");
    }
}

#[test]
fn an_agent_that_cannot_renew_its_lease_and_the_hub_do_not_overwrite_each_other() {
    for minutes in [-6, 0, 6] {
        let mut world = with_addons(4);
        world.set_clock("cluster1", SignedDuration::from_mins(minutes));
        world.spokes.get_mut("cluster1").unwrap().connected = false;
        world.run_for(seconds(360)).unwrap();
        assert_eq!(condition(&world, "cluster1", AVAILABLE).1, "ManagedClusterLeaseUpdateStopped");
        world.keep_history();
        world.spokes.get_mut("cluster1").unwrap().connected = true;
        world.run_for(seconds(180)).unwrap();
        let most = most_writes_a_minute(&mut world);
        assert!(most <= 5, "{minutes} minutes ahead: {most} writes in one minute");
        let settled = (condition(&world, "cluster1", AVAILABLE), addon_available(&world));
        if minutes == 0 {
            assert_eq!((settled.0.0.as_str(), settled.1.as_deref()), ("True", Some("True")));
        }
        world.run_for(seconds(1800)).unwrap();
        assert_eq!(most_writes_a_minute(&mut world), 0, "{minutes} minutes ahead: nothing changes any more");
        assert_eq!((condition(&world, "cluster1", AVAILABLE), addon_available(&world)), settled);
    }
}

#[test]
fn a_clock_that_may_differ_is_not_judged() {
    let mut world = world(1);
    put(
        &mut world,
        json!({"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster", "metadata": {"name": "cluster1", "labels": {"canary": "true"},
            "annotations": {"registration.open-cluster-management.io/skip-clock-sync-check": "true"}},
            "spec": {"hubAcceptsClient": true, "leaseDurationSeconds": 60}}),
    );
    world.set_clock("cluster1", SignedDuration::from_hours(24));
    world.run_for(seconds(300)).unwrap();
    assert_eq!(condition(&world, "cluster1", CLOCK_SYNCED).0, "True");
    assert_eq!(condition(&world, "cluster1", AVAILABLE).0, "True");
}

/// Returns the clusters of the Placement `one`.
fn decided(world: &World) -> Vec<String> {
    let of_one = |decision: &PlacementDecision| decision.label(PLACEMENT_LABEL) == Some("one");
    let decisions = world.list::<PlacementDecision>().into_iter().filter(of_one);
    let decisions = decisions.flat_map(|decision| decision.status.unwrap_or_default().decisions);
    decisions.map(|decision| decision.cluster_name).collect()
}

#[test]
fn the_decision_leaves_a_dead_cluster_when_its_toleration_is_over_and_does_not_come_back() {
    let mut world = world(2);
    select_all(&mut world);
    let toleration = json!({"key": UNREACHABLE_TAINT, "operator": "Exists", "tolerationSeconds": 120});
    put(
        &mut world,
        json!({
            "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement",
            "metadata": {"name": "one", "namespace": "default"},
            "spec": {"numberOfClusters": 1, "tolerations": [toleration]},
        }),
    );
    world.run_for(seconds(60)).unwrap();
    let dead = decided(&world).pop().unwrap();
    let living = if dead == "cluster1" { "cluster2" } else { "cluster1" };

    world.spokes.get_mut(&dead).unwrap().connected = false;
    let is_tainted = |world: &World| !taints(world, &dead).is_empty();
    assert!(world.run_until(seconds(400), is_tainted).unwrap());
    assert_eq!(condition(&world, &dead, AVAILABLE).0, "Unknown");
    let cluster: ManagedCluster = world.get(&Key::cluster(&dead)).unwrap();
    let [taint] = &cluster.spec.taints[..] else { panic!("{:?}", cluster.spec.taints) };
    let added = taint.time_added.as_ref().unwrap().0;
    assert_eq!(taint.key, UNREACHABLE_TAINT);
    // The time is rounded to a second.
    assert!(world.now.duration_since(added).abs() < seconds(1), "{added} at {}", world.now);
    let decisions_of = |world: &mut World| {
        let history = world.take_history();
        let of_one =
            |write: &&Write| write.id.kind == "PlacementDecision" && write.id.key.name.starts_with("one-");
        history.iter().filter(of_one).count()
    };
    world.keep_history();
    world.run_for(seconds(115)).unwrap();
    assert_eq!((decided(&world), decisions_of(&mut world)), (vec![dead.clone()], 0), "it is tolerated");
    // Nothing else happens: the Placement wakes up at that time.
    assert!(
        world.run_until(seconds(20), |world| decided(world) == [living]).unwrap(),
        "{:?}",
        decided(&world)
    );
    let after = world.now.duration_since(added).as_secs();
    assert!((119..=121).contains(&after), "{after} s after the taint");

    decisions_of(&mut world);
    world.spokes.get_mut(&dead).unwrap().connected = true;
    world.run_for(seconds(900)).unwrap();
    assert_eq!((condition(&world, &dead, AVAILABLE).0.as_str(), taints(&world, &dead).len()), ("True", 0));
    assert_eq!(
        (decided(&world), decisions_of(&mut world)),
        (vec![living.to_owned()], 0),
        "it does not flap back"
    );
}

#[test]
fn a_spoke_whose_api_server_does_not_respond_is_unavailable_and_recovers() {
    let mut world = world(1);
    world.spokes.get_mut("cluster1").unwrap().answers = false;
    world.run_for(seconds(90)).unwrap();
    let (status, reason, message) = condition(&world, "cluster1", AVAILABLE);
    assert_eq!((status.as_str(), reason.as_str()), ("False", "ManagedClusterKubeAPIServerUnavailable"));
    assert_eq!(message, "The kube-apiserver is not ok, it does not respond");
    assert_eq!(taints(&world, "cluster1"), ["unavailable"]);
    world.run_for(seconds(600)).unwrap();
    assert_eq!(condition(&world, "cluster1", AVAILABLE).0, "False", "its agent is alive");
    world.spokes.get_mut("cluster1").unwrap().answers = true;
    world.run_for(seconds(90)).unwrap();
    assert_eq!(condition(&world, "cluster1", AVAILABLE).0, "True");
    assert!(taints(&world, "cluster1").is_empty());
}
