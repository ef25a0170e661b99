use super::*;
use crate::hub::tests::{Demo, NOW, World, message, status, words};
use object::Object;
use reconcile::{Action, Caches};
use serde_json::{Value, json};

fn plan(world: &World) -> Plan {
    DeployController::<Demo>::plan(&Key::namespaced("c1", "a"), &world.caches(), NOW).unwrap()
}

fn works(plan: &Plan) -> Vec<Value> {
    let work = |action: &Action| match action {
        Action::Apply { object, .. } if object.kind() == "ManifestWork" => Some(object.clone().into_value()),
        _ => None,
    };
    plan.steps.iter().flatten().filter_map(work).collect()
}

fn text(plan: &Plan) -> Value {
    works(plan)[0]["spec"]["workload"]["manifests"][0]["data"]["text"].clone()
}

#[test]
fn an_addon_gets_its_permissions_then_its_work_with_the_values_of_its_configuration() {
    let plan = plan(&World::new(&[("TEXT", "hello")]));
    assert_eq!(words(&plan), ["apply Role", "apply RoleBinding", "apply ManifestWork"]);
    assert_eq!(text(&plan), "hello on c1");
    let hash =
        works(&plan)[0]["metadata"]["annotations"]["open-cluster-management.io/config-spec-hash"].clone();
    assert!(
        hash.as_str().unwrap().contains("addondeploymentconfigs.addon.open-cluster-management.io/ns/config")
    );
    let registrations = status(&plan, "registrations");
    let signers: Vec<_> = registrations.as_array().unwrap().iter().map(|one| &one["signerName"]).collect();
    assert_eq!(signers, ["kubernetes.io/kube-apiserver-client", "example.com/agents"]);
    assert_eq!(status(&plan, "healthCheck")["mode"], "Lease");
    assert_eq!(status(&plan, "namespace"), "open-cluster-management-agent-addon");
}

#[test]
fn a_content_that_the_rollout_has_not_assigned_reaches_no_cluster() {
    let mut world = World::new(&[("TEXT", "hello")]);
    world.variables = crate::hub::tests::variables(&[("TEXT", "changed")]);
    assert!(plan(&world).is_empty());
    let mut world = World::new(&[]);
    world.addon["status"] = json!({});
    assert!(plan(&world).is_empty(), "nothing is assigned yet");
}

#[test]
fn values_in_the_annotation_override_the_configuration() {
    let mut world = World::new(&[("TEXT", "hello")]);
    let annotate = |world: &mut World, text: &str| {
        world.addon["metadata"]["annotations"] = json!({"addon.open-cluster-management.io/values": text});
    };
    annotate(&mut world, r#"{"TEXT": "own"}"#);
    assert_eq!(text(&plan(&world)), "own on c1");
    annotate(&mut world, r#"{"TEXT": 1}"#);
    let plan = plan(&world);
    assert_eq!(words(&plan), [""; 0]);
    let condition = message(&plan, "ManifestApplied").unwrap();
    assert!(
        condition.starts_with("False: ")
            && condition.ends_with("not a JSON object with string values: TEXT is 1"),
        "{condition}"
    );
}

#[test]
fn objects_that_cannot_be_made_are_a_condition_and_the_works_stay() {
    let mut world = World::new(&[("FAIL", "the moon is full")]);
    world.works = vec![
        Object::from_value(json!({"metadata": {"name": "addon-a-deploy-0", "namespace": "c1",
        "labels": {"open-cluster-management.io/addon-name": "a"}}, "spec": {}}))
        .unwrap()
        .to_typed()
        .unwrap(),
    ];
    let plan = plan(&world);
    assert_eq!(words(&plan), [""; 0]);
    let condition = "False: failed to get manifest from agent interface: the moon is full";
    assert_eq!(message(&plan, "ManifestApplied").unwrap(), condition);
    assert_eq!(message(&plan, "Degraded").unwrap(), condition.replacen("False", "True", 1));
}

#[test]
fn a_second_plan_of_the_same_state_writes_no_work() {
    let mut world = World::new(&[("TEXT", "hello")]);
    let applied = works(&plan(&world));
    world.works = applied.into_iter().map(|work| serde_json::from_value(work).unwrap()).collect();
    assert!(!words(&plan(&world)).contains(&"apply ManifestWork".to_owned()));
}

#[test]
fn an_addon_of_another_name_and_a_cluster_that_is_not_accepted_get_nothing() {
    let mut world = World::new(&[]);
    let key = Key::namespaced("c1", "b");
    assert!(DeployController::<Demo>::plan(&key, &world.caches(), NOW).unwrap().is_empty());
    world.cluster["spec"]["hubAcceptsClient"] = json!(false);
    assert!(plan(&world).is_empty());
    assert!(
        DeployController::<Demo>::plan(&Key::namespaced("c1", "a"), &Caches::default(), NOW)
            .is_err_and(|error| error.is_coming()),
        "nothing is decided before the configurations are read, which is counted as a read error"
    );
}

#[test]
fn an_addon_with_jobs_is_held_from_before_its_first_work_until_they_are_complete() {
    let mut world = World::new(&[("JOB", "yes")]);
    let first = plan(&world);
    assert_eq!(words(&first), ["patch ManagedClusterAddOn"], "the finalizer comes before the first work");
    world.addon["metadata"]["finalizers"] = json!(["addon.open-cluster-management.io/addon-pre-delete"]);
    let second = plan(&world);
    assert_eq!(words(&second).last().unwrap(), "apply ManifestWork");
    assert_eq!(works(&second)[0]["spec"]["workload"]["manifests"].as_array().unwrap().len(), 1);

    world.addon["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let third = plan(&world);
    assert_eq!(works(&third)[0]["metadata"]["name"], "addon-a-pre-delete");
    assert!(message(&third, "HookManifestCompleted").unwrap().contains("it has just been written"));
    let mut hook = works(&third)[0].clone();
    let meta =
        json!({"ordinal": 0, "group": "batch", "resource": "jobs", "name": "clean", "namespace": "default"});
    let value = json!({"name": "JobComplete", "fieldValue": {"type": "String", "string": "True"}});
    let available = json!({"type": "Available", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    hook["status"] = json!({"conditions": [available],
        "resourceStatus": {"manifests": [{"resourceMeta": meta, "conditions": [], "statusFeedback": {"values": [value]}}]}});
    world.works = vec![serde_json::from_value(hook).unwrap()];
    assert_eq!(words(&plan(&world)), ["patch ManagedClusterAddOn"], "the finalizer goes");
}

#[test]
fn the_jobs_of_a_deleted_addon_run_without_its_definition_and_not_without_its_cluster() {
    let mut world = World::new(&[("JOB", "yes")]);
    world.addon["metadata"]["finalizers"] = json!(["addon.open-cluster-management.io/addon-pre-delete"]);
    world.addon["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    world.definition = Value::Null;
    assert_eq!(works(&plan(&world))[0]["metadata"]["name"], "addon-a-pre-delete");
    (world.cluster, world.exists) = (Value::Null, true);
    assert!(plan(&world).is_empty(), "the list left the cluster out");
    world.exists = false;
    assert_eq!(words(&plan(&world)), ["patch ManagedClusterAddOn"], "the finalizer goes");
    world.addon["metadata"].as_object_mut().unwrap().remove("deletionTimestamp");
    assert!(plan(&world).is_empty());
}
