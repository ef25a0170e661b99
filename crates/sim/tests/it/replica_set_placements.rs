//! Clusters and works that leave the placements of a ManifestWorkReplicaSet or belong to several of them.

use serde_json::{Value, json};

use crate::fixtures::{cluster, progressive, put, seconds, select, select_all, world};
use crate::replica_sets::{bad, condition, get, policy, refs, set, set_with, settle, template, values};
use crate::reports::caches;
use api::cluster::v1beta1::Placement;
use api::condition::Conditions as _;
use api::work::v1::ManifestWork;
use controllers::hub::overview::Overview;
use object::{Key, Metadata as _};
use sim::World;

/// Approves the set's request, using the token from its condition.
fn approve(world: &mut World) {
    let set_now = get(world);
    let message = &set_now.condition("PlacementRolledOut").unwrap().message;
    let token = message.split("add ").nth(1).unwrap().split(' ').next().unwrap();
    policy(world, json!({"approved": [token]}));
}

/// Creates a placement that selects the clusters with the given labels.
fn placement(world: &mut World, name: &str, labels: Value) {
    let predicate = json!({"requiredClusterSelector": {"labelSelector": {"matchLabels": labels}}});
    put(
        world,
        json!({
            "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement",
            "metadata": {"name": name, "namespace": "default"}, "spec": {"predicates": [predicate]},
        }),
    );
}

/// OCM's controller leaves a work behind if the cluster leaves while the work is out of date.
#[test]
fn a_cluster_that_leaves_before_its_turn_loses_its_work() {
    let mut world = world(3);
    select_all(&mut world);
    set(&mut world, "1", progressive());
    settle(&mut world);
    set_with(
        &mut world,
        json!({"manifestWorkTemplate": bad(), "placementRefs": refs("fleet", progressive())}),
    );
    assert!(world.run_until(seconds(30), |world| values(world)[0] == "bad").unwrap());
    select(&mut world, json!({"canary": "true"}));
    policy(&mut world, json!({"removalBudget": "100%"}));
    world.run_for(seconds(60)).unwrap();
    assert_eq!(values(&world), ["bad"]);
}

#[test]
fn more_works_than_the_budget_stay_until_their_removal_is_approved() {
    let mut world = world(4);
    select_all(&mut world);
    set(&mut world, "1", json!({"type": "All"}));
    settle(&mut world);
    select(&mut world, json!({"canary": "true"}));
    world.run_for(seconds(60)).unwrap();
    assert_eq!(world.list::<ManifestWork>().len(), 4);
    let overview = Overview::read(&caches(&world), world.now).unwrap();
    let progress = overview.replica_sets[0].progress();
    assert_eq!(progress, "1 of 1 cluster done, still on 3 clusters that no placement selects");
    approve(&mut world);
    settle(&mut world);
    assert_eq!(world.list::<ManifestWork>().len(), 1);
    select_all(&mut world);
    assert!(world.run_until(seconds(60), |world| world.list::<ManifestWork>().len() == 4).unwrap());
    settle(&mut world);
    select(&mut world, json!({"canary": "true"}));
    world.run_for(seconds(60)).unwrap();
    assert_eq!(world.list::<ManifestWork>().len(), 4, "the approval was for the first removal");
    approve(&mut world);
    settle(&mut world);
    assert_eq!(world.list::<ManifestWork>().len(), 1);
}

/// One commit must not empty a fleet, whether it edits the placement or the set.
#[test]
fn an_edit_of_the_placements_of_a_set_removes_no_more_works_than_the_budget() {
    let mut world = world(4);
    select_all(&mut world);
    set(&mut world, "1", json!({"type": "All"}));
    settle(&mut world);
    placement(&mut world, "nobody", json!({"region": "none"}));
    world.run_for(seconds(10)).unwrap();
    let edited = refs("nobody", json!({"type": "All"}));
    set_with(&mut world, json!({"manifestWorkTemplate": template("1"), "placementRefs": edited}));
    world.run_for(seconds(60)).unwrap();
    assert_eq!(world.list::<ManifestWork>().len(), 4, "more than the budget");
    policy(&mut world, json!({"paused": true, "removalBudget": "100%"}));
    world.run_for(seconds(60)).unwrap();
    assert_eq!(world.list::<ManifestWork>().len(), 4, "paused");
    policy(&mut world, json!({}));
    world.run_for(seconds(60)).unwrap();
    approve(&mut world);
    world.run_for(seconds(60)).unwrap();
    assert!(world.list::<ManifestWork>().is_empty(), "{:?}", get(&world).status);
}

#[test]
fn a_missing_placement_removes_nothing_and_holds_no_other_back() {
    let mut world = world(3);
    select_all(&mut world);
    set(&mut world, "1", json!({"type": "All"}));
    settle(&mut world);
    let both = json!([{"name": "nowhere"}, {"name": "fleet"}]);
    set_with(&mut world, json!({"manifestWorkTemplate": template("2"), "placementRefs": both}));
    world.run_for(seconds(60)).unwrap();
    assert_eq!(values(&world), ["2", "2", "2"]);
    assert_eq!(condition(&world, "PlacementVerified"), "False PlacementDecisionNotFound");
    world.delete::<Placement>(&Key::namespaced("default", "fleet")).unwrap();
    world.run_for(seconds(60)).unwrap();
    assert_eq!(world.list::<ManifestWork>().len(), 3);
}

#[test]
fn a_cluster_of_two_placements_has_one_work() {
    let mut world = world(2);
    select_all(&mut world);
    placement(&mut world, "canaries", json!({"canary": "true"}));
    let both = json!([{"name": "canaries"}, {"name": "fleet"}]);
    set_with(&mut world, json!({"manifestWorkTemplate": template("1"), "placementRefs": both}));
    settle(&mut world);
    assert_eq!(world.list::<ManifestWork>().len(), 2);
    assert_eq!(get(&world).status.unwrap().summary.desired_total, Some(2));
    // Clusters of a placement that the set no longer names move to the next placement that selects them. The works
    // of the other clusters are removed within the budget.
    set_with(
        &mut world,
        json!({"manifestWorkTemplate": template("1"), "placementRefs": [{"name": "canaries"}]}),
    );
    settle(&mut world);
    let works = world.list::<ManifestWork>();
    assert_eq!(works.iter().map(|work| work.namespace()).collect::<Vec<_>>(), [cluster(0)]);
}
