//! Policies that change while add-ons wait for them.

use serde_json::{Value, json};

use crate::fixtures::{addon, is_completed, merged, put, seconds, select, select_all, template, world};
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::condition::find_condition;
use api::gitops::v1alpha1::RolloutPolicy;
use object::Key;
use sim::World;

fn policy(world: &mut World, spec: Value) {
    let kind = json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "RolloutPolicy"});
    put(world, merged(kind, json!({"metadata": {"name": "p"}, "spec": spec})));
}

#[test]
fn a_removal_that_waits_goes_on_when_a_policy_allows_it() {
    let mut world = world(3);
    template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", json!({"type": "All"}));
    select_all(&mut world);
    assert!(world.run_until(seconds(60), is_completed).unwrap());
    select(&mut world, json!({"no": "such"}));
    world.run_for(seconds(30)).unwrap();
    assert_eq!(world.list::<ManagedClusterAddOn>().len(), 3, "more than the budget waits");
    policy(&mut world, json!({"removalBudget": "100%"}));
    world.run_for(seconds(30)).unwrap();
    assert_eq!(world.list::<ManagedClusterAddOn>().len(), 0);
}

#[test]
fn a_policy_that_asks_for_less_lets_a_rollout_complete() {
    let mut world = world(1);
    policy(&mut world, json!({"success": "Available"}));
    template(&mut world, "msa", "msa:0.4.9");
    addon(&mut world, "msa", json!({"type": "All"}));
    select_all(&mut world);
    world.run_for(seconds(60)).unwrap();
    assert!(!is_completed(&world), "its pods never run");
    policy(&mut world, json!({"success": "Applied"}));
    world.run_for(seconds(30)).unwrap();
    assert!(is_completed(&world));
}

#[test]
fn a_policy_says_whether_it_is_in_force_and_what_waits_for_a_person() {
    let mut world = world(3);
    template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", json!({"type": "All"}));
    select_all(&mut world);
    policy(&mut world, json!({"soak": "1s"}));
    assert!(world.run_until(seconds(60), is_completed).unwrap());
    let condition = |world: &World, type_: &str| {
        let status = world.get::<RolloutPolicy>(&Key::cluster("p")).unwrap().status.unwrap();
        let condition = find_condition(&status.conditions, type_).unwrap();
        (condition.is_true(), condition.reason.clone(), condition.message.clone())
    };
    assert!(condition(&world, "Ready").0 && !condition(&world, "ApprovalNeeded").0);
    select(&mut world, json!({"no": "such"}));
    world.run_for(seconds(30)).unwrap();
    let (needed, _, message) = condition(&world, "ApprovalNeeded");
    assert!(needed && message.contains("remove/"), "{message}");
    policy(&mut world, json!({"freezeWindows": [{"name": "w", "schedule": "no", "duration": "1h"}]}));
    world.run_for(seconds(30)).unwrap();
    let (ready, reason, message) = condition(&world, "Ready");
    assert_eq!((ready, reason.as_str()), (false, "InvalidPolicy"), "{message}");
    assert!(message.contains("freezeWindows") || message.contains("schedule"), "{message}");
}
