//! Manifests that are rejected, wait for their kind, are checked against an executor, are evicted or expire.

use serde_json::{Value, json};

use crate::fixtures::{self, config_maps, seconds, work, work_of, world};
use api::condition::find_condition;
use api::work::v1::ManifestWork;
use object::{Gvk, Key, Object, ObjectRef};
use reconcile::View as _;
use sim::World;
use store::{ListOptions, Patch, ResourcePath, WriteOptions};

fn put_work(world: &mut World, name: &str, spec: serde_json::Value) {
    fixtures::put_work(world, json!({"name": name, "namespace": "cluster1"}), spec);
    world.run_for(seconds(5)).unwrap();
}

fn map(name: &str, namespace: &str) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": {"v": "1"}})
}

fn status(world: &World, name: &str) -> api::work::v1::ManifestWorkStatus {
    let work: ManifestWork = world.get(&Key::namespaced("cluster1", name)).unwrap();
    work.status.unwrap()
}

/// Returns the status, reason and message of each manifest's Applied condition.
fn applied(world: &World, name: &str) -> Vec<String> {
    let manifests = status(world, name).resource_status.manifests;
    let words = |conditions: &[api::Condition]| match find_condition(conditions, "Applied") {
        Some(c) => format!("{} {}: {}", c.status, c.reason, c.message),
        None => "nothing".into(),
    };
    manifests.iter().map(|manifest| words(&manifest.conditions)).collect()
}

const APPLIED: &str = "True AppliedManifestComplete: Apply manifest complete";

/// Returns the CRD of a cluster-scoped kind with an irregular plural.
pub(crate) fn definition() -> serde_json::Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "geese.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster",
            "names": {"plural": "geese", "singular": "goose", "kind": "Goose", "listKind": "GooseList"},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": schema},
                {"name": "v1beta1", "served": false, "storage": false, "schema": schema},
            ],
        },
    })
}

fn goose() -> serde_json::Value {
    json!({"apiVersion": "example.com/v1", "kind": "Goose", "metadata": {"name": "g", "namespace": "ignored"}})
}

pub(crate) fn geese(world: &World) -> usize {
    let all = ResourcePath::resource("example.com", "v1", "geese");
    world.spokes["cluster1"].store.list(&all, &ListOptions::default()).map_or(0, |list| list.items.len())
}

#[test]
fn a_namespace_that_is_refused_holds_back_only_what_lives_in_it() {
    let mut world = world(1);
    let namespace = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let manifests = [
        namespace("Not_A_Name"),
        namespace("new"),
        map("a", "Not_A_Name"),
        map("b", "default"),
        map("c", "new"),
    ];
    put_work(&mut world, "w", json!({"workload": {"manifests": manifests}}));
    assert_eq!(config_maps(&world), ["b=\"1\"", "c=\"1\""]);
    let applied = applied(&world, "w");
    assert_eq!([&applied[1], &applied[3], &applied[4]], [APPLIED; 3], "{applied:?}");
    assert!(
        applied[0].starts_with("False AppliedManifestRejected: Failed to apply manifest: "),
        "{applied:?}"
    );
    assert!(applied[2].starts_with("False AppliedManifestFailed: Failed to apply manifest: "), "{applied:?}");
}

#[test]
fn a_kind_that_is_not_served_is_named_and_applied_when_its_definition_arrives() {
    let mut world = world(1);
    put_work(&mut world, "w", json!({"workload": {"manifests": [goose(), map("a", "default")]}}));
    let first = applied(&world, "w");
    assert_eq!(first[1], APPLIED, "{first:?}");
    let words = r#"False AppliedManifestFailed: Failed to apply manifest: the server doesn't have a resource type "Goose""#;
    assert_eq!(first[0], words);
    assert_eq!(status(&world, "w").resource_status.manifests[0].resource_meta.resource, "");
    put_work(&mut world, "definition", json!({"workload": {"manifests": [definition()]}}));
    assert_eq!((geese(&world), &*applied(&world, "w")[0]), (1, APPLIED));
    let meta = status(&world, "w").resource_status.manifests[0].resource_meta.clone();
    assert_eq!((&*meta.resource, &*meta.namespace), ("geese", ""), "as discovery says");
    put_work(&mut world, "w", json!({"workload": {"manifests": [map("a", "default")]}}));
    assert_eq!(geese(&world), 0);
}

/// Returns the CRD with its old version served, and an object in that version.
fn old_version() -> [Value; 2] {
    let (mut definition, mut goose) = (definition(), goose());
    definition["spec"]["versions"][1]["served"] = true.into();
    goose["apiVersion"] = "example.com/v1beta1".into();
    [definition, goose]
}

#[test]
fn an_object_in_a_version_that_is_no_longer_served_is_removed_in_another() {
    let mut world = world(1);
    put_work(&mut world, "w", json!({"workload": {"manifests": old_version()}}));
    world.run_for(seconds(60)).unwrap();
    assert_eq!(geese(&world), 1);
    // Make a removal read the resource while the version is still served.
    let mut both = old_version().to_vec();
    both.push(map("a", "default"));
    put_work(&mut world, "w", json!({"workload": {"manifests": both}}));
    put_work(&mut world, "w", json!({"workload": {"manifests": [definition()]}}));
    world.run_for(seconds(60)).unwrap();
    assert_eq!(geese(&world), 0);
    let applied = world.spokes["cluster1"].store.list(
        &ResourcePath::resource("work.open-cluster-management.io", "v1", "appliedmanifestworks"),
        &ListOptions::default(),
    );
    let entries = applied.unwrap().items[0].0["status"]["appliedResources"].as_array().unwrap().len();
    assert_eq!(entries, 1, "the definition is left");
}

#[test]
fn an_object_that_a_rule_orphans_stays_while_the_version_of_its_manifest_is_not_served() {
    let mut world = world(1);
    put_work(&mut world, "definition", json!({"workload": {"manifests": [definition()]}}));
    put_work(&mut world, "w", json!({"workload": {"manifests": [goose()]}}));
    let mut next = goose();
    next["apiVersion"] = "example.com/v2".into();
    let rule = json!({"group": "example.com", "resource": "geese", "name": "g", "namespace": ""});
    let option =
        json!({"propagationPolicy": "SelectivelyOrphan", "selectivelyOrphans": {"orphaningRules": [rule]}});
    put_work(&mut world, "w", json!({"workload": {"manifests": [next]}, "deleteOption": option}));
    world.delete::<ManifestWork>(&Key::namespaced("cluster1", "w")).unwrap();
    let is_gone = |world: &World| world.get::<ManifestWork>(&Key::namespaced("cluster1", "w")).is_none();
    assert!(world.run_until(seconds(60), is_gone).unwrap());
    assert_eq!(geese(&world), 1);
}

#[test]
fn an_executor_applies_only_what_it_may_and_more_as_soon_as_it_may() {
    let mut world = world(1);
    let subject =
        json!({"type": "ServiceAccount", "serviceAccount": {"namespace": "default", "name": "robot"}});
    let rules = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r", "namespace": "default"}, "rules": rules});
    let spec =
        json!({"workload": {"manifests": [map("a", "default"), role]}, "executor": {"subject": subject}});
    put_work(&mut world, "w", spec);
    assert_eq!(config_maps(&world), [""; 0], "the robot has no permission");
    let refused = |what: &str| {
        format!(
            "False AppliedManifestFailed: Failed to apply manifest: not allowed to apply the resource {what}, will try again in 1m0s"
        )
    };
    assert_eq!(applied(&world, "w")[0], refused(" configmaps, default a"));
    let rules = json!([
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]},
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["create", "update", "patch", "get", "delete"]},
    ]);
    let may = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "may", "namespace": "default"}, "rules": rules});
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "may", "namespace": "default"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "may"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": "robot"}],
    });
    put_work(&mut world, "permissions", json!({"workload": {"manifests": [may, binding]}}));
    world.run_for(seconds(70)).unwrap();
    assert_eq!(config_maps(&world), ["a=\"1\""]);
    let applied = applied(&world, "w");
    assert_eq!(applied[0], APPLIED);
    let refusal = "is attempting to grant RBAC permissions not currently held";
    assert!(
        applied[1].contains(refusal),
        "the robot cannot read Secrets, so it cannot let others: {}",
        applied[1]
    );

    // The cluster leaves and the robot's permissions are deleted first: objects that it may no longer delete stay
    // behind.
    world.delete::<ManifestWork>(&Key::namespaced("cluster1", "permissions")).unwrap();
    world.run_for(seconds(10)).unwrap();
    world.delete::<ManifestWork>(&Key::namespaced("cluster1", "w")).unwrap();
    world.run_for(seconds(240)).unwrap();
    let message = |world: &World| {
        let work = world.get::<ManifestWork>(&Key::namespaced("cluster1", "w"))?;
        let deleting = work.status.as_ref()?.conditions.iter().find(|one| one.type_ == "Deleting")?;
        Some(deleting.message.clone())
    };
    assert!(message(&world).unwrap().contains("cannot delete resource"), "{:?}", message(&world));
    world.run_for(seconds(600)).unwrap();
    assert_eq!((message(&world), config_maps(&world).len()), (None, 1));
}

#[test]
fn a_work_of_another_agent_is_taken_over_without_a_write_and_deleted_to_its_end() {
    let mut world = world(1);
    work(&mut world, &[("a", "1"), ("b", "1")]);
    let store = &mut world.spokes.get_mut("cluster1").unwrap().store;
    let all = ResourcePath::resource("work.open-cluster-management.io", "v1", "appliedmanifestworks");
    let list = store.list(&all, &ListOptions::default()).unwrap();
    // The Go agent does not record kinds.
    let target = all.at(&list.items[0].key());
    let patch = Patch::Merge(json!({"metadata": {"annotations": null}}));
    store.patch(&target, &patch, &WriteOptions::manager("work-agent"), world.now).unwrap();
    let before = (world.hub.revision(), world.spokes["cluster1"].store.revision());
    world.restart_agent("cluster1");
    world.run_for(seconds(1)).unwrap();
    assert_eq!((world.hub.revision(), world.spokes["cluster1"].store.revision()), before);
    world.restart_agent("cluster1");
    world.delete::<ManifestWork>(&Key::namespaced("cluster1", "w")).unwrap();
    world.run_for(seconds(10)).unwrap();
    assert_eq!((config_maps(&world).len(), world.list::<ManifestWork>().len()), (0, 0));
}

#[test]
fn the_inventory_of_a_work_follows_the_labels_of_the_work() {
    let mut world = world(1);
    let all = ResourcePath::resource("work.open-cluster-management.io", "v1", "appliedmanifestworks");
    for labels in [json!({"team": "a", "tier": "1"}), json!({"team": "b"})] {
        let metadata = json!({"name": "w", "namespace": "cluster1", "labels": labels});
        let spec = json!({"workload": {"manifests": [map("a", "default")]}});
        fixtures::put_work(&mut world, metadata, spec);
        world.run_for(seconds(5)).unwrap();
        let list = world.spokes["cluster1"].store.list(&all, &ListOptions::default()).unwrap();
        assert_eq!(list.items[0].at(&["metadata", "labels"]), Some(&labels));
    }
}

fn lose(world: &mut World, name: &str) {
    let target = ResourcePath::of::<ManifestWork>(&Key::namespaced("cluster1", name));
    world.spokes.get_mut("cluster1").unwrap().connected = false;
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let now = world.now;
    world.hub.patch(&target, &patch, &WriteOptions::manager("restore"), now).unwrap();
    world.delete::<ManifestWork>(&Key::namespaced("cluster1", name)).unwrap();
    world.spokes.get_mut("cluster1").unwrap().connected = true;
    world.restart_agent("cluster1");
}

#[test]
fn objects_of_a_lost_work_are_evicted_after_an_hour_if_the_hub_has_other_works() {
    let mut world = world(1);
    work_of(&mut world, "lost", &[("a", "1")]);
    work_of(&mut world, "kept", &[("b", "1")]);
    lose(&mut world, "lost");
    world.run_for(seconds(3500)).unwrap();
    assert_eq!(config_maps(&world), ["a=\"1\"", "b=\"1\""]);
    world.run_for(seconds(300)).unwrap();
    assert_eq!(config_maps(&world), ["b=\"1\""]);
}

#[test]
fn a_hub_that_was_restored_without_works_evicts_nothing_and_a_work_that_returns_is_kept() {
    let mut world = world(1);
    work_of(&mut world, "lost", &[("a", "1")]);
    lose(&mut world, "lost");
    world.run_for(seconds(7300)).unwrap();
    assert_eq!(config_maps(&world), ["a=\"1\""]);
    let all = ResourcePath::resource("work.open-cluster-management.io", "v1", "appliedmanifestworks");
    let since = |world: &World| {
        let list = world.spokes["cluster1"].store.list(&all, &ListOptions::default()).unwrap();
        let mut since = list.items.iter().filter_map(|item| item.at(&["status", "evictionStartTime"]));
        since.any(|since| !since.is_null())
    };
    assert!(since(&world), "people see that its work is missing");
    work_of(&mut world, "another", &[("b", "1")]);
    assert_eq!(config_maps(&world), ["a=\"1\"", "b=\"1\""], "the restore goes on");
    work_of(&mut world, "lost", &[("a", "1")]);
    assert!(!since(&world));
    assert_eq!(config_maps(&world), ["a=\"1\"", "b=\"1\""]);
}

/// Creates a work with a Job and a ConfigMap, and runs it until the Job completes.
fn complete(world: &mut World, delete_option: Value) {
    let pod = json!({"metadata": {}, "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "msa:0.4.0"}]}});
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "default"}, "spec": {"template": pod}});
    let resource = json!({"group": "batch", "resource": "jobs", "name": "j", "namespace": "default"});
    let rules = json!([{"condition": "Complete", "type": "WellKnownConditions"}]);
    put_work(
        world,
        "w",
        json!({
            "workload": {"manifests": [job, map("m", "default")]}, "deleteOption": delete_option,
            "manifestConfigs": [{"resourceIdentifier": resource, "conditionRules": rules}],
        }),
    );
    let target =
        ResourcePath::resource("batch", "v1", "jobs").at(&Key::namespaced("default", "j")).sub("status");
    let done = Patch::Merge(json!({"status": {"conditions": [{"type": "Complete", "status": "True"}]}}));
    let now = world.now;
    let store = &mut world.spokes.get_mut("cluster1").unwrap().store;
    store.patch(&target, &done, &WriteOptions::manager("kube-controller-manager"), now).unwrap();
    world.run_for(seconds(50)).unwrap();
    assert!(find_condition(&status(world, "w").conditions, "Complete").is_some_and(api::Condition::is_true));
}

/// The hub's inventories then have another name, and those under the old name are evicted.
#[test]
fn a_complete_work_keeps_its_objects_until_its_deletion_when_the_url_of_its_hub_changes() {
    let mut world = world(1);
    complete(&mut world, json!({}));
    world.spokes.get_mut("cluster1").unwrap().settings.identity.hub_hash = "other".into();
    world.restart_agent("cluster1");
    world.run_for(seconds(2 * 3600)).unwrap();
    let count = |world: &World, group: &str, resource: &str| {
        let all = ResourcePath::resource(group, "v1", resource);
        world.spokes["cluster1"].store.list(&all, &ListOptions::default()).unwrap().items.len()
    };
    assert_eq!((count(&world, "batch", "jobs"), count(&world, "", "configmaps")), (1, 1));
    let inventories = "work.open-cluster-management.io";
    assert_eq!(count(&world, inventories, "appliedmanifestworks"), 1, "the old one is gone");
    let complete = find_condition(&status(&world, "w").conditions, "Complete").cloned();
    assert!(complete.is_some_and(|complete| complete.is_true()));
    let revision = |world: &World| world.spokes["cluster1"].store.revision();
    let before = revision(&world);
    world.restart_agent("cluster1");
    world.run_for(seconds(1)).unwrap();
    assert_eq!(revision(&world), before, "it is written once");
    world.delete::<ManifestWork>(&Key::namespaced("cluster1", "w")).unwrap();
    world.run_for(seconds(20)).unwrap();
    assert_eq!((count(&world, "batch", "jobs"), count(&world, "", "configmaps")), (0, 0));
}

#[test]
fn a_work_that_has_run_to_its_end_is_deleted_after_its_time() {
    let mut world = world(1);
    complete(&mut world, json!({"ttlSecondsAfterFinished": 60}));
    world.run_for(seconds(20)).unwrap();
    assert!(world.get::<ManifestWork>(&Key::namespaced("cluster1", "w")).is_none());
}

#[test]
fn an_agent_caches_no_objects_of_others() {
    let mut world = world(1);
    work(&mut world, &[("a", "1")]);
    let all = ResourcePath::resource("", "v1", "configmaps").within("default");
    let foreign = |i: usize| {
        let mut map = Object::from_value(map(&format!("foreign-{i}"), "default")).unwrap();
        map.0.insert("data".into(), json!({"v": "x".repeat(100_000)}));
        map
    };
    for i in 0..50 {
        let (now, spoke) = (world.now, world.spokes.get_mut("cluster1").unwrap());
        spoke.store.create(&all, foreign(i), &WriteOptions::manager("tenant"), now).unwrap();
    }
    world.run_for(seconds(5)).unwrap();
    world.restart_agent("cluster1");
    world.run_for(seconds(5)).unwrap();
    let caches = world.agent_caches("cluster1").unwrap();
    let is_cached = |name: &str| {
        let gvk = Gvk::parse("v1", "ConfigMap");
        let object = ObjectRef { gvk, key: Key::namespaced("default", name) };
        caches.object(&object).is_ok() || caches.observed(&object).is_ok()
    };
    assert!(is_cached("a"), "its own object is read");
    assert_eq!((0..50).filter(|i| is_cached(&format!("foreign-{i}"))).count(), 0);
}

#[test]
fn a_role_in_a_namespace_of_the_same_work_is_checked_when_the_namespace_exists() {
    let mut world = world(1);
    let rules = json!([
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["*"]},
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["create", "update", "patch", "get", "delete"]},
    ]);
    let may = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "may"}, "rules": rules});
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "may"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "may"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": "robot"}],
    });
    put_work(&mut world, "permissions", json!({"workload": {"manifests": [may, binding]}}));
    let subject =
        json!({"type": "ServiceAccount", "serviceAccount": {"namespace": "default", "name": "robot"}});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}});
    let rules = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r", "namespace": "new"}, "rules": rules});
    put_work(
        &mut world,
        "w",
        json!({"workload": {"manifests": [namespace, role]}, "executor": {"subject": subject}}),
    );
    world.run_for(seconds(130)).unwrap();
    let applied = applied(&world, "w");
    assert_eq!(applied[0], APPLIED);
    assert!(applied[1].contains("is attempting to grant RBAC permissions not currently held"), "{applied:?}");
    let roles = ResourcePath::resource("rbac.authorization.k8s.io", "v1", "roles").within("new");
    let list = world.spokes["cluster1"].store.list(&roles, &ListOptions::default()).unwrap();
    assert_eq!(list.items.len(), 0, "the role is never there");
}

#[test]
fn two_works_with_the_same_object_correct_it_less_and_less_often() {
    let mut world = world(1);
    // Each takes the field of the other away.
    let with = |value: &str| {
        let mut manifest = map("a", "default");
        manifest["data"] = json!({ value: "1" });
        json!({"workload": {"manifests": [manifest]}})
    };
    put_work(&mut world, "one", with("1"));
    world.keep_history();
    put_work(&mut world, "two", with("2"));
    world.run_for(seconds(120)).unwrap();
    let writes = world.take_history().iter().filter(|write| write.id.kind == "ConfigMap").count();
    assert!((6..40).contains(&writes), "{writes}");
    let words = |world: &World| ["one", "two"].map(|name| applied(world, name).remove(0));
    let contested = |other: &str| {
        let message = "has other content for this object, so each may undo the changes of the other";
        format!("True AppliedManifestContested: the ManifestWork {other} {message}")
    };
    assert_eq!(words(&world), ["two", "one"].map(contested));
    put_work(&mut world, "two", with("1"));
    world.run_for(seconds(600)).unwrap();
    assert_eq!(words(&world), [APPLIED; 2]);
}
