//! Tests the reported status after rejected writes, and for healthy and unhealthy works.

use crate::hub::deploy::DeployController;
use crate::hub::tests::{Demo, NOW, World, message, status};
use object::Key;
use reconcile::{Action, Answer, Controller as _, Executed, Failure, FailureKind, Plan};
use serde_json::{Value, json};

fn plan(world: &World) -> Plan {
    DeployController::<Demo>::plan(&Key::namespaced("c1", "a"), &world.caches(), NOW).unwrap()
}

/// Returns the plan for the status after all writes of a kind failed.
fn concluded(kind: &str, failure: FailureKind) -> Plan {
    let world = World::new(&[("TEXT", "hello")]);
    let plan = plan(&world);
    let outcome = |action: &Action| match action.gvk().unwrap().kind == kind {
        true => Err(Failure { kind: failure, message: "no".into() }),
        false => Ok(Answer::Nothing),
    };
    let outcomes = plan.steps.iter().map(|step| step.iter().map(outcome).collect()).collect();
    let done = Executed { plan, outcomes };
    let key = Key::namespaced("c1", "a");
    let mut reported = Plan::nothing();
    reported.status = DeployController::<Demo>::conclude(&key, &world.caches(), &done, NOW).unwrap();
    reported
}

#[test]
fn a_refused_permission_or_work_is_named_on_the_addon_of_a_program_and_degrades_it() {
    for (kind, type_, reason) in [
        ("RoleBinding", "RegistrationApplied", "Failed to set permission for hub agent: no"),
        ("ManifestWork", "ManifestApplied", "failed to apply manifestWork: no"),
    ] {
        let plan = concluded(kind, FailureKind::Forbidden);
        assert_eq!(message(&plan, type_).unwrap(), format!("False: {reason}"));
        assert_eq!(message(&plan, "Degraded").unwrap(), format!("True: {reason}"));
    }
    assert_eq!(concluded("ManifestWork", FailureKind::Unavailable).status, None, "it is tried again");
}

fn condition(type_: &str, status: &str, reason: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": "no room",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1})
}

/// Returns the add-on with its work, which the agent has applied or not, and these conditions.
fn reported(applied: &str, conditions: &[Value]) -> World {
    let mut world = World::new(&[("TEXT", "hello")]);
    let work = |action: &Action| match action {
        Action::Apply { object, .. } if object.kind() == "ManifestWork" => Some(object.clone().into_value()),
        _ => None,
    };
    let mut work = plan(&world).steps.iter().flatten().find_map(work).unwrap();
    work["metadata"]["generation"] = json!(1);
    let observed = [condition("Applied", applied, "R"), condition("Available", "True", "R")];
    work["status"] = json!({"conditions": observed, "resourceStatus": {"manifests": []}});
    world.works = vec![serde_json::from_value(work).unwrap()];
    world.addon["status"]["conditions"] = json!(conditions);
    world
}

#[test]
fn the_addon_of_a_program_says_whether_it_is_degraded_once_its_rollout_is_judged() {
    let progressing = |status: &str, reason: &str| condition("Progressing", status, reason);
    let degraded =
        |applied: &str, conditions: &[Value]| message(&plan(&reported(applied, conditions)), "Degraded");
    let under_way = degraded("False", &[progressing("True", "Progressing")]);
    assert_eq!(under_way, None, "the rollout is under way");
    let completed = [progressing("False", "Completed")];
    assert_eq!(
        degraded("False", &completed).unwrap(),
        "True: manifestWork addon-a-deploy-0 is not Applied: no room"
    );
    assert_eq!(degraded("True", &completed).unwrap(), "False: ");
    let refused = [condition("Degraded", "True", "ManifestWorkApplyFailed")];
    assert_eq!(degraded("True", &refused).unwrap(), "False: ", "a refusal that is over");

    let work = json!({"group": "work.open-cluster-management.io", "resource": "manifestworks",
        "namespace": "c1", "name": "addon-a-deploy-0"});
    assert_eq!(status(&plan(&reported("True", &completed)), "relatedObjects"), json!([work]));
}
