//! Add-ons on their clusters: pre-delete jobs and per-cluster configurations.

use k8s_openapi::api::batch::v1::Job;
use serde_json::{Map, Value, json};

use crate::fixtures::{ADDON, is_completed, merged, progress, put, seconds, select_all, template, world};
use api::addon::v1alpha1::{AddOnTemplate, ClusterManagementAddOn, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::condition::find_condition;
use api::names::{ADDON_ANNOTATION_PREFIX, ADDON_PRE_DELETE};
use api::work::v1::ManifestWork;
use object::{Key, Kind, Metadata as _};
use sim::World;
use store::{Patch, ResourcePath, WriteOptions};

/// Writes a template with a pre-delete job.
pub(crate) fn template_with_job(world: &mut World, image: &str) {
    template(world, "msa", image);
    let template: AddOnTemplate = world.get(&Key::cluster("msa")).unwrap();
    let mut object = serde_json::to_value(template).unwrap();
    object["metadata"] = json!({"name": "msa"});
    let pod =
        json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "clean", "image": "clean:1"}]}});
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "spec": {"template": pod},
        "metadata": {"name": "clean", "namespace": "open-cluster-management-agent-addon", "annotations": {ADDON_PRE_DELETE: ""}},
    });
    object["spec"]["agentSpec"]["workload"]["manifests"].as_array_mut().unwrap().push(job);
    put(world, object);
}

/// Returns a cluster with an add-on that has a pre-delete job.
fn with_job() -> World {
    let mut world = world(1);
    template_with_job(&mut world, "msa:0.4.0");
    let addons = "addon.open-cluster-management.io";
    let config = json!({"group": addons, "resource": "addontemplates", "defaultConfig": {"name": "msa"}});
    let kind = |kind: &str| json!({"apiVersion": format!("{addons}/v1alpha1"), "kind": kind});
    let spec = json!({"supportedConfigs": [config], "installStrategy": {"type": "Manual"}});
    put(
        &mut world,
        merged(kind("ClusterManagementAddOn"), json!({"metadata": {"name": ADDON}, "spec": spec})),
    );
    let on_cluster = json!({"metadata": {"name": ADDON, "namespace": "cluster1"}, "spec": {}});
    put(&mut world, merged(kind("ManagedClusterAddOn"), on_cluster));
    world.run_for(seconds(30)).unwrap();
    assert!(job_of(&world, "cluster1").is_none(), "the job runs at the deletion only");
    world
}

fn addon(world: &World) -> Option<ManagedClusterAddOn> {
    world.get(&Key::namespaced("cluster1", ADDON))
}

fn job_key() -> ResourcePath {
    ResourcePath::of::<Job>(&Key::namespaced("open-cluster-management-agent-addon", "clean"))
}

pub(crate) fn job_of(world: &World, cluster: &str) -> Option<Value> {
    Some(world.spokes[cluster].store.get(&job_key()).ok()?.as_ref().clone().into_value())
}

/// Makes the job's image available and changes the job so that the node tries again.
pub(crate) fn complete(world: &mut World, cluster: &str) {
    let now = world.now;
    let spoke = world.spokes.get_mut(cluster).unwrap();
    spoke.workloads.images.insert("clean:1".into());
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"image": "pulled"}}}));
    spoke.store.patch(&job_key(), &patch, &WriteOptions::manager("jobs"), now).unwrap();
}

#[test]
fn an_addon_is_deleted_only_when_its_last_job_is_complete() {
    let mut world = with_job();
    assert!(addon(&world).unwrap().has_finalizer(ADDON_PRE_DELETE));
    world.delete::<ManagedClusterAddOn>(&Key::namespaced("cluster1", ADDON)).unwrap();
    world.restart_operator();
    world.run_for(seconds(60)).unwrap();
    assert!(job_of(&world, "cluster1").is_some());
    assert_eq!(world.list::<ManifestWork>().len(), 2, "what the add-on runs stays until then");
    let status = addon(&world).unwrap().status.unwrap();
    let condition = find_condition(&status.conditions, "HookManifestCompleted").unwrap();
    assert_eq!(condition.reason, "HookManifestIsNotCompleted");
    assert!(
        condition.message.contains("jobs open-cluster-management-agent-addon/clean has not completed"),
        "{condition:?}"
    );
    let overdue = |world: &mut World| {
        world.run_for(seconds(11 * 60)).unwrap();
        let events = world.take_events().into_iter();
        events
            .filter(|event| event.reason == "HookNotCompleted")
            .map(|event| event.message)
            .collect::<Vec<_>>()
    };
    let warnings = overdue(&mut world);
    assert!(
        warnings.len() == 1 && warnings[0].ends_with("It is taking longer than 10 minutes."),
        "{warnings:?}"
    );
    world.restart_operator();
    assert_eq!(
        overdue(&mut world),
        Vec::<String>::new(),
        "an operator that starts later tells nothing twice"
    );
    complete(&mut world, "cluster1");
    world.run_for(seconds(60)).unwrap();
    assert!(addon(&world).is_none());
    assert_eq!(world.list::<ManifestWork>().len(), 0);
}

#[test]
fn the_last_jobs_run_even_if_the_addon_is_deleted_for_all_clusters() {
    let mut world = with_job();
    world.delete::<ClusterManagementAddOn>(&Key::cluster(ADDON)).unwrap();
    world.run_for(seconds(60)).unwrap();
    assert!(addon(&world).unwrap().is_terminating() && job_of(&world, "cluster1").is_some());
    complete(&mut world, "cluster1");
    world.run_for(seconds(60)).unwrap();
    assert!(addon(&world).is_none());
}

#[test]
fn a_configuration_that_does_not_exist_is_named_on_the_addon_that_asks_for_it() {
    let mut world = with_job();
    let addons = "addon.open-cluster-management.io";
    let config =
        json!({"group": addons, "resource": "addondeploymentconfigs", "namespace": "default", "name": "own"});
    let kind = json!({"apiVersion": format!("{addons}/v1alpha1"), "kind": "ManagedClusterAddOn"});
    let metadata = json!({"name": ADDON, "namespace": "cluster1"});
    put(&mut world, merged(kind, json!({"metadata": metadata, "spec": {"configs": [config]}})));
    world.run_for(seconds(10)).unwrap();
    let configured = |world: &World| {
        let status = addon(world).unwrap().status.unwrap();
        let condition = find_condition(&status.conditions, "Configured").unwrap();
        (condition.status.to_string(), condition.message.clone())
    };
    let message = "addondeploymentconfigs default/own does not exist; until this is fixed, the cluster keeps what it runs";
    assert_eq!(configured(&world), ("False".to_owned(), message.to_owned()));
    let kind = json!({"apiVersion": format!("{addons}/v1alpha1"), "kind": "AddOnDeploymentConfig"});
    put(&mut world, merged(kind, json!({"metadata": {"name": "own", "namespace": "default"}, "spec": {}})));
    world.run_for(seconds(10)).unwrap();
    assert_eq!(configured(&world).0, "True");
}

#[test]
fn a_template_that_is_deleted_while_it_is_in_use_changes_no_cluster() {
    let mut world = world(3);
    everywhere(&mut world);
    let works = |world: &World| {
        let works = world.list::<ManifestWork>();
        works
            .iter()
            .map(|work| (Key::of(work), serde_json::to_value(&work.spec).unwrap()))
            .collect::<Vec<_>>()
    };
    let before = works(&world);
    world.delete::<AddOnTemplate>(&Key::cluster("msa")).unwrap();
    world.run_for(seconds(120)).unwrap();
    world.restart_operator();
    world.run_for(seconds(120)).unwrap();
    assert_eq!((works(&world), before.len()), (before, 3));
    let (_, message) = progress(&world);
    assert!(message.contains("addontemplates msa does not exist"), "{message}");
}

/// Installs an add-on on all clusters and completes its rollout.
pub(crate) fn everywhere(world: &mut World) {
    template(world, "msa", "msa:0.4.0");
    crate::fixtures::addon(world, "msa", json!({"type": "All"}));
    select_all(world);
    assert!(world.run_until(seconds(60), is_completed).unwrap(), "{:?}", progress(world));
}

#[test]
fn a_template_without_manifests_removes_the_works_and_completes() {
    let mut world = world(1);
    everywhere(&mut world);
    let mut object = serde_json::to_value(world.get::<AddOnTemplate>(&Key::cluster("msa")).unwrap()).unwrap();
    object["metadata"] = json!({"name": "msa"});
    object["spec"]["agentSpec"]["workload"]["manifests"] = json!([]);
    put(&mut world, object);
    world.run_for(seconds(30)).unwrap();
    assert_eq!(world.list::<ManifestWork>().len(), 0);
    assert!(is_completed(&world), "{:?}", progress(&world));
    let status = addon(&world).unwrap().status.unwrap();
    let applied = find_condition(&status.conditions, "ManifestApplied").unwrap();
    assert_eq!((applied.is_true(), applied.message.as_str()), (true, "no manifest need to apply"));
}

#[test]
fn a_hosting_annotation_does_not_hold_an_addon_of_a_template() {
    let mut world = world(1);
    let hosting = json!({"addon.open-cluster-management.io/hosting-cluster-name": "cluster1"});
    let patch = Patch::Merge(json!({"metadata": {"annotations": hosting}}));
    let cluster = ResourcePath::of::<ManagedCluster>(&Key::cluster("cluster1"));
    let now = world.now;
    world.hub.patch(&cluster, &patch, &WriteOptions::manager("user"), now).unwrap();
    everywhere(&mut world);
    let annotations = addon(&world).unwrap().metadata.annotations.unwrap();
    assert!(annotations.contains_key("addon.open-cluster-management.io/hosting-cluster-name"));
}

/// Sets annotations with a prefix that add-ons copy, on the cluster or its add-on; null removes an annotation.
fn annotate<K: Kind>(world: &mut World, key: &Key, values: &Value) {
    let values = values.as_object().unwrap().iter();
    let annotations: Map<String, Value> =
        values.map(|(name, value)| (format!("{ADDON_ANNOTATION_PREFIX}{name}"), value.clone())).collect();
    let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
    let now = world.now;
    world.hub.patch(&ResourcePath::of::<K>(key), &patch, &WriteOptions::manager("user"), now).unwrap();
    world.run_for(seconds(30)).unwrap();
}

#[test]
fn annotations_of_people_stay_on_the_addon_of_a_cluster_whose_annotations_change() {
    let mut world = world(1);
    everywhere(&mut world);
    let of_addon = |world: &World| {
        let annotations = addon(world).unwrap().metadata.annotations.unwrap();
        let value = |name: &str| annotations.get(&format!("{ADDON_ANNOTATION_PREFIX}{name}")).cloned();
        [value("values"), value("x")].map(Option::unwrap_or_default)
    };
    let (on_cluster, cluster) = (Key::namespaced("cluster1", ADDON), Key::cluster("cluster1"));
    annotate::<ManagedClusterAddOn>(&mut world, &on_cluster, &json!({"values": "of a person"}));
    annotate::<ManagedCluster>(&mut world, &cluster, &json!({"values": "of the cluster", "x": "1"}));
    assert_eq!(of_addon(&world), ["of a person", "1"]);
    world.restart_operator();
    annotate::<ManagedCluster>(&mut world, &cluster, &json!({"values": null, "x": "2"}));
    assert_eq!(of_addon(&world), ["of a person", "2"]);
    annotate::<ManagedCluster>(&mut world, &cluster, &json!({"x": null}));
    assert_eq!(of_addon(&world), ["of a person", ""]);
}

#[test]
fn manifest_configs_come_from_the_template_of_the_cluster() {
    let mut world = world(1);
    everywhere(&mut world);
    let mut own = serde_json::to_value(world.get::<AddOnTemplate>(&Key::cluster("msa")).unwrap()).unwrap();
    own["metadata"] = json!({"name": "own"});
    let rule = json!({"type": "JSONPaths", "jsonPaths": [{"name": "phase", "path": ".status.phase"}]});
    let namespace =
        json!({"group": "", "resource": "namespaces", "name": "open-cluster-management-agent-addon"});
    own["spec"]["agentSpec"]["manifestConfigs"] =
        json!([{"resourceIdentifier": namespace, "feedbackRules": [rule]}]);
    put(&mut world, own);
    let addons = "addon.open-cluster-management.io";
    let config = json!({"group": addons, "resource": "addontemplates", "name": "own"});
    let kind = json!({"apiVersion": format!("{addons}/v1alpha1"), "kind": "ManagedClusterAddOn"});
    let metadata = json!({"name": ADDON, "namespace": "cluster1"});
    put(&mut world, merged(kind, json!({"metadata": metadata, "spec": {"configs": [config]}})));
    world.run_for(seconds(30)).unwrap();
    let work = world.list::<ManifestWork>().remove(0);
    let resources: Vec<_> = work
        .spec
        .manifest_configs
        .iter()
        .map(|config| config.resource_identifier.resource.as_str())
        .collect();
    assert!(resources.contains(&"namespaces"), "{resources:?}");
}

/// Returns the status and message of one of the add-on's conditions.
fn condition(world: &World, type_: &str) -> Option<(String, String)> {
    let status = addon(world)?.status?;
    find_condition(&status.conditions, type_).map(|c| (c.status.to_string(), c.message.clone()))
}

fn is_degraded(world: &World) -> bool {
    condition(world, "Degraded").is_some_and(|(status, _)| status == "True")
}

#[test]
fn an_addon_names_its_works_and_is_degraded_while_a_workload_that_ran_does_not_run() {
    let mut world = world(1);
    everywhere(&mut world);
    let related = addon(&world).unwrap().status.unwrap().related_objects;
    let named: Vec<_> =
        related.iter().map(|r| format!("{} {}/{}", r.resource, r.namespace, r.name)).collect();
    assert_eq!(named, [format!("manifestworks cluster1/addon-{ADDON}-deploy-0")]);
    assert_eq!(condition(&world, "Degraded").unwrap().0, "False");
    let spoke = world.spokes.get_mut("cluster1").unwrap();
    let images = std::mem::take(&mut spoke.workloads.images);
    let key = Key::namespaced("open-cluster-management-agent-addon", "msa");
    let path = ResourcePath::of::<k8s_openapi::api::apps::v1::Deployment>(&key);
    spoke.store.delete(&path, &store::DeleteOptions::default(), world.now).unwrap();
    assert!(world.run_until(seconds(60), is_degraded).unwrap(), "{:?}", addon(&world).unwrap().status);
    let (_, message) = condition(&world, "Degraded").unwrap();
    assert!(message.contains("deployments open-cluster-management-agent-addon/msa"), "{message}");
    let spoke = world.spokes.get_mut("cluster1").unwrap();
    spoke.workloads.images = images;
    let touch = Patch::Merge(json!({"metadata": {"annotations": {"image": "pulled"}}}));
    spoke.store.patch(&path, &touch, &WriteOptions::manager("user"), world.now).unwrap();
    assert!(world.run_until(seconds(60), |world| !is_degraded(world)).unwrap(), "{:?}", addon(&world));
}

#[test]
fn a_template_that_cannot_be_rendered_for_a_cluster_degrades_its_addon() {
    let mut world = world(1);
    everywhere(&mut world);
    let mut registries = |text: Value| {
        let patch =
            json!({"metadata": {"annotations": {"open-cluster-management.io/image-registries": text}}});
        let cluster = ResourcePath::of::<ManagedCluster>(&Key::cluster("cluster1"));
        let now = world.now;
        world.hub.patch(&cluster, &Patch::Merge(patch), &WriteOptions::manager("user"), now).unwrap();
        world.run_for(seconds(30)).unwrap();
        (condition(&world, "Degraded").unwrap(), condition(&world, "ManifestApplied").unwrap())
    };
    let (degraded, applied) = registries(json!("no JSON"));
    assert_eq!(degraded.0, "True");
    assert_eq!(degraded.1, applied.1);
    assert_eq!(registries(Value::Null).0.0, "False");
}

#[test]
fn an_addon_that_another_process_manages_is_left_to_it() {
    let mut world = world(2);
    template(&mut world, "msa", "msa:0.4.0");
    crate::fixtures::addon(&mut world, "msa", json!({"type": "All"}));
    let lifecycle = json!({"addon.open-cluster-management.io/lifecycle": "self"});
    let path = ResourcePath::of::<ClusterManagementAddOn>(&Key::cluster(ADDON));
    let patch = Patch::Merge(json!({"metadata": {"annotations": lifecycle}}));
    let now = world.now;
    world.hub.patch(&path, &patch, &WriteOptions::manager("user"), now).unwrap();
    select_all(&mut world);
    let addons = "addon.open-cluster-management.io/v1alpha1";
    let on_cluster = json!({"apiVersion": addons, "kind": "ManagedClusterAddOn", "metadata": {"name": ADDON, "namespace": "cluster1"}, "spec": {}});
    put(&mut world, on_cluster);
    let before = addon(&world).unwrap();
    world.run_for(seconds(60)).unwrap();
    assert_eq!(addon(&world).unwrap(), before, "its status and its owner are those of its manager");
    assert_eq!(world.list::<ManagedClusterAddOn>().len(), 1, "its manager installs it");
    assert_eq!(world.list::<ManifestWork>().len(), 0, "its manager makes its works");
    let cma: ClusterManagementAddOn = world.get(&Key::cluster(ADDON)).unwrap();
    let status = cma.status.unwrap();
    assert!(status.install_progressions.is_empty());
    let default = status.default_config_references[0].desired_config.clone().unwrap();
    assert_eq!((default.name.as_str(), default.spec_hash.len()), ("msa", 64), "the defaults are told");
}
