//! Tests the deletion of an add-on: its jobs and its leftovers.

use super::*;
use crate::hub::deploy::DeployController;
use crate::hub::tests::{Demo, World, message, variables, words};
use api::names::{ADDON_NAME_LABEL, CLUSTER_NAME_LABEL};
use object::Key;
use reconcile::{Action, Controller as _};
use serde_json::{Value, json};

/// Returns an add-on with a job whose deletion began at midnight.
fn deleted() -> World {
    let mut world = World::new(&[("JOB", "yes")]);
    world.addon["metadata"]["finalizers"] = json!(["addon.open-cluster-management.io/addon-pre-delete"]);
    world.addon["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    world
}

fn plan(world: &World, now: &str) -> Plan {
    let key = Key::namespaced("c1", "a");
    DeployController::<Demo>::plan(&key, &world.caches(), now.parse().unwrap()).unwrap()
}

/// Returns the work with the job in a plan.
fn hook(plan: &Plan) -> Value {
    let work = |action: &Action| match action {
        Action::Apply { object, .. } if object.name() == "addon-a-pre-delete" => Some(object.clone()),
        _ => None,
    };
    plan.steps.iter().flatten().find_map(work).unwrap().into_value()
}

/// Returns the reasons of the events in a plan's status write.
fn events(plan: &Plan) -> Vec<&str> {
    plan.status.iter().flat_map(|write| &write.events).map(|event| event.reason.as_str()).collect()
}

#[test]
fn the_jobs_of_an_addon_that_is_deleted_in_the_middle_of_a_rollout_run() {
    let mut world = deleted();
    world.variables = variables(&[("JOB", "yes"), ("TEXT", "its turn has not come")]);
    let hook = hook(&plan(&world, "2026-01-01T00:00:01Z"));
    world.works = vec![serde_json::from_value(hook).unwrap()];
    world.variables = Value::Null;
    let waits = plan(&world, "2026-01-01T00:00:02Z");
    assert_eq!(words(&waits), [""; 0], "the job goes on without the configuration");
    let condition = message(&waits, "HookManifestCompleted").unwrap();
    assert!(condition.contains("jobs default/clean has not completed"), "{condition}");
}

#[test]
fn a_slow_or_failed_job_is_reported() {
    let mut world = deleted();
    let first = plan(&world, "2026-01-01T00:09:59Z");
    assert_eq!((events(&first), first.wake_at), (vec![], Some("2026-01-01T00:10:00Z".parse().unwrap())));
    assert_eq!(events(&plan(&world, "2026-01-01T00:10:00Z")), ["HookNotCompleted"]);
    let mut hook = hook(&first);
    let meta =
        json!({"ordinal": 0, "group": "batch", "resource": "jobs", "name": "clean", "namespace": "default"});
    let value = json!({"name": "JobFailed", "fieldValue": {"type": "String", "string": "no disk"}});
    let available = json!({"type": "Available", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    hook["status"] = json!({"conditions": [available],
        "resourceStatus": {"manifests": [{"resourceMeta": meta, "conditions": [], "statusFeedback": {"values": [value]}}]}});
    world.works = vec![serde_json::from_value(hook).unwrap()];
    assert_eq!(events(&plan(&world, "2026-01-01T00:00:01Z")), ["HookFailed"]);
    (world.works, world.variables) = (Vec::new(), Value::Null);
    let late = plan(&world, "2026-01-01T00:10:00Z");
    assert_eq!((words(&late), events(&late)), (vec![], vec!["HookNotCompleted"]));
    let condition = message(&late, "HookManifestCompleted").unwrap();
    assert!(condition.contains("its configuration is missing"), "{condition}");
}

#[test]
fn a_deleted_addon_leaves_no_works_and_permissions_without_a_garbage_collector() {
    let mut world = World::new(&[]);
    let owner = json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ManagedClusterAddOn", "name": "a", "uid": "u", "controller": true});
    let labels = json!({ADDON_NAME_LABEL: "a", CLUSTER_NAME_LABEL: "c1"});
    let of_addon = |name: &str| json!({"metadata": {"name": name, "namespace": "c1", "uid": "u", "labels": labels, "ownerReferences": [owner]}, "spec": {}});
    let permission = "open-cluster-management:a:agent";
    let mut binding = of_addon(permission);
    binding["roleRef"] = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": permission});
    let mut shared = binding.clone();
    shared["metadata"]["namespace"] = json!("shared");
    shared["metadata"]["name"] = json!("open-cluster-management:a:role:reader:agent:c1");
    (world.roles, world.bindings) = (vec![of_addon(permission)], vec![binding, shared]);
    let mut foreign = of_addon("w");
    foreign["metadata"]["ownerReferences"] = json!([]);
    let works = [of_addon("addon-a-deploy-0"), foreign];
    world.works = works.into_iter().map(|work| serde_json::from_value(work).unwrap()).collect();
    world.addon = Value::Null;
    world.exists = true;
    let now = "2026-01-01T00:00:00Z";
    assert!(plan(&world, now).is_empty(), "the list left the add-on out");
    world.exists = false;
    let first = plan(&world, now);
    assert_eq!(words(&first), ["delete ManifestWork"]);
    assert!(first.wake_at.is_some(), "an agent that keeps the work loses its permissions");
    world.works.remove(0);
    assert_eq!(words(&plan(&world, now)), ["delete RoleBinding", "delete RoleBinding", "delete Role"]);
}
