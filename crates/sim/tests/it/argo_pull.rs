//! Argo CD's pull model: an Application reaches a cluster in a ManifestWork, and its state is reported back.
//!
//! The work is built as by argocd-pull-integration, or by our operator from an Application on the hub. A model of
//! the application controller on the cluster runs the operation and writes the status.

use serde_json::{Value, json};

use crate::argo_cd::argo_cd;
use crate::fixtures::{put, seconds, with, world};
use api::argoproj::v1alpha1::Application;
use api::names::argo::{PULL_CLUSTER_ANNOTATION, PULL_FINALIZER, PULL_LABEL, SKIP_RECONCILE_ANNOTATION};
use api::work::v1::ManifestWork;
use object::{Key, Object};
use reconcile::Dispatcher;
use sim::{Setup, World};
use store::{Patch, ResourcePath, WriteOptions};

const FINALIZER: &str = "resources-finalizer.argocd.argoproj.io";

fn applications() -> ResourcePath {
    ResourcePath::resource("argoproj.io", "v1alpha1", "applications")
}

fn application(world: &World) -> Option<Object> {
    let target = applications().at(&Key::namespaced("argocd", "shop"));
    world.spokes["cluster1"].store.get(&target).ok().map(|object| Object::clone(&object))
}

/// Writes to the cluster's Application as its controller does.
fn control(world: &mut World, patch: Value) {
    let target = applications().at(&Key::namespaced("argocd", "shop"));
    let (now, spoke) = (world.now, world.spokes.get_mut("cluster1").unwrap());
    let options = WriteOptions::manager("argocd-application-controller");
    spoke.store.patch(&target, &Patch::Merge(patch), &options, now).unwrap();
    world.run_for(seconds(70)).unwrap();
}

/// Installs Argo CD on the cluster.
fn install(world: &mut World) {
    let (now, spoke) = (world.now, world.spokes.get_mut("cluster1").unwrap());
    for (kind, object) in argo_cd() {
        let object = Object::from_value(object).unwrap();
        spoke.store.create(&kind, object, &WriteOptions::manager("installer"), now).unwrap();
    }
    world.run_for(seconds(5)).unwrap();
}

/// Puts the work of an application at a revision on the hub.
fn work(world: &mut World, revision: &str) {
    let path = |name: &str, path: &str| json!({"name": name, "path": path});
    let feedback = json!({"type": "JSONPaths", "jsonPaths": [
        path("healthStatus", ".status.health.status"),
        path("syncStatus", ".status.sync.status"),
        path("operationStateStartedAt", ".status.operationState.startedAt"),
        path("operationStatePhase", ".status.operationState.phase"),
        path("syncRevision", ".status.sync.revision"),
    ]});
    let ignored = json!([{"condition": "OnSpokeChange", "jsonPaths": [".operation"]}]);
    let config = json!({
        "resourceIdentifier": {"group": "argoproj.io", "resource": "applications", "name": "shop", "namespace": "argocd"},
        "feedbackRules": [feedback],
        "updateStrategy": {"type": "ServerSideApply", "serverSideApply": {"force": true, "ignoreFields": ignored}},
    });
    let payload = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": "shop", "namespace": "argocd", "finalizers": [FINALIZER]},
        "operation": {"sync": {"revision": revision}},
        "spec": {
            "project": "default", "destination": {"server": "https://kubernetes.default.svc"},
            "source": {"repoURL": "https://git.example.com/shop.git", "targetRevision": revision},
        },
    });
    put(
        world,
        json!({
            "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
            "metadata": {
                "name": "shop-1a2b3", "namespace": "cluster1",
                "labels": {"apps.open-cluster-management.io/pull-to-ocm-managed-cluster": "true"},
            },
            "spec": {"workload": {"manifests": [payload]}, "manifestConfigs": [config]},
        }),
    );
    world.run_for(seconds(10)).unwrap();
}

/// Returns the values that the agent reports about the Application.
fn feedback(world: &World) -> Vec<(String, String)> {
    let work: ManifestWork = world.get(&Key::namespaced("cluster1", "shop-1a2b3")).unwrap();
    let manifests = serde_json::to_value(&work.status.unwrap().resource_status.manifests).unwrap();
    let values = manifests[0]["statusFeedback"]["values"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut values: Vec<_> =
        values.iter().map(|value| (text(&value["name"]), text(&value["fieldValue"]["string"]))).collect();
    values.sort();
    values
}

#[test]
fn an_application_in_a_work_runs_on_its_cluster_and_its_state_is_reported() {
    let mut world = world(1);
    install(&mut world);
    work(&mut world, "v1");
    assert_eq!(application(&world).unwrap().0["operation"], json!({"sync": {"revision": "v1"}}));
    let status = json!({
        "health": {"status": "Healthy"}, "sync": {"status": "Synced", "revision": "v1"},
        "operationState": {"phase": "Succeeded", "startedAt": "2026-01-02T03:04:05Z"},
    });
    control(&mut world, json!({"operation": null, "status": status}));
    let reported = |revision: &str| {
        [
            ("healthStatus", "Healthy"),
            ("operationStatePhase", "Succeeded"),
            ("operationStateStartedAt", "2026-01-02T03:04:05Z"),
            ("syncRevision", revision),
            ("syncStatus", "Synced"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
    };
    assert_eq!(feedback(&world), reported("v1"));
    assert_eq!(application(&world).unwrap().0.get("operation"), None, "no operation runs twice");

    work(&mut world, "v2");
    assert_eq!(application(&world).unwrap().0["operation"], json!({"sync": {"revision": "v2"}}));
    assert_eq!(application(&world).unwrap().0["status"], status, "the status is that of the controller");
    control(&mut world, json!({"operation": null, "status": {"sync": {"revision": "v2"}}}));
    assert_eq!(feedback(&world), reported("v2"));

    world.delete::<ManifestWork>(&Key::namespaced("cluster1", "shop-1a2b3")).unwrap();
    world.run_for(seconds(10)).unwrap();
    assert_eq!(
        world.list::<ManifestWork>().len(),
        1,
        "it waits until the controller has removed the objects"
    );
    control(&mut world, json!({"metadata": {"finalizers": null}}));
    assert_eq!((application(&world).is_none(), world.list::<ManifestWork>().len()), (true, 0));
}

fn key() -> Key {
    Key::namespaced("argocd", "shop")
}

/// Returns a field of the hub's Application.
fn of_the_hub(world: &World, field: &str) -> Value {
    world.get::<Application>(&key()).unwrap().field(field).cloned().unwrap_or_default()
}

/// Requests a sync of the hub's Application, as a person does.
fn synchronise(world: &mut World) {
    let target = applications().at(&key());
    let operation = Patch::Merge(json!({"operation": {"sync": {"revision": "v1"}}}));
    let now = world.now;
    world.hub.patch(&target, &operation, &WriteOptions::manager("argocd-server"), now).unwrap();
    world.run_for(seconds(10)).unwrap();
}

/// Creates an Application on the hub that runs on a cluster.
fn create(world: &mut World) {
    put(
        world,
        json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {
                "name": "shop", "namespace": "argocd", "finalizers": [FINALIZER], "labels": {PULL_LABEL: "true"},
                "annotations": {PULL_CLUSTER_ANNOTATION: "cluster1", SKIP_RECONCILE_ANNOTATION: "true"},
            },
            "spec": {
                "project": "default", "destination": {"name": "cluster1", "namespace": "shop"},
                "source": {"repoURL": "https://git.example.com/shop.git", "targetRevision": "main"},
            },
        }),
    );
    world.run_for(seconds(10)).unwrap();
}

/// Returns a hub with an Application that runs on a cluster.
fn pulled() -> World {
    let hub = |process: &mut Dispatcher| {
        controllers::hub(process);
        controllers::argo_cd_pull_model(process);
    };
    let mut world = with(Setup { hub, ..Setup::default() }, 7, 1);
    install(&mut world);
    for (_, object) in argo_cd() {
        put(&mut world, object);
    }
    create(&mut world);
    world
}

#[test]
fn an_application_of_the_hub_runs_on_its_cluster_and_its_state_is_reported() {
    let mut world = pulled();
    let destination = json!({"server": "https://kubernetes.default.svc", "namespace": "shop"});
    assert_eq!(application(&world).unwrap().0["spec"]["destination"], destination);
    let state = json!({"phase": "Succeeded", "startedAt": "2026-01-02T03:04:05Z"});
    let mut status = json!({
        "health": {"status": "Healthy"}, "sync": {"status": "Synced", "revision": "v1"}, "operationState": state,
    });
    control(&mut world, json!({"status": status}));
    status["operationState"]["operation"] = json!({});
    assert_eq!(of_the_hub(&world, "status"), status);

    world.keep_history();
    world.restart_operator();
    world.run_for(seconds(600)).unwrap();
    let kinds = ["Application", "ManifestWork"];
    let written = world.take_history().into_iter().filter(|write| kinds.contains(&write.id.kind.as_str()));
    assert_eq!(written.count(), 0, "nothing is written at rest");

    for round in ["once", "again"] {
        synchronise(&mut world);
        assert_eq!(of_the_hub(&world, "operation"), Value::Null, "{round}");
        assert_eq!(application(&world).unwrap().0["operation"]["sync"], json!({"revision": "v1"}), "{round}");
        control(&mut world, json!({"operation": null}));
        assert_eq!(application(&world).unwrap().0.get("operation"), None, "no operation runs twice");
    }
}

#[test]
fn an_application_of_the_hub_exists_until_its_cluster_has_removed_it() {
    let mut world = pulled();
    world.delete::<Application>(&key()).unwrap();
    world.run_for(seconds(10)).unwrap();
    let finalizers = world.get::<Application>(&key()).unwrap().metadata.finalizers;
    assert_eq!(finalizers.unwrap(), [FINALIZER, PULL_FINALIZER], "Argo CD still removes the objects");
    control(&mut world, json!({"metadata": {"finalizers": null}}));
    assert!(application(&world).is_none());
    assert_eq!((world.list::<ManifestWork>().len(), world.list::<Application>().len()), (0, 0));
}

#[test]
fn an_application_that_is_deleted_without_cascade_waits_for_no_objects() {
    let mut world = pulled();
    let target = applications().at(&key());
    let patch = Patch::Merge(json!({"metadata": {"finalizers": [PULL_FINALIZER]}}));
    let now = world.now;
    world.hub.patch(&target, &patch, &WriteOptions::manager("argocd-server"), now).unwrap();
    world.delete::<Application>(&key()).unwrap();
    world.run_for(seconds(70)).unwrap();
    assert!(application(&world).is_none(), "its Argo CD has nothing to remove");
    assert_eq!((world.list::<ManifestWork>().len(), world.list::<Application>().len()), (0, 0));
}

#[test]
fn an_application_that_is_created_again_leaves_no_work_of_the_one_before() {
    let mut world = pulled();
    let before = application(&world).unwrap().uid().to_owned();
    // A person removes the finalizers by hand.
    let target = applications().at(&key());
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let now = world.now;
    world.hub.patch(&target, &patch, &WriteOptions::manager("kubectl"), now).unwrap();
    world.delete::<Application>(&key()).unwrap();
    world.run_for(seconds(10)).unwrap();
    assert_eq!(world.list::<ManifestWork>().len(), 1, "the work of a missing Application stays");
    create(&mut world);
    world.run_for(seconds(60)).unwrap();
    assert_eq!(world.list::<ManifestWork>().len(), 1);
    let after = application(&world).unwrap();
    assert_eq!((after.uid(), after.at(&["metadata", "deletionTimestamp"])), (before.as_str(), None));
}
