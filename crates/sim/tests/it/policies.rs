//! Policies that change while add-ons are waiting for them.

use serde_json::{Value, json};

use crate::fixtures::{
    ADDON, addon, images, is_completed, merged, progress, progressive, put, seconds, select, select_all,
    template, world,
};
use crate::replica_sets::{SET, bad, refs, set, set_with, settle, values};
use api::addon::v1alpha1::{AddOnTemplate, ManagedClusterAddOn};
use api::condition::find_condition;
use api::gitops::v1alpha1::{RolloutPolicy, RolloutStatus};
use api::work::v1alpha1::ManifestWorkReplicaSet;
use object::Key;
use sim::World;

fn policy(world: &mut World, spec: Value) {
    named_policy(world, "p", spec);
}

fn named_policy(world: &mut World, name: &str, spec: Value) {
    let kind = json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "RolloutPolicy"});
    put(world, merged(kind, json!({"metadata": {"name": name}, "spec": spec})));
}

#[test]
fn a_waiting_removal_continues_when_a_policy_allows_it() {
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

/// A person adds a pause next to the repository's policy.
#[test]
fn a_second_policy_holds_an_add_on_and_each_says_what_it_contributes() {
    let mut world = world(3);
    named_policy(&mut world, "own", json!({"addOns": [ADDON], "soak": "1s", "unreachableBudget": "50%"}));
    template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", progressive());
    select_all(&mut world);
    assert!(world.run_until(seconds(120), is_completed).unwrap(), "{:?}", progress(&world));
    for (name, spec) in
        [("zz-all", json!({"paused": true})), ("zz-named", json!({"paused": true, "addOns": [ADDON]}))]
    {
        named_policy(&mut world, name, spec);
        template(&mut world, "msa", "msa:0.4.1");
        world.run_for(seconds(60)).unwrap();
        assert_eq!(images(&world), ["0.4.0"; 3], "{name}");
        let message = progress(&world).1;
        assert!(
            message.contains(&format!("waits for the pause by RolloutPolicy {name} to end")),
            "{message}"
        );
        let in_force = |policy: &str| {
            let status = world.get::<RolloutPolicy>(&Key::cluster(policy)).unwrap().status.unwrap();
            let condition = find_condition(&status.conditions, "InForce").unwrap();
            (condition.is_true(), condition.message.clone())
        };
        let rules = format!("{ADDON}: paused of {name}, soak of own, unreachableBudget of own");
        assert_eq!(in_force("own"), (true, rules.clone()));
        assert!(in_force(name).1.starts_with(&rules), "{:?}", in_force(name));
        world.delete::<RolloutPolicy>(&Key::cluster(name)).unwrap();
        let arrived = |world: &World| is_completed(world) && images(world) == ["0.4.1"; 3];
        assert!(world.run_until(seconds(120), arrived).unwrap(), "{:?}", progress(&world));
        template(&mut world, "msa", "msa:0.4.0");
        let is_back = |world: &World| is_completed(world) && images(world) == ["0.4.0"; 3];
        assert!(world.run_until(seconds(120), is_back).unwrap(), "{:?}", progress(&world));
    }
}

#[test]
fn the_last_valid_strategy_stays_in_force_without_a_policy() {
    let mut world = world(4);
    template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", progressive());
    select_all(&mut world);
    assert!(world.run_until(seconds(120), is_completed).unwrap(), "{:?}", progress(&world));
    let mut invalid = progressive();
    invalid["progressive"]["progressDeadline"] = json!("10mfoo");
    addon(&mut world, "msa", invalid);
    world.run_for(seconds(10)).unwrap();
    world.restart_operator();
    template(&mut world, "msa", "msa:0.4.1");
    let is_begun = |world: &World| images(world).iter().any(|image| image == "0.4.1");
    assert!(world.run_until(seconds(30), is_begun).unwrap(), "{:?}", progress(&world));
    assert_eq!(images(&world), ["0.4.1", "0.4.0", "0.4.0", "0.4.0"], "the canary goes first");
    let is_everywhere = |world: &World| images(world).iter().all(|image| image == "0.4.1");
    assert!(world.run_until(seconds(120), is_everywhere).unwrap(), "{:?}", progress(&world));
    assert!(progress(&world).1.contains("progressDeadline"), "{:?}", progress(&world));
}

/// Returns the record of the rollout.
fn record(world: &World) -> RolloutStatus {
    records_in(world, "p").pop().unwrap_or_default()
}

fn records_in(world: &World, policy: &str) -> Vec<RolloutStatus> {
    let policy: RolloutPolicy = world.get(&Key::cluster(policy)).unwrap();
    policy.status.unwrap_or_default().rollouts
}

/// Returns two clusters. The canary failed with 0.4.9 and returned to the previous version.
fn rolled_back() -> World {
    let mut world = world(2);
    policy(&mut world, json!({"onBreach": "Rollback"}));
    template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", progressive());
    select_all(&mut world);
    assert!(world.run_until(seconds(120), is_completed).unwrap(), "{:?}", progress(&world));
    template(&mut world, "msa", "msa:0.4.9");
    let is_back = |world: &World| !record(world).quarantined.is_empty() && images(world) == ["0.4.0"; 2];
    assert!(world.run_until(seconds(120), is_back).unwrap(), "{:?}", progress(&world));
    world
}

#[test]
fn a_quarantine_ends_with_the_next_content_and_is_forgotten() {
    let mut world = rolled_back();
    template(&mut world, "msa", "msa:0.4.1");
    let arrived = |world: &World| is_completed(world) && images(world) == ["0.4.1"; 2];
    assert!(world.run_until(seconds(120), arrived).unwrap(), "{:?}", progress(&world));
    assert_eq!(record(&world).quarantined, "");
    template(&mut world, "msa", "msa:0.4.9");
    let tried = |world: &World| images(world) == ["0.4.9", "0.4.1"];
    assert!(world.run_until(seconds(30), tried).unwrap(), "{:?}", progress(&world));
}

/// A tool replaces the template with its own copy, or a commit that breaks the template is reverted.
#[test]
fn a_quarantine_outlasts_a_configuration_that_is_missing_or_invalid_for_a_while() {
    let mut world = rolled_back();
    let revision = record(&world).quarantined;
    world.delete::<AddOnTemplate>(&Key::cluster("msa")).unwrap();
    world.run_for(seconds(30)).unwrap();
    template(&mut world, "msa", "msa:0.4.9{{");
    world.run_for(seconds(30)).unwrap();
    template(&mut world, "msa", "msa:0.4.9");
    let is_tried = |world: &World| images(world).iter().any(|image| image == "0.4.9");
    assert!(!world.run_until(seconds(300), is_tried).unwrap(), "{:?}", progress(&world));
    assert_eq!(record(&world).quarantined, revision);
}

/// A commit adds a policy that names the add-on, then removes the name from it, and then from every policy.
#[test]
fn a_quarantine_moves_with_its_add_on_from_policy_to_policy() {
    let mut world = rolled_back();
    let before = record(&world);
    let is_tried = |world: &World| images(world).iter().any(|image| image == "0.4.9");
    let moves = [
        ("q", json!({"addOns": [ADDON]}), "q", "p"),
        ("q", json!({"addOns": ["other"]}), "p", "q"),
        ("p", json!({"addOns": ["other"], "onBreach": "Rollback"}), "wheelwright-default", "p"),
    ];
    for (changed, spec, to, from) in moves {
        named_policy(&mut world, changed, spec);
        world.restart_operator();
        assert!(!world.run_until(seconds(120), is_tried).unwrap(), "{to}: {:?}", progress(&world));
        let records = records_in(&world, to);
        let quarantined: Vec<&str> = records.iter().map(|record| record.quarantined.as_str()).collect();
        assert_eq!(quarantined, [&before.quarantined], "{to}");
        assert_eq!(
            (&records[0].strategy, &records[0].last_good),
            (&before.strategy, &before.last_good),
            "{to}"
        );
        assert!(records_in(&world, from).is_empty(), "{from}");
    }
    template(&mut world, "msa", "msa:0.4.1");
    let arrived = |world: &World| is_completed(world) && images(world) == ["0.4.1"; 2];
    assert!(world.run_until(seconds(120), arrived).unwrap(), "{:?}", progress(&world));
}

#[test]
fn a_quarantine_of_a_set_outlasts_its_policy_and_ends_with_the_set() {
    let mut world = world(4);
    select_all(&mut world);
    policy(&mut world, json!({"replicaSets": ["default/settings"], "onBreach": "Rollback"}));
    set(&mut world, "1", progressive());
    settle(&mut world);
    let spec = json!({"manifestWorkTemplate": bad(), "placementRefs": refs("fleet", progressive())});
    set_with(&mut world, spec);
    let is_back = |world: &World| !record(world).quarantined.is_empty() && values(world) == ["1"; 4];
    assert!(world.run_until(seconds(300), is_back).unwrap(), "{:?}", record(&world));
    policy(&mut world, json!({"replicaSets": ["default/other"]}));
    let is_tried = |world: &World| values(world).contains(&"bad".to_owned());
    assert!(!world.run_until(seconds(120), is_tried).unwrap());
    let records = records_in(&world, "wheelwright-default");
    assert!(
        records.len() == 1 && !records[0].quarantined.is_empty() && !records[0].last_good.is_empty(),
        "{records:?}"
    );
    assert!(records_in(&world, "p").is_empty());
    world.delete::<ManifestWorkReplicaSet>(&Key::namespaced("default", SET)).unwrap();
    world.run_for(seconds(30)).unwrap();
    assert!(records_in(&world, "wheelwright-default").is_empty());
}

#[test]
fn a_quarantine_stays_until_a_person_releases_the_revision() {
    let mut world = rolled_back();
    let revision = record(&world).quarantined;
    for spoke in world.spokes.values_mut() {
        spoke.workloads.images.insert("msa:0.4.9".into());
    }
    world.restart_operator();
    world.run_for(seconds(1800)).unwrap();
    assert_eq!((images(&world), record(&world).quarantined), (vec!["0.4.0".to_owned(); 2], revision.clone()));
    policy(&mut world, json!({"onBreach": "Rollback", "releasedRevisions": [revision]}));
    let arrived = |world: &World| is_completed(world) && images(world) == ["0.4.9"; 2];
    assert!(world.run_until(seconds(120), arrived).unwrap(), "{:?}", progress(&world));
    assert_eq!(record(&world).quarantined, "");
}
