//! A commit waits for the health of its objects or for a person while the processes crash.

use super::deletions::{annotate, status};
use super::ownership::{map, map_id, repository};
use super::*;
use api::names::APPROVE_PLAN_ANNOTATION;

fn rollout_policy(on_breach: &str) -> Value {
    json!({
        "apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "RolloutPolicy", "metadata": {"name": "p"},
        "spec": {"onBreach": on_breach},
    })
}

/// Returns a commit with three stages: the policy's controller must observe its change before the Service is
/// created, and the Service must be healthy before the add-on is created.
fn staged() -> FileTree {
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"clusterIP": "None", "selector": {"app": "web"}, "ports": [{"port": 80}]},
    });
    let addon = json!({"apiVersion": format!("{ADDON_GROUP}/v1alpha1"), "kind": "ClusterManagementAddOn",
        "metadata": {"name": "late"}, "spec": {}});
    tree(&[map("stays", "1"), rollout_policy("Pause"), service, addon])
}

#[test]
fn a_commit_whose_stages_wait_for_health_survives_a_crash_at_every_write() {
    let prepare = |world: &mut World| {
        repository(world, json!({}));
        commit(world, 1, tree(&[map("stays", "1"), map("goes", "1"), rollout_policy("Rollback")]));
    };
    let ended = check(&Scenario { prepare, act: |world| commit(world, 2, staged()) });
    let addon = (String::new(), format!("ClusterManagementAddOn.{ADDON_GROUP} late"));
    let left = [map_id("stays"), map_id("goes"), addon].map(|id| ended.objects.contains_key(&id));
    assert_eq!(left, [true, false, true]);
}

/// Leaves a commit that creates, changes and deletes an object waiting for a person's approval.
fn unapproved(world: &mut World) {
    repository(world, json!({}));
    commit(world, 1, tree(&[map("changes", "1"), map("goes", "1")]));
    world.run_for(seconds(10)).unwrap();
    repository(world, json!({"planApproval": "Required"}));
    commit(world, 2, tree(&[map("changes", "2"), map("comes", "2")]));
}

#[test]
fn a_plan_that_a_person_approves_survives_a_crash_at_every_write() {
    let act = |world: &mut World| {
        let plan = status(world).held_plan;
        assert!(!plan.is_empty(), "the plan does not wait");
        annotate(world, APPROVE_PLAN_ANNOTATION, &plan);
    };
    let ended = check(&Scenario { prepare: unapproved, act });
    let left = ["changes", "comes", "goes"].map(|name| ended.objects.get(&map_id(name)));
    assert_eq!(
        left.map(|map| map.map(|map| map["data"]["k"].clone())),
        [Some(json!("2")), Some(json!("2")), None]
    );
}
