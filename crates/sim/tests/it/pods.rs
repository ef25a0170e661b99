//! The reasons of failing pods and rejected objects reach people on the hub.

use serde_json::{Value, json};

use crate::fixtures::{ADDON, addon, progressive, seconds, select_all, template, world};
use crate::replica_sets::{get, refs, set_with};
use crate::reports::caches;
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::condition::{Conditions as _, find_condition};
use controllers::hub::overview::{Mark, Overview};
use object::{Key, Object};
use sim::World;
use store::{Patch, ResourcePath, WriteOptions};

/// The Deployment that owns a pod.
struct Owner<'a> {
    namespace: &'a str,
    name: &'a str,
    labels: Value,
}

/// Writes a Deployment's pod on the cluster, with its only container in the given state.
fn put_pod(world: &mut World, owner: &Owner<'_>, state: &Value, restarts: usize) {
    let Owner { namespace, name: deployment, labels } = owner;
    let now = world.now;
    let spoke = &mut world.spokes.get_mut("cluster1").unwrap().store;
    let hash = json!({"pod-template-hash": "h1"});
    let labels: serde_json::Map<String, Value> =
        [labels, &hash].into_iter().flat_map(|all| all.as_object().cloned().unwrap()).collect();
    let options = WriteOptions::manager("kube-controller-manager");
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web:none"}]}});
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": format!("{deployment}-h1"), "namespace": namespace},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}});
    let set = Object::from_value(set).unwrap();
    let sets = ResourcePath::resource("apps", "v1", "replicasets").at(&Key::namespaced(*namespace, ""));
    // The ReplicaSet and the pod may already exist.
    let _ = spoke.create(&sets, set.clone(), &options, now);
    let sets = ResourcePath::resource("apps", "v1", "replicasets").at(&set.key());
    let uid = spoke.get(&sets).unwrap().uid().to_owned();
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": true, "uid": uid,
        "name": set.name()});
    let metadata = json!({"name": format!("{deployment}-h1-x"), "namespace": namespace, "labels": labels,
        "ownerReferences": [owner]});
    let spec = json!({"containers": [{"name": "web", "image": "web:none"}]});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
    let pod = Object::from_value(pod).unwrap();
    let pods = ResourcePath::resource("", "v1", "pods").at(&Key::namespaced(*namespace, ""));
    let one = ResourcePath::resource("", "v1", "pods").at(&pod.key());
    let _ = spoke.create(&pods, pod, &options, now);
    let last = json!({"terminated": {"exitCode": 3, "reason": "Error"}});
    let container = json!({"name": "web", "image": "web:none", "imageID": "", "ready": false,
        "restartCount": restarts, "state": state, "lastState": if restarts > 0 { last } else { json!({}) }});
    let status = json!({"phase": "Pending", "containerStatuses": [container]});
    spoke.patch(&one.sub("status"), &Patch::Merge(json!({"status": status})), &options, now).unwrap();
}

fn waiting(reason: &str, message: &str) -> Value {
    json!({"waiting": {"reason": reason, "message": message}, "terminated": null, "running": null})
}

/// Returns a template with a Deployment whose pods never start.
fn crashing() -> Value {
    let labels = json!({"app": "web"});
    let pod = json!({"containers": [{"name": "web", "image": "web:none"}]});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod}},
    });
    json!({"workload": {"manifests": [deployment]}})
}

fn condition(world: &World, type_: &str) -> String {
    get(world).condition(type_).map(|condition| condition.message.clone()).unwrap_or_default()
}

#[test]
fn the_reason_of_a_pod_is_in_the_work_and_in_the_set_within_ten_seconds_and_is_written_once() {
    let mut world = world(1);
    select_all(&mut world);
    set_with(
        &mut world,
        json!({"manifestWorkTemplate": crashing(), "placementRefs": refs("fleet", progressive())}),
    );
    world.run_for(seconds(2)).unwrap();
    world.take_events();
    let web = Owner { namespace: "default", name: "web", labels: json!({"app": "web"}) };
    put_pod(&mut world, &web, &waiting("ImagePullBackOff", "ErrImagePull: not found"), 0);
    world.run_for(seconds(10)).unwrap();
    let reason =
        "Deployment web: ErrImagePull: pod web-h1-x: cannot pull image web:none of container web: not found";
    let message = condition(&world, "PlacementRolledOut");
    assert!(message.contains(&format!("1 cluster reports an error: cluster1: {reason}")), "{message}");
    assert!(condition(&world, "ManifestworkApplied").contains(reason));
    let events = world.take_events();
    let failing: Vec<_> = events.iter().filter(|event| event.reason == "ClusterFailing").collect();
    assert!(failing.len() == 1 && failing[0].message.contains(reason), "{failing:?}");
    let overview = Overview::read(&caches(&world), world.now).unwrap();
    let cluster = &overview.replica_sets[0].groups[0].clusters[0];
    assert!(cluster.mark() == Mark::Warned && cluster.message.contains(reason), "{cluster:?}");

    // The kubelet retries, with a different message each time.
    world.keep_history();
    for (restarts, detail) in
        ["ErrImagePull: port 1", "Back-off pulling image \"web:none\""].iter().enumerate()
    {
        put_pod(&mut world, &web, &waiting("ImagePullBackOff", detail), restarts);
        world.run_for(seconds(10)).unwrap();
    }
    let writes = world.take_history();
    let kinds: Vec<&str> = writes.iter().map(|write| write.id.kind.as_str()).collect();
    // Meanwhile the set exceeds its deadline.
    assert!(!kinds.contains(&"ManifestWork"), "{kinds:?}");

    put_pod(&mut world, &web, &waiting("CrashLoopBackOff", "back-off 10s"), 4);
    world.run_for(seconds(10)).unwrap();
    let message = condition(&world, "PlacementRolledOut");
    assert!(
        message.contains("CrashLoopBackOff: pod web-h1-x: container web keeps crashing with exit code 3")
    );
}

#[test]
fn a_rejected_object_is_named_before_the_deadline() {
    let mut world = world(3);
    select_all(&mut world);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "Greeting_X", "namespace": "default"}});
    let rejected = json!({"workload": {"manifests": [map]}});
    set_with(
        &mut world,
        json!({"manifestWorkTemplate": rejected, "placementRefs": refs("fleet", json!({"type": "All"}))}),
    );
    world.run_for(seconds(10)).unwrap();
    let message = condition(&world, "PlacementRolledOut");
    let reason =
        "3 clusters report an error, first cluster1: ConfigMap Greeting_X: Failed to apply manifest: ";
    assert!(message.contains(reason), "{message}");
    assert!(condition(&world, "ManifestworkApplied").contains(reason));
    let overview = Overview::read(&caches(&world), world.now).unwrap();
    let set = &overview.replica_sets[0];
    assert_eq!((set.failed.max(set.warned), set.total), (3, 3), "{set:?}");
}

#[test]
fn the_reason_of_a_pod_is_in_the_conditions_of_an_add_on() {
    let mut world = world(1);
    template(&mut world, "msa", "msa:none");
    addon(&mut world, "msa", progressive());
    select_all(&mut world);
    world.run_for(seconds(10)).unwrap();
    let namespace = "open-cluster-management-agent-addon";
    let msa = Owner { namespace, name: "msa", labels: json!({"app": "msa"}) };
    put_pod(&mut world, &msa, &waiting("CrashLoopBackOff", ""), 2);
    world.run_for(seconds(10)).unwrap();
    let addon: ManagedClusterAddOn = world.get(&Key::namespaced("cluster1", ADDON)).unwrap();
    for type_ in ["Progressing", "Degraded", "Available"] {
        let message = addon.condition(type_).map(|condition| condition.message.clone()).unwrap_or_default();
        assert!(
            message.contains("CrashLoopBackOff") && message.contains("exit code 3"),
            "{type_}: {message}"
        );
    }
    let cma: ClusterManagementAddOn = world.get(&Key::cluster(ADDON)).unwrap();
    let placement = &cma.status.unwrap().install_progressions[0];
    let progressing = find_condition(&placement.conditions, "Progressing").unwrap();
    assert!(
        progressing.message.contains("1 cluster reports an error: cluster1: "),
        "{}",
        progressing.message
    );
}

#[test]
fn events_of_a_rollout_name_its_revision_and_the_cause_once() {
    let mut world = world(1);
    template(&mut world, "msa", "msa:none");
    addon(&mut world, "msa", progressive());
    select_all(&mut world);
    world.run_for(seconds(10)).unwrap();
    let namespace = "open-cluster-management-agent-addon";
    let msa = Owner { namespace, name: "msa", labels: json!({"app": "msa"}) };
    put_pod(&mut world, &msa, &waiting("CrashLoopBackOff", ""), 2);
    world.run_for(seconds(600)).unwrap();
    let events = world.take_events();
    for (reason, causes) in [("RolloutStarted", 0), ("ClusterFailing", 1), ("RolloutStopped", 1)] {
        let event = events.iter().find(|event| event.reason == reason).unwrap();
        let (revision, message) = event.message.split_once(" on placement default/fleet: ").unwrap();
        assert!(revision.starts_with("msa ("), "{event:?}");
        assert_eq!(message.matches("CrashLoopBackOff").count(), causes, "{event:?}");
    }
}
