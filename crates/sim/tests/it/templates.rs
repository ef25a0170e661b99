//! The status of an add-on before its rollout, and the snapshots of its configurations.

use k8s_openapi::api::apps::v1::ControllerRevision;
use serde_json::{Value, json};

use crate::fixtures::{
    ADDON, addon, config_maps, images, is_completed, merged, progress, progressive, put, put_work, seconds,
    select_all, template, world,
};
use crate::manifests::{definition, geese};
use api::addon::v1alpha1::{AddOnTemplate, ClusterManagementAddOn, ManagedClusterAddOn};
use api::condition::find_condition;
use api::names::{ADDON_DELETION_ORPHAN, STRICT_VARIABLES_ANNOTATION};
use api::work::v1::ManifestWork;
use object::Key;
use sim::World;
use store::{ListOptions, Patch, ResourcePath, WriteOptions};

#[test]
fn an_addon_says_what_it_waits_for_and_rolls_out_once_its_placement_exists() {
    let mut world = world(3);
    template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", json!({"type": "All"}));
    world.run_for(seconds(30)).unwrap();
    let (reason, message) = progress(&world);
    assert!(reason == "Progressing" && message.ends_with("The placement does not exist."), "{message}");
    select_all(&mut world);
    world.run_for(seconds(1)).unwrap();
    assert_eq!(images(&world), ["0.4.0", "0.4.0", "0.4.0"], "one second after the placement");
}

#[test]
fn a_template_that_cannot_be_rendered_is_reported_and_changes_no_cluster() {
    let mut world = world(3);
    template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", json!({"type": "All"}));
    select_all(&mut world);
    assert!(world.run_until(seconds(60), is_completed).unwrap(), "{:?}", progress(&world));
    world.keep_history();
    template(&mut world, "msa", "msa:0.4.1{{");
    world.run_for(seconds(60)).unwrap();
    let (reason, message) = progress(&world);
    assert_eq!(reason, "ConfigurationInvalid");
    assert!(message.contains("unclosed variable"), "{message}");
    let writes = world.take_history();
    let touched =
        writes.iter().find(|w| ["ManagedClusterAddOn", "ManifestWork"].contains(&w.id.kind.as_str()));
    assert!(touched.is_none(), "{touched:?}");
    template(&mut world, "msa", "msa:0.4.1");
    assert!(world.run_until(seconds(60), is_completed).unwrap(), "{:?}", progress(&world));
    assert_eq!(images(&world), ["0.4.1", "0.4.1", "0.4.1"]);
}

#[test]
fn an_undefined_variable_is_refused_if_the_addon_requires_definitions() {
    let mut world = world(2);
    template(&mut world, "msa", "msa:0.4.0{{SUFFIX}}");
    addon(&mut world, "msa", json!({"type": "All"}));
    let strict = |world: &mut World, value: Value| {
        let path = ResourcePath::of::<ClusterManagementAddOn>(&Key::cluster(ADDON));
        let patch = Patch::Merge(json!({"metadata": {"annotations": {STRICT_VARIABLES_ANNOTATION: value}}}));
        let now = world.now;
        world.hub.patch(&path, &patch, &WriteOptions::manager("user"), now).unwrap();
    };
    strict(&mut world, json!("true"));
    select_all(&mut world);
    world.run_for(seconds(60)).unwrap();
    let (reason, message) = progress(&world);
    assert!(reason == "ConfigurationInvalid" && message.contains("SUFFIX"), "{reason}: {message}");
    assert_eq!(images(&world), Vec::<String>::new());
    strict(&mut world, Value::Null);
    assert!(world.run_until(seconds(60), is_completed).unwrap(), "{:?}", progress(&world));
    assert_eq!(images(&world), ["0.4.0", "0.4.0"], "as in OCM the variable is nothing");
    strict(&mut world, json!("true"));
    world.run_for(seconds(60)).unwrap();
    assert_eq!(progress(&world).0, "ConfigurationInvalid", "what is rolled out is checked again");
    assert_eq!(images(&world), ["0.4.0", "0.4.0"]);
}

/// Writes the template with the given manifests.
fn put_manifests(world: &mut World, manifests: &[Value]) {
    template(world, "msa", "msa:0.4.0");
    let template: AddOnTemplate = world.get(&Key::cluster("msa")).unwrap();
    let mut object = serde_json::to_value(template).unwrap();
    object["metadata"] = json!({"name": "msa"});
    object["spec"]["agentSpec"]["workload"]["manifests"] = json!(manifests);
    put(world, object);
}

fn map(name: &str, annotations: &Value, data: &str) -> Value {
    let metadata = json!({"name": name, "namespace": "default", "annotations": annotations});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"v": data}})
}

#[test]
fn objects_that_are_to_stay_stay_on_the_cluster_and_the_others_leave_with_the_addon() {
    let mut world = world(1);
    let stays = json!({ADDON_DELETION_ORPHAN: ""});
    put_manifests(&mut world, &[map("stays", &stays, "1"), map("goes", &json!({}), "1")]);
    addon(&mut world, "msa", json!({"type": "All"}));
    select_all(&mut world);
    assert!(world.run_until(seconds(60), is_completed).unwrap(), "{:?}", progress(&world));
    assert_eq!(config_maps(&world), ["goes=\"1\"", "stays=\"1\""]);
    world.delete::<ClusterManagementAddOn>(&Key::cluster(ADDON)).unwrap();
    world.run_for(seconds(60)).unwrap();
    assert_eq!(world.list::<ManifestWork>().len(), 0);
    assert_eq!(config_maps(&world), ["stays=\"1\""]);
}

#[test]
fn an_object_of_an_irregular_kind_that_is_to_stay_stays_on_the_cluster() {
    let mut world = world(1);
    let metadata = json!({"name": "definition", "namespace": "cluster1"});
    put_work(&mut world, metadata, json!({"workload": {"manifests": [definition()]}}));
    world.run_for(seconds(5)).unwrap();
    let metadata = json!({"name": "g", "annotations": {ADDON_DELETION_ORPHAN: ""}});
    let goose = json!({"apiVersion": "example.com/v1", "kind": "Goose", "metadata": metadata});
    put_manifests(&mut world, &[goose, map("goes", &json!({}), "1")]);
    addon(&mut world, "msa", json!({"type": "All"}));
    select_all(&mut world);
    assert!(world.run_until(seconds(60), is_completed).unwrap(), "{:?}", progress(&world));
    world.run_for(seconds(5)).unwrap();
    world.delete::<ClusterManagementAddOn>(&Key::cluster(ADDON)).unwrap();
    world.run_for(seconds(60)).unwrap();
    let works = world.list::<ManifestWork>();
    assert_eq!(works.len(), 1, "the work of the definition alone");
    assert_eq!((geese(&world), config_maps(&world)), (1, Vec::new()));
}

#[test]
fn an_addon_that_is_too_large_for_one_work_has_two_until_it_shrinks() {
    let mut world = world(1);
    let (first, second) = ("1".repeat(300_000), "2".repeat(300_000));
    let two = |data: &str| [map("a", &json!({}), data), map("b", &json!({}), data)];
    let works = |world: &World| {
        let works = world.list::<ManifestWork>();
        works.iter().filter_map(|work| work.metadata.name.clone()).collect::<Vec<_>>()
    };
    put_manifests(&mut world, &two(&first));
    addon(&mut world, "msa", json!({"type": "All"}));
    select_all(&mut world);
    assert!(world.run_until(seconds(60), is_completed).unwrap(), "{:?}", progress(&world));
    let names = [0, 1].map(|index| format!("addon-{ADDON}-deploy-{index}"));
    assert_eq!(works(&world), names);
    put_manifests(&mut world, &two(&second));
    let arrived = |world: &World| {
        is_completed(world) && config_maps(world) == ["a", "b"].map(|name| format!("{name}={second:?}"))
    };
    assert!(world.run_until(seconds(60), arrived).unwrap(), "{:?}", progress(&world));
    assert_eq!(works(&world), names);
    put_manifests(&mut world, &[map("b", &json!({}), "3")]);
    let shrunk = |world: &World| is_completed(world) && config_maps(world) == ["b=\"3\""];
    assert!(world.run_until(seconds(60), shrunk).unwrap(), "{:?}", progress(&world));
    assert_eq!(works(&world).len(), 1);
    world.delete::<ClusterManagementAddOn>(&Key::cluster(ADDON)).unwrap();
    world.run_for(seconds(60)).unwrap();
    assert_eq!((works(&world), config_maps(&world)), (Vec::new(), Vec::new()));
}

#[test]
fn an_object_that_moves_to_another_work_is_not_deleted() {
    let mut world = world(1);
    let maps = |bytes: usize| ["a", "b"].map(|name| map(name, &json!({}), &"1".repeat(bytes)));
    let uids = |world: &World| {
        let all = ResourcePath::resource("", "v1", "configmaps");
        let list = world.spokes["cluster1"].store.list(&all, &ListOptions::default()).unwrap();
        list.items.iter().map(|map| map.at(&["metadata", "uid"]).unwrap().to_string()).collect::<Vec<_>>()
    };
    put_manifests(&mut world, &maps(180_000));
    addon(&mut world, "msa", json!({"type": "All"}));
    select_all(&mut world);
    assert!(world.run_until(seconds(60), is_completed).unwrap(), "{:?}", progress(&world));
    let before = uids(&world);
    assert_eq!((world.list::<ManifestWork>().len(), before.len()), (1, 2));
    put_manifests(&mut world, &maps(260_000));
    let has_moved = |world: &World| world.list::<ManifestWork>().len() == 2 && is_completed(world);
    assert!(world.run_until(seconds(60), has_moved).unwrap(), "{:?}", progress(&world));
    assert_eq!(uids(&world), before);
}

/// Returns the template that the first cluster is assigned and the one that it last ran successfully, with their
/// hashes.
fn assigned(world: &World) -> [(String, String); 2] {
    let addon: ManagedClusterAddOn = world.get(&Key::namespaced("cluster1", ADDON)).unwrap();
    let reference = addon.status.unwrap().config_references.remove(0);
    [reference.desired_config, reference.last_applied_config].map(|config| {
        let config = config.unwrap();
        (config.name, config.spec_hash)
    })
}

#[test]
fn a_change_of_content_or_name_is_an_upgrade_and_one_of_labels_is_not() {
    let mut world = world(2);
    template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", json!({"type": "All"}));
    select_all(&mut world);
    assert!(world.run_until(seconds(60), is_completed).unwrap(), "{:?}", progress(&world));
    let [first, _] = assigned(&world);
    world.keep_history();
    let kind = json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "AddOnTemplate"});
    let labeled: AddOnTemplate = world.get(&Key::cluster("msa")).unwrap();
    let metadata = json!({"name": "msa", "labels": {"note": "new"}, "annotations": {"note": "new"}});
    put(&mut world, merged(kind, json!({"metadata": metadata, "spec": labeled.spec})));
    world.run_for(seconds(60)).unwrap();
    let writes = world.take_history();
    let kinds = ["ManagedCluster", "Lease"];
    let others: Vec<_> = writes.iter().filter(|write| !kinds.contains(&write.id.kind.as_str())).collect();
    assert_eq!(others.len(), 1, "the write of the user alone: {others:?}");

    template(&mut world, "msa", "msa:0.4.1");
    assert!(world.run_until(seconds(60), |world| assigned(world)[1] != first).unwrap());
    let [second, applied] = assigned(&world);
    assert_eq!((&second.0, &applied), (&first.0, &second), "the same name and another hash");
    template(&mut world, "msa-next", "msa:0.4.1");
    addon(&mut world, "msa-next", json!({"type": "All"}));
    assert!(world.run_until(seconds(60), |world| assigned(world)[1] != second).unwrap());
    let renamed = ("msa-next".to_owned(), second.1);
    assert_eq!(assigned(&world), [renamed.clone(), renamed], "another name and the same hash");
}

/// Returns the hashes of the add-on's snapshots.
fn snapshots(world: &World) -> Vec<String> {
    let all = world.list::<ControllerRevision>();
    all.into_iter().filter_map(|one| one.metadata.name).collect()
}

#[test]
fn snapshots_beyond_the_limit_are_deleted_and_those_in_use_stay() {
    let mut world = world(2);
    template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", progressive());
    select_all(&mut world);
    assert!(world.run_until(seconds(120), is_completed).unwrap(), "{:?}", progress(&world));
    let good = snapshots(&world);
    assert_eq!(good.len(), 1);
    // The canary never succeeds with a broken version, so the other cluster runs the first version throughout.
    for version in 0..20 {
        template(&mut world, "msa", &format!("msa:0.5.{version}"));
        world.run_for(seconds(30)).unwrap();
    }
    assert_eq!(images(&world)[1], "0.4.0");
    let remaining = snapshots(&world);
    assert!(remaining.contains(&good[0]) && remaining.len() <= 13, "{} are kept", remaining.len());
    template(&mut world, "msa", "msa:0.4.0");
    assert!(world.run_until(seconds(120), is_completed).unwrap(), "{:?}", progress(&world));
    crate::deletions::policy(&mut world, json!({"removalBudget": "100%"}));
    world.delete::<ClusterManagementAddOn>(&Key::cluster(ADDON)).unwrap();
    world.run_for(seconds(60)).unwrap();
    assert_eq!(snapshots(&world), Vec::<String>::new());
}

/// Creates an AddOnDeploymentConfig with variables; returns a placement's reference to it.
fn variables(world: &mut World, name: &str, values: &[(&str, &str)]) -> Value {
    let values: Vec<_> = values.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
    put(
        world,
        json!({
            "apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "AddOnDeploymentConfig",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"customizedVariables": values, "agentInstallNamespace": ""},
        }),
    );
    json!({
        "group": "addon.open-cluster-management.io", "resource": "addondeploymentconfigs",
        "namespace": "default", "name": name,
    })
}

/// Sets configurations on the add-on's only placement.
fn place_with(world: &mut World, configs: &[Value]) {
    let placement = json!({"namespace": "default", "name": "fleet", "configs": configs});
    let strategy = json!({"type": "Placements", "placements": [placement]});
    let path = ResourcePath::of::<ClusterManagementAddOn>(&Key::cluster(ADDON));
    let (patch, now) = (Patch::Merge(json!({"spec": {"installStrategy": strategy}})), world.now);
    world.hub.patch(&path, &patch, &WriteOptions::manager("user"), now).unwrap();
}

#[test]
fn the_first_configuration_of_a_kind_counts_alone() {
    let mut world = world(1);
    put_manifests(&mut world, &[map("values", &json!({}), "{{A}} {{B}}")]);
    addon(&mut world, "msa", json!({"type": "All"}));
    let one = variables(&mut world, "one", &[("A", "one")]);
    let two = variables(&mut world, "two", &[("A", "two"), ("B", "two")]);
    place_with(&mut world, &[one.clone(), two.clone()]);
    select_all(&mut world);
    assert!(world.run_until(seconds(60), is_completed).unwrap(), "{:?}", progress(&world));
    assert_eq!(config_maps(&world), ["values=\"one \""], "nothing of the second one is added");
    place_with(&mut world, &[two]);
    world.run_for(seconds(60)).unwrap();
    assert_eq!(config_maps(&world), ["values=\"two two\""]);
}

#[test]
fn a_configuration_of_a_placement_replaces_the_whole_default() {
    let mut world = world(1);
    put_manifests(&mut world, &[map("values", &json!({}), "{{A}} {{B}}")]);
    addon(&mut world, "msa", json!({"type": "All"}));
    let default = variables(&mut world, "default", &[("A", "default"), ("B", "default")]);
    let own = variables(&mut world, "own", &[("A", "own")]);
    let named = |config: &Value| json!({"namespace": config["namespace"], "name": config["name"]});
    let supported = json!([
        {"group": "addon.open-cluster-management.io", "resource": "addontemplates", "defaultConfig": {"name": "msa"}},
        {"group": default["group"], "resource": default["resource"], "defaultConfig": named(&default)},
    ]);
    let path = ResourcePath::of::<ClusterManagementAddOn>(&Key::cluster(ADDON));
    let (patch, now) = (Patch::Merge(json!({"spec": {"supportedConfigs": supported}})), world.now);
    world.hub.patch(&path, &patch, &WriteOptions::manager("user"), now).unwrap();
    select_all(&mut world);
    assert!(world.run_until(seconds(60), is_completed).unwrap(), "{:?}", progress(&world));
    assert_eq!(config_maps(&world), ["values=\"default default\""]);
    place_with(&mut world, &[own]);
    world.run_for(seconds(60)).unwrap();
    assert_eq!(config_maps(&world), ["values=\"own \""]);
}

/// Scales the Deployment of the add-on on a cluster, as an autoscaler does.
fn scale(world: &mut World, replicas: i32) {
    let deployments = ResourcePath::resource("apps", "v1", "deployments");
    let target = deployments.at(&Key::namespaced("default", "msa"));
    let (now, spoke) = (world.now, world.spokes.get_mut("cluster1").unwrap());
    let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    spoke.store.patch(&target, &patch, &WriteOptions::manager("autoscaler"), now).unwrap();
}

#[test]
fn a_deployment_that_an_autoscaler_scales_completes_its_rollout_and_is_not_degraded() {
    let mut world = world(1);
    let put_version = |world: &mut World, image: &str| {
        let labels = json!({"app": "msa"});
        let containers = json!([{"name": "agent", "image": image}]);
        let pod = json!({"metadata": {"labels": labels}, "spec": {"containers": containers}});
        let manifest = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "msa", "namespace": "default"},
            "spec": {"selector": {"matchLabels": labels}, "template": pod},
        });
        put_manifests(world, &[manifest]);
    };
    put_version(&mut world, "msa:0.4.0");
    addon(&mut world, "msa", json!({"type": "All"}));
    select_all(&mut world);
    assert!(world.run_until(seconds(60), is_completed).unwrap(), "{:?}", progress(&world));
    scale(&mut world, 5);
    put_version(&mut world, "msa:0.4.1");
    world.run_for(seconds(60)).unwrap();
    assert_eq!((images(&world)[0].as_str(), is_completed(&world)), ("0.4.1", true), "{:?}", progress(&world));
    scale(&mut world, 7);
    world.run_for(seconds(60)).unwrap();
    let conditions = world.list::<ManagedClusterAddOn>().remove(0).status.unwrap().conditions;
    assert!(find_condition(&conditions, "Degraded").unwrap().is_false(), "{conditions:?}");
}

#[test]
fn a_stateful_set_that_does_not_start_holds_its_rollout() {
    let mut world = world(1);
    let put_version = |world: &mut World, image: &str| {
        let labels = json!({"app": "msa"});
        let containers = json!([{"name": "agent", "image": image}]);
        let pod = json!({"metadata": {"labels": labels}, "spec": {"containers": containers}});
        let metadata = json!({"name": "msa", "namespace": "default"});
        let spec = json!({"serviceName": "msa", "selector": {"matchLabels": labels}, "template": pod});
        let kind = json!({"apiVersion": "apps/v1", "kind": "StatefulSet"});
        put_manifests(world, &[merged(kind, json!({"metadata": metadata, "spec": spec}))]);
    };
    put_version(&mut world, "msa:none");
    addon(&mut world, "msa", json!({"type": "All"}));
    select_all(&mut world);
    world.run_for(seconds(60)).unwrap();
    assert!(!is_completed(&world), "{:?}", progress(&world));
    put_version(&mut world, "msa:0.4.0");
    assert!(world.run_until(seconds(60), is_completed).unwrap(), "{:?}", progress(&world));
}
