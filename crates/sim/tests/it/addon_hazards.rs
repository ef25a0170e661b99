//! Hazards of add-ons in Open Cluster Management: placements that share clusters, add-ons installed by people,
//! per-cluster configurations, and the order of add-ons.

use serde_json::{Value, json};

use crate::addons::{complete, everywhere, job_of, template_with_job};
use crate::fixtures::{
    ADDON, addon, images, is_completed, merged, progress, progressive, put, seconds, select_all, template,
    world,
};
use crate::removals::select_some;
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::condition::find_condition;
use api::work::v1::ManifestWork;
use k8s_openapi::api::apps::v1::ControllerRevision;
use object::{Key, Metadata as _};
use sim::World;
use store::{Patch, ResourcePath, WriteOptions};

const ADDONS: &str = "addon.open-cluster-management.io/v1alpha1";

fn config(template: &str) -> Value {
    json!({"group": "addon.open-cluster-management.io", "resource": "addontemplates", "name": template})
}

fn put_on(world: &mut World, cluster: &str, spec: Value) {
    let metadata = json!({"name": ADDON, "namespace": cluster});
    put(
        world,
        json!({"apiVersion": ADDONS, "kind": "ManagedClusterAddOn", "metadata": metadata, "spec": spec}),
    );
}

#[test]
fn a_cluster_of_two_placements_counts_in_the_later_one_and_the_earlier_one_does_not_wait_for_it() {
    let mut world = world(3);
    template(&mut world, "msa", "msa:0.4.0");
    template(&mut world, "later", "msa:0.4.9");
    select_all(&mut world);
    let kind = json!({"apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement"});
    let canary = json!({"requiredClusterSelector": {"labelSelector": {"matchLabels": {"canary": "true"}}}});
    let metadata = json!({"name": "canaries", "namespace": "default"});
    put(&mut world, merged(kind, json!({"metadata": metadata, "spec": {"predicates": [canary]}})));
    let placement = |name: &str, template: &str, strategy: Value| json!({"namespace": "default", "name": name, "configs": [config(template)], "rolloutStrategy": strategy});
    let supported = json!({"group": "addon.open-cluster-management.io", "resource": "addontemplates"});
    let groups = json!({"type": "ProgressivePerGroup"});
    // The earlier placement's mandatory group has only one cluster, which belongs to the later placement.
    let placements =
        json!([placement("fleet", "msa", progressive()), placement("canaries", "later", groups)]);
    put(
        &mut world,
        json!({"apiVersion": ADDONS, "kind": "ClusterManagementAddOn", "metadata": {"name": ADDON}, "spec": {
            "supportedConfigs": [supported], "installStrategy": {"type": "Placements", "placements": placements},
        }}),
    );
    let reasons = |world: &World| {
        let cma: ClusterManagementAddOn = world.get(&Key::cluster(ADDON)).unwrap();
        let progressions = cma.status.unwrap().install_progressions.into_iter();
        progressions.map(|one| one.conditions[0].reason.clone()).collect::<Vec<_>>()
    };
    assert!(world.run_until(seconds(120), is_completed).unwrap(), "{:?}", progress(&world));
    world.run_for(seconds(30)).unwrap();
    assert_eq!(images(&world), ["0.4.9", "0.4.0", "0.4.0"]);
    assert_eq!(reasons(&world), ["Completed", "Progressing"], "the pods of the later one never run");
    template(&mut world, "later", "msa:0.4.1");
    world.run_for(seconds(60)).unwrap();
    assert_eq!(images(&world), ["0.4.1", "0.4.0", "0.4.0"]);
    assert_eq!(reasons(&world), ["Completed", "Completed"]);
}

#[test]
fn a_manually_installed_addon_stays_on_an_unselected_cluster() {
    let mut world = world(2);
    template(&mut world, "msa", "msa:0.4.0");
    put_on(&mut world, "cluster2", json!({}));
    select_all(&mut world);
    select_some(&mut world, 1);
    addon(&mut world, "msa", json!({"type": "All"}));
    world.run_for(seconds(60)).unwrap();
    let on = world.list::<ManagedClusterAddOn>();
    let on: Vec<&str> = on.iter().filter_map(|addon| addon.metadata.namespace.as_deref()).collect();
    assert_eq!(on, ["cluster1", "cluster2"]);
    select_some(&mut world, 0);
    world.run_for(seconds(4000)).unwrap();
    assert!(world.get::<ManagedClusterAddOn>(&Key::namespaced("cluster2", ADDON)).is_some());
}

#[test]
fn a_configuration_of_one_cluster_waits_behind_a_stuck_rollout() {
    let mut world = world(3);
    template(&mut world, "msa", "msa:0.4.0");
    template(&mut world, "fix", "msa:0.4.1");
    addon(&mut world, "msa", progressive());
    select_all(&mut world);
    assert!(world.run_until(seconds(120), is_completed).unwrap(), "{:?}", progress(&world));
    template(&mut world, "msa", "msa:0.4.9");
    world.run_for(seconds(60)).unwrap();
    assert_eq!(progress(&world).0, "Failed", "the canary fails");
    put_on(&mut world, "cluster3", json!({"configs": [config("fix")]}));
    world.run_for(seconds(120)).unwrap();
    assert_eq!(images(&world)[2], "0.4.0");
}

#[test]
fn addons_are_installed_in_any_order() {
    let mut world = world(1);
    template(&mut world, "msa", "msa:0.4.9");
    addon(&mut world, "msa", json!({"type": "All"}));
    let cma: ClusterManagementAddOn = world.get(&Key::cluster(ADDON)).unwrap();
    let kind = json!({"apiVersion": ADDONS, "kind": "ClusterManagementAddOn", "metadata": {"name": "other"}});
    put(&mut world, merged(kind, json!({"spec": cma.spec})));
    select_all(&mut world);
    world.run_for(seconds(60)).unwrap();
    let on = world.list::<ManagedClusterAddOn>();
    let names: Vec<&str> = on.iter().filter_map(|addon| addon.metadata.name.as_deref()).collect();
    assert_eq!(names, [ADDON, "other"], "the pods of the first never run");
}

/// Creates the add-on with a template named by its placement; the optional default is a different template.
fn with_template_of_placement(world: &mut World, default: Option<&str>) {
    let mut supported = json!({"group": "addon.open-cluster-management.io", "resource": "addontemplates"});
    if let Some(default) = default {
        supported["defaultConfig"] = json!({"name": default});
    }
    let placement = json!({"namespace": "default", "name": "fleet", "configs": [config("msa")]});
    put(
        world,
        json!({"apiVersion": ADDONS, "kind": "ClusterManagementAddOn", "metadata": {"name": ADDON}, "spec": {
            "supportedConfigs": [supported], "installStrategy": {"type": "Placements", "placements": [placement]},
        }}),
    );
    select_all(world);
    assert!(world.run_until(seconds(120), is_completed).unwrap(), "{:?}", progress(world));
}

#[test]
fn a_cluster_whose_removal_is_on_hold_keeps_what_its_placement_gave_it() {
    let mut world = world(4);
    template(&mut world, "msa", "msa:0.4.0");
    template(&mut world, "default", "msa:0.4.1");
    with_template_of_placement(&mut world, Some("default"));
    select_some(&mut world, 1);
    world.run_for(seconds(60)).unwrap();
    assert_eq!(images(&world), ["0.4.0"; 4], "the removal of three of four waits");
    template(&mut world, "default", "msa:0.4.2");
    world.restart_operator();
    world.run_for(seconds(60)).unwrap();
    assert_eq!(images(&world), ["0.4.0"; 4], "another default reaches no cluster that waits");
}

#[test]
fn an_unselected_cluster_runs_the_last_jobs_of_its_addon() {
    let mut world = world(4);
    template_with_job(&mut world, "msa:0.4.0");
    with_template_of_placement(&mut world, None);
    select_some(&mut world, 1);
    world.run_for(seconds(60)).unwrap();
    assert_eq!(images(&world), ["0.4.0"; 4], "the removal of three of four waits");
    select_some(&mut world, 3);
    world.run_for(seconds(60)).unwrap();
    assert!(job_of(&world, "cluster4").is_some());
    complete(&mut world, "cluster4");
    world.run_for(seconds(60)).unwrap();
    assert!(world.get::<ManagedClusterAddOn>(&Key::namespaced("cluster4", ADDON)).is_none());
}

#[test]
fn a_cluster_that_waits_for_its_turn_keeps_its_works_and_its_last_jobs() {
    let mut world = world(2);
    template_with_job(&mut world, "msa:0.4.0");
    addon(&mut world, "msa", progressive());
    select_all(&mut world);
    assert!(world.run_until(seconds(120), is_completed).unwrap(), "{:?}", progress(&world));
    template_with_job(&mut world, "msa:0.4.9");
    world.run_for(seconds(60)).unwrap();
    assert_eq!((images(&world)[1].as_str(), progress(&world).0.as_str()), ("0.4.0", "Failed"));
    let work = Key::namespaced("cluster2", format!("addon-{ADDON}-deploy-0"));
    world.delete::<ManifestWork>(&work).unwrap();
    world.run_for(seconds(60)).unwrap();
    assert!(world.get::<ManifestWork>(&work).is_some(), "the work is repaired");
    let key = Key::namespaced("cluster2", ADDON);
    world.delete::<ManagedClusterAddOn>(&key).unwrap();
    world.run_for(seconds(120)).unwrap();
    let is_waiting = |world: &World| {
        let addon = world.get::<ManagedClusterAddOn>(&key);
        addon.is_some_and(|addon| addon.metadata.deletion_timestamp.is_some())
    };
    assert!(is_waiting(&world) && job_of(&world, "cluster2").is_some());
    complete(&mut world, "cluster2");
    world.run_for(seconds(60)).unwrap();
    assert!(!is_waiting(&world), "the placement may have installed it again");
}

/// OCM's add-on manager keeps no snapshots and requests only the well-known feedback.
#[test]
fn an_addon_that_ocm_rolled_out_is_taken_over_with_what_it_runs() {
    let mut world = world(2);
    everywhere(&mut world);
    for revision in world.list::<ControllerRevision>() {
        world.delete::<ControllerRevision>(&Key::of(&revision)).unwrap();
    }
    let work = world.list::<ManifestWork>().remove(0);
    let mut theirs = serde_json::to_value(&work.spec).unwrap();
    theirs["manifestConfigs"][0]["feedbackRules"] = json!([{"type": "WellKnownStatus"}]);
    let patch = Patch::Merge(json!({"spec": theirs}));
    let now = world.now;
    let path = ResourcePath::of::<ManifestWork>(&Key::of(&work));
    world.hub.patch(&path, &patch, &WriteOptions::manager("ocm"), now).unwrap();
    world.restart_operator();
    let is_degraded = |world: &World| {
        let status =
            world.get::<ManagedClusterAddOn>(&Key::namespaced(work.namespace(), ADDON)).unwrap().status;
        find_condition(&status.unwrap().conditions, "Degraded").unwrap().is_true()
    };
    assert!(!world.run_until(seconds(30), is_degraded).unwrap(), "what is not reported yet is no fault");
    assert_eq!(world.list::<ControllerRevision>().len(), 1, "what the clusters run has its snapshot");
    world.delete::<ManifestWork>(&Key::of(&work)).unwrap();
    world.run_for(seconds(30)).unwrap();
    assert_eq!(world.list::<ManifestWork>().len(), 2, "a work that somebody deletes comes back");
}

#[test]
fn a_snapshot_of_an_addon_that_somebody_deletes_at_rest_is_written_again() {
    let mut world = world(2);
    everywhere(&mut world);
    world.run_for(seconds(120)).unwrap();
    for revision in world.list::<ControllerRevision>() {
        world.delete::<ControllerRevision>(&Key::of(&revision)).unwrap();
    }
    world.run_for(seconds(5)).unwrap();
    assert_eq!(world.list::<ControllerRevision>().len(), 1);
}

/// Patches the add-on of the first cluster.
fn patch_first(world: &mut World, patch: Value) {
    let (path, now) =
        (ResourcePath::of::<ManagedClusterAddOn>(&Key::namespaced("cluster1", ADDON)), world.now);
    world.hub.patch(&path, &Patch::Merge(patch), &WriteOptions::manager("user"), now).unwrap();
}

#[test]
fn a_job_that_enters_the_template_during_the_deletion_does_not_hold_the_addon() {
    let mut world = world(1);
    template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", json!({"type": "All"}));
    select_all(&mut world);
    assert!(world.run_until(seconds(60), is_completed).unwrap(), "{:?}", progress(&world));
    let of_others = json!(["example.com/wait"]);
    patch_first(&mut world, json!({"metadata": {"finalizers": of_others}}));
    world.delete::<ManagedClusterAddOn>(&Key::namespaced("cluster1", ADDON)).unwrap();
    world.run_for(seconds(10)).unwrap();
    world.keep_history();
    template_with_job(&mut world, "msa:0.4.1");
    world.run_for(seconds(60)).unwrap();
    let addon: ManagedClusterAddOn = world.get(&Key::namespaced("cluster1", ADDON)).unwrap();
    assert_eq!(json!(addon.metadata.finalizers), of_others);
    let writes =
        world.take_history().into_iter().filter(|write| write.id.kind == "ManagedClusterAddOn").count();
    assert_eq!(writes, 0, "nothing is tried again and again");
    world.delete::<ClusterManagementAddOn>(&Key::cluster(ADDON)).unwrap();
    patch_first(&mut world, json!({"metadata": {"finalizers": null}}));
    world.run_for(seconds(60)).unwrap();
    assert!(world.get::<ManagedClusterAddOn>(&Key::namespaced("cluster1", ADDON)).is_none());
}

#[test]
fn a_missing_placement_does_not_stop_the_rollout_of_another() {
    let mut world = world(3);
    template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", json!({"type": "All"}));
    let absent = json!({"namespace": "default", "name": "absent"});
    let fleet = json!({"namespace": "default", "name": "fleet", "rolloutStrategy": {"type": "All"}});
    let strategy = json!({"installStrategy": {"type": "Placements", "placements": [fleet, absent]}});
    let (path, now) = (ResourcePath::of::<ClusterManagementAddOn>(&Key::cluster(ADDON)), world.now);
    let patch = Patch::Merge(json!({"spec": strategy}));
    world.hub.patch(&path, &patch, &WriteOptions::manager("user"), now).unwrap();
    select_all(&mut world);
    assert!(world.run_until(seconds(60), is_completed).unwrap(), "{:?}", progress(&world));
    template(&mut world, "msa", "msa:0.4.1");
    let is_new = |world: &World| images(world) == ["0.4.1"; 3];
    assert!(world.run_until(seconds(60), is_new).unwrap(), "{:?}", progress(&world));
    let cma: ClusterManagementAddOn = world.get(&Key::cluster(ADDON)).unwrap();
    let of_absent = &cma.status.unwrap().install_progressions[1];
    assert_eq!(of_absent.name, "absent");
    let condition = find_condition(&of_absent.conditions, "Progressing").unwrap();
    assert!(condition.message.contains("does not exist"), "{condition:?}");
    // Any cluster could belong to the missing placement, so nothing is removed.
    select_some(&mut world, 2);
    world.run_for(seconds(60)).unwrap();
    assert_eq!(world.list::<ManagedClusterAddOn>().len(), 3);
}
