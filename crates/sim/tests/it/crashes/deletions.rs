//! A ConfigRepo deletes objects while the processes crash.

use super::ownership::{map, map_id, repository};
use super::*;
use crate::fixtures::merged;
use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoStatus};
use api::names::{APPROVE_DELETION_ANNOTATION, FORCE_ANNOTATION};
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

/// Drops `count` objects of a ConfigRepo that may delete one without approval, and keeps one.
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
    let ended = check(&Scenario { prepare: |world| dropped(world, 4), act: approve });
    let left = (0..=4).filter(|i| ended.objects.contains_key(&map_id(&format!("m{i}"))));
    assert_eq!(left.collect::<Vec<_>>(), [0]);
}

/// Returns a commit with an immutable object.
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
