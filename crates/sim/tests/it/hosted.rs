//! Add-ons with a part that runs on another cluster. The hub has no garbage collector.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use crate::fixtures::{ADDON, addon, is_completed, merged, progress, put, seconds, select, select_all, with};
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::condition::find_condition;
use api::names::{
    ADDON_PRE_DELETE, HOSTED_MANIFEST_LOCATION, HOSTING_CLEANUP_FINALIZER, HOSTING_CLUSTER_ANNOTATION,
    HOSTING_PRE_DELETE_FINALIZER,
};
use api::work::v1::ManifestWork;
use object::{Key, Kind, Metadata as _};
use reconcile::{Action, Failure, Outcome};
use sim::{Servers, Setup, World, execute};
use store::{Patch, ResourcePath, WriteOptions};

/// Writes a template with a Deployment for the hosting cluster and ConfigMaps for every location.
fn template(world: &mut World, image: &str, more: &[Value]) {
    let at = |location: &str| json!({"metadata": {"annotations": {HOSTED_MANIFEST_LOCATION: location}}});
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}});
    let container = json!({"name": "agent", "image": image});
    let pod = json!({"metadata": {"labels": {"app": "msa"}}, "spec": {"containers": [container]}});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "msa", "namespace": "default"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "msa"}}, "template": pod},
    });
    let mut manifests =
        vec![map("here"), merged(map("never"), at("none")), merged(deployment, at("hosting"))];
    manifests.extend_from_slice(more);
    put(
        world,
        json!({
            "apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "AddOnTemplate", "metadata": {"name": "msa"},
            "spec": {"addonName": ADDON, "agentSpec": {"workload": {"manifests": manifests}}, "registration": [{"type": "KubeClient"}]},
        }),
    );
}

fn change<K: Kind>(world: &mut World, key: &Key, patch: Value) {
    let now = world.now;
    let path = ResourcePath::of::<K>(key);
    world.hub.patch(&path, &Patch::Merge(patch), &WriteOptions::manager("user"), now).unwrap();
}

fn key() -> Key {
    Key::namespaced("cluster1", ADDON)
}

/// Sets or clears the hosting cluster of the first cluster's add-on.
fn host(world: &mut World, host: Value) {
    let annotations = json!({HOSTING_CLUSTER_ANNOTATION: host});
    change::<ManagedClusterAddOn>(world, &key(), json!({"metadata": {"annotations": annotations}}));
    world.run_for(seconds(60)).unwrap();
}

/// Executes an action as an API server with a policy against works that contain a certain word.
fn refuse(servers: &mut Servers<'_>, manager: &str, action: &Action, now: Timestamp) -> Outcome {
    match action {
        Action::Apply { object, .. }
            if object.kind() == "ManifestWork" && json!(object.0).to_string().contains("unwanted") =>
        {
            Err(Failure::refused(&object.reference(), 403, [].into_iter(), "denied by a policy"))
        }
        action => execute(servers, manager, action, now),
    }
}

/// Returns three clusters. The first has the add-on, hosted by the second.
fn hosted(more: &[Value]) -> World {
    let setup = Setup { collects_garbage: false, execute: refuse, ..Setup::default() };
    let mut world = with(setup, 7, 3);
    let annotations = json!({HOSTING_CLUSTER_ANNOTATION: "cluster2"});
    let cluster = Key::cluster("cluster1");
    change::<ManagedCluster>(&mut world, &cluster, json!({"metadata": {"annotations": annotations}}));
    template(&mut world, "msa:0.4.0", more);
    addon(&mut world, "msa", json!({"type": "All"}));
    select_all(&mut world);
    select(&mut world, json!({"canary": "true"}));
    assert!(world.run_until(seconds(60), is_completed).unwrap(), "{:?}", progress(&world));
    world
}

fn installed(world: &World) -> Option<ManagedClusterAddOn> {
    world.get(&key())
}

/// Returns the status, reason and message of one of the add-on's conditions; empty if it is missing.
fn condition(world: &World, type_: &str) -> String {
    let status = installed(world).unwrap().status.unwrap();
    let condition = find_condition(&status.conditions, type_);
    condition.map(|c| format!("{} {}: {}", c.status, c.reason, c.message)).unwrap_or_default()
}

/// Returns the objects of the template that exist on a cluster.
fn on(world: &World, cluster: &str) -> Vec<&'static str> {
    let store = &world.spokes[cluster].store;
    let has_map = |name| store.get(&ResourcePath::of::<ConfigMap>(&Key::namespaced("default", name))).is_ok();
    let has_agent = store.get(&ResourcePath::of::<Deployment>(&Key::namespaced("default", "msa"))).is_ok();
    let maps = ["here", "never"].into_iter().filter(|name| has_map(*name));
    maps.chain(has_agent.then_some("agent")).collect()
}

fn works(world: &World) -> Vec<String> {
    world.list::<ManifestWork>().iter().map(|work| Key::of(work).to_string()).collect()
}

/// Deletes the add-on after its placement no longer selects the cluster.
fn uninstall(world: &mut World) {
    select(world, json!({"canary": "nowhere"}));
    world.run_for(seconds(60)).unwrap();
}

/// The works of the add-on while the second cluster hosts it.
const WORKS: [&str; 2] = [
    "cluster1/addon-managed-serviceaccount-deploy-0",
    "cluster2/addon-managed-serviceaccount-deploy-hosting-cluster1-0",
];

#[test]
fn a_hosted_addon_runs_where_its_manifests_say_and_its_host_decides_the_rollout() {
    let mut world = hosted(&[]);
    assert_eq!((on(&world, "cluster1"), on(&world, "cluster2")), (vec!["here"], vec!["agent"]));
    assert_eq!(works(&world), WORKS);
    let valid = "True HostingClusterValid: hosting cluster cluster2 is a managed cluster of the hub";
    assert_eq!(condition(&world, "HostingClusterValidity"), valid);
    let applied = "True AddonManifestApplied: manifests of addon are applied successfully";
    assert_eq!(condition(&world, "ManifestApplied"), applied);
    assert_eq!(condition(&world, "HostingManifestApplied"), applied);
    assert_eq!(condition(&world, "Available"), format!("True ProbeAvailable: {ADDON} add-on is available."));
    let addon = installed(&world).unwrap();
    assert!(addon.has_finalizer(HOSTING_CLEANUP_FINALIZER));
    let related = addon.status.unwrap().related_objects;
    assert_eq!(
        related.iter().map(|work| work.namespace.as_str()).collect::<Vec<_>>(),
        ["cluster1", "cluster2"]
    );

    template(&mut world, "msa:broken", &[]);
    world.run_for(seconds(60)).unwrap();
    assert!(!is_completed(&world), "{:?}", progress(&world));
    let progressing = condition(&world, "Progressing");
    assert!(
        progressing.starts_with("True Progressing: progressing... deployments default/msa: "),
        "{progressing}"
    );
    template(&mut world, "msa:0.4.1", &[]);
    assert!(world.run_until(seconds(60), is_completed).unwrap(), "{:?}", progress(&world));
}

#[test]
fn a_rollout_is_not_complete_while_a_work_is_missing() {
    let mut world = hosted(&[]);
    template(&mut world, "msa:broken", &[]);
    world.run_for(seconds(60)).unwrap();
    let (namespace, name) = WORKS[1].split_once('/').unwrap();
    world.delete::<ManifestWork>(&Key::namespaced(namespace, name)).unwrap();
    world.run_for(seconds(60)).unwrap();
    assert_eq!(works(&world), WORKS);
    assert!(condition(&world, "Progressing").starts_with("True"), "{}", condition(&world, "Progressing"));
}

#[test]
fn a_hosted_addon_leaves_its_host_before_its_cluster_and_leaves_nothing() {
    let mut world = hosted(&[]);
    world.keep_history();
    uninstall(&mut world);
    let history = world.take_history();
    let gone = history.iter().filter(|write| write.spoke.is_none() && write.after.is_none());
    let gone = gone.map(|write| write.id.key.to_string()).filter(|key| key.contains(ADDON));
    let first: Vec<String> = gone.take(3).collect();
    assert_eq!(first, [WORKS[1].to_owned(), key().to_string(), WORKS[0].to_owned()]);
    assert_eq!(on(&world, "cluster2").len(), 0);
}

#[test]
fn the_part_on_a_host_follows_the_annotation_and_leaves_nothing_behind() {
    let mut world = hosted(&[]);
    host(&mut world, json!("cluster3"));
    assert_eq!((on(&world, "cluster2").len(), on(&world, "cluster3")), (0, vec!["agent"]));
    assert_eq!(works(&world).len(), 2);
    host(&mut world, Value::Null);
    assert_eq!(on(&world, "cluster1"), ["here", "never", "agent"], "without the annotation all is here");
    assert_eq!(on(&world, "cluster3").len(), 0);
    assert_eq!(works(&world), WORKS[..1]);
    assert!(!installed(&world).unwrap().has_finalizer(HOSTING_CLEANUP_FINALIZER));
    assert_eq!(
        (condition(&world, "HostingClusterValidity"), condition(&world, "HostingManifestApplied")),
        Default::default()
    );
    host(&mut world, json!("cluster2"));
    assert_eq!((on(&world, "cluster1"), on(&world, "cluster2")), (vec!["here"], vec!["agent"]));
}

#[test]
fn a_host_that_does_not_exist_or_is_not_accepted_is_named_and_deletes_nothing() {
    let mut world = hosted(&[]);
    let unchanged = |world: &World, reason: &str| {
        let invalid = format!("False HostingClusterInvalid: hosting cluster {reason}");
        assert_eq!(condition(world, "HostingClusterValidity"), invalid);
        assert_eq!(condition(world, "Available"), invalid.replacen("False", "Unknown", 1));
        assert_eq!(condition(world, "Degraded"), invalid.replacen("False", "True", 1));
        assert_eq!((on(world, "cluster1"), on(world, "cluster2")), (vec!["here"], vec!["agent"]));
        assert_eq!(works(world), WORKS);
    };
    host(&mut world, json!("cluster9"));
    unchanged(&world, "cluster9 is not a managed cluster of the hub");
    world.restart_operator();
    world.run_for(seconds(60)).unwrap();
    unchanged(&world, "cluster9 is not a managed cluster of the hub");
    host(&mut world, json!("cluster2"));
    assert!(condition(&world, "Available").starts_with("True"), "{}", condition(&world, "Available"));
    let accepts = |is: bool| json!({"spec": {"hubAcceptsClient": is}});
    change::<ManagedCluster>(&mut world, &Key::cluster("cluster2"), accepts(false));
    world.run_for(seconds(60)).unwrap();
    unchanged(&world, "cluster2 is not accepted by the hub");
    change::<ManagedCluster>(&mut world, &Key::cluster("cluster2"), accepts(true));
    world.run_for(seconds(60)).unwrap();
    assert!(condition(&world, "HostingClusterValidity").starts_with("True"));
}

#[test]
fn a_silent_host_makes_the_addon_unknown_and_a_leaving_host_removes_only_its_part() {
    let mut world = hosted(&[]);
    world.spokes.get_mut("cluster2").unwrap().connected = false;
    world.run_for(seconds(600)).unwrap();
    assert!(condition(&world, "Available").starts_with("Unknown ManagedClusterLeaseUpdateStopped"));
    world.spokes.get_mut("cluster2").unwrap().connected = true;
    world.run_for(seconds(120)).unwrap();
    assert!(condition(&world, "Available").starts_with("True"), "{}", condition(&world, "Available"));
    world.delete::<ManagedCluster>(&Key::cluster("cluster2")).unwrap();
    world.run_for(seconds(120)).unwrap();
    assert!(world.get::<ManagedCluster>(&Key::cluster("cluster2")).is_none());
    assert_eq!((works(&world), on(&world, "cluster1")), (vec![WORKS[0].to_owned()], vec!["here"]));
    assert!(condition(&world, "HostingClusterValidity").ends_with("is not a managed cluster of the hub"));
}

#[test]
fn a_work_that_the_api_server_refuses_is_named_in_the_condition_of_its_cluster() {
    let mut world = hosted(&[]);
    let refused = |world: &World, type_: &str, work: &str| {
        let reason =
            format!("cannot write ManifestWork.work.open-cluster-management.io {work}: denied by a policy");
        let failed = format!("False ManifestWorkApplyFailed: failed to apply manifestWork: {reason}");
        assert_eq!(condition(world, type_), failed);
        assert_eq!(condition(world, "Degraded"), failed.replacen("False", "True", 1));
    };
    template(&mut world, "msa:unwanted", &[]);
    world.run_for(seconds(60)).unwrap();
    refused(&world, "HostingManifestApplied", WORKS[1]);
    assert!(condition(&world, "ManifestApplied").starts_with("True"));
    let repair = |world: &mut World| {
        template(world, "msa:0.4.0", &[]);
        world.run_for(seconds(60)).unwrap();
        assert!(is_completed(world), "{:?}", progress(world));
        for type_ in ["ManifestApplied", "HostingManifestApplied"] {
            assert!(condition(world, type_).starts_with("True"), "{}", condition(world, type_));
        }
    };
    repair(&mut world);
    let metadata = json!({"name": "unwanted", "namespace": "default"});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    template(&mut world, "msa:0.4.0", &[map]);
    world.run_for(seconds(60)).unwrap();
    refused(&world, "ManifestApplied", WORKS[0]);
    assert!(condition(&world, "HostingManifestApplied").starts_with("True"));
    repair(&mut world);
}

#[test]
fn jobs_on_a_host_run_before_the_addon_leaves() {
    let pod =
        json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "clean", "image": "clean:1"}]}});
    let annotations = json!({ADDON_PRE_DELETE: "", HOSTED_MANIFEST_LOCATION: "hosting"});
    let metadata = json!({"name": "clean", "namespace": "default", "annotations": annotations});
    let job =
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": pod}});
    let mut world = hosted(&[job]);
    assert!(installed(&world).unwrap().has_finalizer(HOSTING_PRE_DELETE_FINALIZER));
    uninstall(&mut world);
    let open = "False HookManifestIsNotCompleted: hook manifestWork addon-managed-serviceaccount-pre-delete-hosting-cluster1 \
        is not completed: jobs default/clean has not completed. To delete the add-on without it, remove the finalizer \
        addon.open-cluster-management.io/hosting-addon-pre-delete.";
    assert_eq!(condition(&world, "HookManifestCompleted"), open);
    assert_eq!(on(&world, "cluster2"), ["agent"], "what the add-on runs stays until then");
    let path = ResourcePath::of::<Job>(&Key::namespaced("default", "clean"));
    let now = world.now;
    let spoke = world.spokes.get_mut("cluster2").unwrap();
    spoke.workloads.images.insert("clean:1".into());
    let pulled = Patch::Merge(json!({"metadata": {"annotations": {"image": "pulled"}}}));
    spoke.store.patch(&path, &pulled, &WriteOptions::manager("jobs"), now).unwrap();
    world.run_for(seconds(60)).unwrap();
    assert!(installed(&world).is_none());
    assert_eq!((works(&world).len(), on(&world, "cluster2").len()), (0, 0));
}

#[test]
fn the_part_on_a_host_is_deleted_even_if_a_person_removes_the_finalizers() {
    let mut world = hosted(&[]);
    change::<ManagedClusterAddOn>(&mut world, &key(), json!({"metadata": {"finalizers": null}}));
    uninstall(&mut world);
    assert!(installed(&world).is_none());
    assert_eq!((works(&world).len(), on(&world, "cluster2").len()), (0, 0));
}

#[test]
fn the_finalizers_of_an_addon_without_a_template_are_left_to_its_manager() {
    let mut world = with(Setup::default(), 7, 1);
    let addons = "addon.open-cluster-management.io/v1alpha1";
    let spec = json!({"installStrategy": {"type": "Manual"}});
    put(
        &mut world,
        json!({"apiVersion": addons, "kind": "ClusterManagementAddOn", "metadata": {"name": ADDON}, "spec": spec}),
    );
    let finalizers = [ADDON_PRE_DELETE, HOSTING_CLEANUP_FINALIZER];
    let metadata = json!({"name": ADDON, "namespace": "cluster1", "finalizers": finalizers});
    put(
        &mut world,
        json!({"apiVersion": addons, "kind": "ManagedClusterAddOn", "metadata": metadata, "spec": {}}),
    );
    world.run_for(seconds(10)).unwrap();
    world.delete::<ManagedClusterAddOn>(&key()).unwrap();
    world.run_for(seconds(60)).unwrap();
    assert_eq!(installed(&world).unwrap().metadata.finalizers.unwrap(), finalizers);
    world.delete::<ClusterManagementAddOn>(&Key::cluster(ADDON)).unwrap();
    world.run_for(seconds(60)).unwrap();
    assert_eq!(installed(&world).unwrap().metadata.finalizers.unwrap(), finalizers);
}

#[test]
fn a_version_with_an_unknown_location_reaches_no_cluster_if_one_is_hosted() {
    let mut world = hosted(&[]);
    world.keep_history();
    let elsewhere = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "x", "namespace": "default", "annotations": {HOSTED_MANIFEST_LOCATION: "elsewhere"}},
    });
    template(&mut world, "msa:0.4.1", &[elsewhere]);
    world.run_for(seconds(60)).unwrap();
    let (reason, message) = progress(&world);
    assert_eq!(reason, "ConfigurationInvalid");
    assert!(message.contains("not supported manifest location: elsewhere"), "{message}");
    let works = world.take_history().into_iter().filter(|write| write.id.kind == "ManifestWork").count();
    assert_eq!(works, 0);
}
