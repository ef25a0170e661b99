//! A ConfigRepo deletes objects while the processes crash.

use super::ownership::{map, map_id, repository};
use super::*;
use crate::fixtures::merged;
use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoStatus};
use api::names::{APPROVE_DELETION_ANNOTATION, FORCE_ANNOTATION};
use k8s_openapi::api::core::v1::ConfigMap;
use store::{Patch, ResourcePath, WriteOptions};

pub(super) fn status(world: &World) -> ConfigRepoStatus {
    world.get::<ConfigRepo>(&repo()).unwrap().status.unwrap()
}

/// Sets an annotation of the ConfigRepo, as a person does.
pub(super) fn annotate(world: &mut World, annotation: &str, value: &str) {
    let patch = Patch::Merge(json!({"metadata": {"annotations": {annotation: value}}}));
    let path = ResourcePath::of::<ConfigRepo>(&repo());
    world.hub.patch(&path, &patch, &WriteOptions::manager("approver"), world.now).unwrap();
}

fn approve(world: &mut World) {
    let approval = status(world).held_deletions.unwrap().approval;
    annotate(world, APPROVE_DELETION_ANNOTATION, &approval);
}

/// Drops objects of a ConfigRepo that may delete one without an approval, and keeps one.
fn dropped(world: &mut World, count: usize) {
    repository(world, json!({"deletionBudget": {"objects": 1, "window": "0s"}}));
    let maps: Vec<Value> = (0..=count).map(|i| map(&format!("m{i}"), "1")).collect();
    commit(world, 1, tree(&maps));
    world.run_for(seconds(10)).unwrap();
    commit(world, 2, tree(&maps[..1]));
    world.run_for(seconds(10)).unwrap();
}

#[test]
fn approved_deletions_survive_a_crash_at_every_write() {
    // After the first deletion, the second one is within the budget.
    let ended = check(&Scenario { prepare: |world| dropped(world, 2), act: approve });
    let left = ["m0", "m1", "m2"].map(|name| ended.objects.contains_key(&map_id(name)));
    assert_eq!(left, [true, false, false]);
}

#[test]
fn approved_deletions_that_a_crash_interrupts_need_another_approval_where_more_than_the_budget_are_left() {
    let is_there = |world: &World, i: usize| {
        world.get::<ConfigMap>(&Key::namespaced("config", format!("m{i}"))).is_some()
    };
    let mut asked = 0;
    for writes in 1..=4 {
        let mut world = World::new(7, Timestamp::from_second(1_800_000_000).unwrap());
        dropped(&mut world, 4);
        world.kill_operator_after(writes);
        approve(&mut world);
        world.run_for(seconds(60)).unwrap();
        assert!(!world.crashes_operator(), "there are fewer than {writes} writes");
        let left = (1..=4).filter(|i| is_there(&world, *i)).count();
        let held = status(&world).held_deletions.map_or(0, |held| held.total);
        assert_eq!(usize::try_from(held), Ok(left), "what is left and within the budget is deleted");
        if left > 0 {
            asked += 1;
            approve(&mut world);
            world.run_for(seconds(60)).unwrap();
        }
        let left: Vec<usize> = (0..=4).filter(|i| is_there(&world, *i)).collect();
        assert_eq!(left, [0], "after {writes} writes");
    }
    assert!(asked > 0);
}

/// Returns a commit with an object whose data cannot change.
fn with_fixed(data: &str) -> FileTree {
    let rule = json!({"immutable": true, "metadata": {"annotations": {FORCE_ANNOTATION: "enabled"}}});
    tree(&[merged(map("fixed", data), rule), map("other", data)])
}

#[test]
fn an_object_that_is_created_again_survives_a_crash_at_every_write() {
    let prepare = |world: &mut World| {
        repository(world, json!({}));
        commit(world, 1, with_fixed("1"));
    };
    let ended = check(&Scenario { prepare, act: |world| commit(world, 2, with_fixed("2")) });
    let of_fixed = ended.contents[&map_id("fixed")].iter().map(|content| content["data"]["k"].as_str());
    assert_eq!(of_fixed.collect::<Vec<_>>(), [None, Some("2")], "it is deleted and created once");
}

#[test]
fn a_repository_that_is_deleted_with_its_objects_survives_a_crash_at_every_write() {
    let prepare = |world: &mut World| {
        repository(world, json!({"deletionPolicy": "Delete"}));
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "account"}});
        commit(world, 1, tree(&[account, map("a", "1"), map("b", "1")]));
    };
    let act = |world: &mut World| world.delete::<ConfigRepo>(&repo()).unwrap();
    let ended = check(&Scenario { prepare, act });
    let ends = ["ConfigRepo", "ConfigMap config/", "ServiceAccount config/account"];
    let is_left = |(_, id): &&Id| ends.iter().any(|end| id.starts_with(end));
    assert_eq!(ended.objects.keys().find(is_left), None);
}
