//! The objects shown in the pages about Argo CD, used unchanged on a simulated hub.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use api::cluster::v1beta1::PlacementDecision;
use api::crds;
use api::gitops::v1alpha1::ClusterDecision;
use api::names::CONFIG_REPO_MANAGER;
use api::work::v1::ManifestWork;
use jiff::{SignedDuration, Timestamp};
use kube::Resource as _;
use object::{Key, Metadata as _, Object};
use reconcile::Dispatcher;
use serde_json::{Value, json};
use sim::workload::Environment;
use sim::{Setup, World, Write};
use store::{Patch, ResourcePath, WriteOptions};

use super::argo_cd::argo_cd;
use crate::docs::blocks;

/// The pages with objects. docs/argocd-health.md shows none.
const PAGES: [&str; 3] = ["docs/argocd.md", "docs/argocd-clusters.md", "docs/argocd-pull.md"];

/// Fields that exist in only one of the two ApplicationSets.
pub(super) const BY_CLUSTER_DECISION: &str = "/spec/generators/0/clusterDecisionResource/name";
pub(super) const BY_PLACEMENT_DECISIONS: &str = "/spec/generators/0/clusterDecisionResource/labelSelector";

/// Returns the objects on the pages.
fn objects() -> Vec<Value> {
    let found = PAGES.into_iter().flat_map(blocks).filter(|block| block.text.starts_with("apiVersion:"));
    found.map(|block| serde_saphyr::from_str(&block.text).unwrap()).collect()
}

/// Returns the only object of a kind that has a field.
pub(super) fn shown(kind: &str, field: &str) -> Value {
    let is_it = |object: &Value| object["kind"] == kind && object.pointer(field).is_some();
    let mut found: Vec<Value> = objects().into_iter().filter(is_it).collect();
    assert_eq!(found.len(), 1, "{kind} with {field}: {found:?}");
    found.remove(0)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value}"))
}

/// Returns a hub with a production cluster in the EU.
fn world(setup: Setup) -> World {
    let mut world = World::with(setup, 1, Timestamp::from_second(1_800_000_000).unwrap());
    world.join("cluster1", &[("environment", "prod"), ("region", "eu")], Environment::default()).unwrap();
    run(&mut world, 20);
    world
}

fn run(world: &mut World, seconds: i64) {
    world.run_for(SignedDuration::from_secs(seconds)).unwrap();
}

fn put(world: &mut World, object: Value) {
    world.apply(Object::from_value(object).unwrap()).unwrap();
}

#[test]
fn a_test_reads_every_object_of_argo_cd_that_the_page_shows() {
    let of_argo_cd: Vec<Value> = objects()
        .into_iter()
        .filter(|object| text(&object["apiVersion"]).starts_with("argoproj.io/"))
        .collect();
    let read = [
        shown("Application", "/spec/ignoreDifferences/0/managedFieldsManagers"),
        shown("Application", "/spec/ignoreDifferences/0/jsonPointers"),
        shown("ApplicationSet", BY_CLUSTER_DECISION),
        shown("ApplicationSet", BY_PLACEMENT_DECISIONS),
        shown("Application", "/metadata/labels"),
    ];
    assert_eq!(of_argo_cd, read);
}

/// See `argo_cd_sees_no_difference_where_it_ignores_our_manager` for what Argo CD then compares.
#[test]
fn an_application_that_shares_objects_ignores_the_manager_of_config_repos() {
    let application = shown("Application", "/spec/ignoreDifferences/0/managedFieldsManagers");
    let all = json!([{"group": "*", "kind": "*", "managedFieldsManagers": [CONFIG_REPO_MANAGER]}]);
    assert_eq!(application["spec"]["ignoreDifferences"], all);
    // Without this option, Argo CD ignores the fields when comparing but overwrites them at the next sync.
    assert_eq!(application["spec"]["syncPolicy"]["syncOptions"], json!(["RespectIgnoreDifferences=true"]));
}

/// Returns the data of a generator ConfigMap from the chart.
fn generator(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/wheelwright/templates/argocd.yaml");
    let chart = std::fs::read_to_string(path).unwrap();
    let documents = chart.split("\n---\n").map(|document| {
        let lines: Vec<&str> = document.lines().filter(|line| !line.contains("{{")).collect();
        lines.join("\n")
    });
    let is_it = |text: &String| text.contains("kind: ConfigMap") && text.contains(&format!("name: {name}\n"));
    let found: Vec<String> = documents.filter(is_it).collect();
    assert_eq!(found.len(), 1, "the chart makes no ConfigMap {name}");
    let map: Value = serde_saphyr::from_str(&found[0]).unwrap();
    map["data"].clone()
}

/// Renders the texts of a template with `goTemplate: true`, for a list entry.
fn rendered(template: &Value, entry: &Value) -> Value {
    match template {
        Value::String(text) => go_template(text, entry).into(),
        Value::Array(items) => items.iter().map(|item| rendered(item, entry)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, field)| (name.clone(), rendered(field, entry))).collect()
        }
        other => other.clone(),
    }
}

/// A dot descends into a map, so names that contain a dot require `index`.
fn go_template(template: &str, entry: &Value) -> String {
    let (mut text, mut rest) = (String::new(), template);
    while let Some((before, after)) = rest.split_once("{{") {
        let (expression, after) = after.split_once("}}").unwrap();
        let field = expression.trim().strip_prefix('.').filter(|name| !name.contains(['.', ' ']));
        let indexed = || expression.trim().strip_prefix("index . \"")?.strip_suffix('"');
        let name = field.or_else(indexed).unwrap_or_else(|| panic!("{expression}"));
        let value = entry.get(name).unwrap_or_else(|| panic!("no {name} in {entry}"));
        text += before;
        text += value.as_str().unwrap();
        rest = after;
    }
    text + rest
}

/// Returns a hub with the page's Placement in Argo CD's namespace.
fn placed() -> World {
    let mut world = world(Setup::default());
    put(&mut world, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "argocd"}}));
    put(
        &mut world,
        json!({"apiVersion": "cluster.open-cluster-management.io/v1beta2", "kind": "ManagedClusterSetBinding",
            "metadata": {"name": "global", "namespace": "argocd"}, "spec": {"clusterSet": "global"}}),
    );
    put(&mut world, shown("Placement", "/spec"));
    run(&mut world, 30);
    world
}

#[test]
fn the_application_set_makes_the_applications_of_placement_decisions() {
    let world = placed();
    let set = shown("ApplicationSet", BY_PLACEMENT_DECISIONS);
    let source = &set["spec"]["generators"][0]["clusterDecisionResource"];
    let config = generator(text(&source["configMapRef"]));
    assert_eq!(text(&config["apiVersion"]), PlacementDecision::api_version(&()));
    assert_eq!(text(&config["kind"]), PlacementDecision::plural(&()));
    let wanted = source["labelSelector"]["matchLabels"].as_object().unwrap();
    let is_selected = |page: &PlacementDecision| {
        wanted.iter().all(|(label, value)| page.label(label) == Some(text(value)))
            && page.namespace() == text(&set["metadata"]["namespace"])
    };
    let pages: Vec<_> = world.list::<PlacementDecision>().into_iter().filter(is_selected).collect();
    let [page] = &pages[..] else { panic!("{pages:?}") };
    let status = serde_json::to_value(&page.status).unwrap();
    let [entry] = &status[text(&config["statusListKey"])].as_array().unwrap()[..] else { panic!("{status}") };
    assert_eq!(entry[text(&config["matchKey"])], "cluster1");
    let made = rendered(&set["spec"]["template"], entry);
    assert_eq!(made["metadata"]["name"], "by-decisions-cluster1");
    assert_eq!(made["spec"]["destination"]["name"], "cluster1");
}

#[test]
fn the_application_set_makes_the_applications_of_a_cluster_decision() {
    let world = placed();
    let set = shown("ApplicationSet", BY_CLUSTER_DECISION);
    assert_eq!(set["spec"]["goTemplate"], true);
    let source = &set["spec"]["generators"][0]["clusterDecisionResource"];
    let config = generator(text(&source["configMapRef"]));
    assert_eq!(text(&config["apiVersion"]), ClusterDecision::api_version(&()));
    assert_eq!(text(&config["kind"]), ClusterDecision::plural(&()));
    let key = Key::namespaced(text(&set["metadata"]["namespace"]), text(&source["name"]));
    let list = world.get::<ClusterDecision>(&key).and_then(|found| found.status);
    let list = serde_json::to_value(list.unwrap()).unwrap();
    let entries = list[text(&config["statusListKey"])].as_array().unwrap();
    let clusters: Vec<&str> = entries.iter().map(|entry| text(&entry[text(&config["matchKey"])])).collect();
    assert_eq!(clusters, ["cluster1"]);

    let made = rendered(&set["spec"]["template"], &entries[0]);
    let fields = ["/metadata/name", "/spec/source/path", "/spec/destination/name"];
    let fields = fields.map(|field| text(made.pointer(field).unwrap()));
    assert_eq!(fields, ["shop-cluster1", "overlays/eu", "cluster1"]);
}

/// Returns a hub and a cluster with Argo CD, and the pull model's controller.
fn with_argo_cd() -> World {
    let hub = |process: &mut Dispatcher| {
        controllers::hub(process);
        controllers::argo_cd_pull_model(process);
    };
    let mut world = world(Setup { hub, ..Setup::default() });
    for (kind, object) in argo_cd() {
        put(&mut world, object.clone());
        let (now, object) = (world.now, Object::from_value(object).unwrap());
        let store = &mut world.spokes.get_mut("cluster1").unwrap().store;
        store.create(&kind, object, &WriteOptions::manager("installer"), now).unwrap();
    }
    run(&mut world, 5);
    world
}

fn application() -> ResourcePath {
    ResourcePath::resource("argoproj.io", "v1alpha1", "applications").at(&Key::namespaced("argocd", "shop"))
}

/// Returns the spec of the application `shop` on the cluster.
fn on_the_cluster(world: &World) -> Value {
    let found = world.spokes["cluster1"].store.get(&application()).unwrap();
    found.at(&["spec"]).cloned().unwrap_or_default()
}

#[test]
fn the_application_of_the_pull_model_runs_on_its_cluster() {
    let mut world = with_argo_cd();
    let shop = shown("Application", "/metadata/labels");
    put(&mut world, shop.clone());
    run(&mut world, 30);
    assert_eq!(on_the_cluster(&world), shop["spec"]);
    let works = world.list::<ManifestWork>();
    let name = works[0].metadata.name.clone().unwrap();
    assert!(works.len() == 1 && name.starts_with("shop-") && name.len() == "shop-".len() + 5, "{name}");
}

#[test]
fn the_work_of_an_application_brings_its_state_back_and_leaves_its_operation_to_argo_cd() {
    let mut world = with_argo_cd();
    let work = shown("ManifestWork", "/spec/manifestConfigs");
    put(&mut world, work.clone());
    run(&mut world, 30);
    assert_eq!(on_the_cluster(&world), work["spec"]["workload"]["manifests"][0]["spec"]);

    let operation = json!({"sync": {"revision": "v1"}});
    let status = json!({"health": {"status": "Healthy"}, "sync": {"status": "Synced"}});
    let state = Patch::Merge(json!({"operation": operation, "status": status}));
    let now = world.now;
    let store = &mut world.spokes.get_mut("cluster1").unwrap().store;
    store.patch(&application(), &state, &WriteOptions::manager("argocd"), now).unwrap();
    run(&mut world, 70);
    assert_eq!(world.spokes["cluster1"].store.get(&application()).unwrap().0["operation"], operation);
    let work: ManifestWork = world.get(&Key::namespaced("cluster1", "shop")).unwrap();
    let manifests = serde_json::to_value(work.status.unwrap().resource_status.manifests).unwrap();
    let values = manifests[0]["statusFeedback"]["values"].as_array().unwrap();
    let values: BTreeMap<&str, &str> =
        values.iter().map(|it| (text(&it["name"]), text(&it["fieldValue"]["string"]))).collect();
    assert_eq!(values, BTreeMap::from([("healthStatus", "Healthy"), ("syncStatus", "Synced")]));
}

/// Returns the JSON pointers that the page's application ignores, by group and kind.
fn ignored() -> BTreeMap<(String, String), Vec<String>> {
    let fleet = shown("Application", "/spec/ignoreDifferences/0/jsonPointers");
    let rules = fleet["spec"]["ignoreDifferences"].as_array().unwrap();
    let of_rule = |rule: &Value| {
        let pointers =
            rule["jsonPointers"].as_array().unwrap().iter().map(|pointer| text(pointer).to_owned());
        ((text(&rule["group"]).to_owned(), text(&rule["kind"]).to_owned()), pointers.collect())
    };
    rules.iter().map(of_rule).collect()
}

/// Returns true if a version of a CRD defines a field.
fn defines(group: &str, kind: &str, pointer: &str) -> bool {
    let definitions = crds::hub().into_iter().map(|definition| serde_json::to_value(definition).unwrap());
    let is_it = |it: &Value| it["spec"]["group"] == group && it["spec"]["names"]["kind"] == kind;
    let found: Vec<Value> = definitions.filter(is_it).collect();
    let versions = found.iter().flat_map(|definition| definition["spec"]["versions"].as_array().unwrap());
    let mut schemas = versions.map(|version| &version["schema"]["openAPIV3Schema"]);
    schemas.any(|schema| {
        let mut names = pointer.split('/').skip(1);
        names.try_fold(schema, |schema, name| schema["properties"].get(name)).is_some()
    })
}

#[test]
fn every_field_that_argo_cd_should_not_compare_exists() {
    for ((group, kind), pointers) in ignored() {
        for pointer in pointers {
            // A CRD does not list the fields of metadata.
            let exists = pointer == "/metadata/ownerReferences" || defines(&group, &kind, &pointer);
            assert!(exists, "{kind} has no {pointer}");
        }
    }
}

/// Returns the fields in git that a controller changed in a foreign object: fields of the spec, and the owners.
fn changed(write: &Write) -> BTreeSet<String> {
    let (Some(before), Some(after)) = (&write.before, &write.after) else { return BTreeSet::new() };
    let spec =
        |object: &Arc<Object>| object.at(&["spec"]).and_then(Value::as_object).cloned().unwrap_or_default();
    let (old, new) = (spec(before), spec(after));
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let names = names.into_iter().filter(|name| old.get(*name) != new.get(*name));
    let mut paths: BTreeSet<String> = names.map(|name| format!("/spec/{name}")).collect();
    let owners = |object: &Arc<Object>| object.at(&["metadata", "ownerReferences"]).cloned();
    if owners(before) != owners(after) {
        paths.insert("/metadata/ownerReferences".to_owned());
    }
    paths
}

#[test]
fn no_controller_writes_a_field_that_argo_cd_compares() {
    let mut world = world(Setup::default());
    world.keep_history();
    put(
        &mut world,
        json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ClusterManagementAddOn",
            "metadata": {"name": "shop"}, "spec": {}}),
    );
    put(
        &mut world,
        json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ManagedClusterAddOn",
            "metadata": {"name": "shop", "namespace": "cluster1"}, "spec": {}}),
    );
    run(&mut world, 60);
    // The hub taints a silent cluster.
    world.spokes.get_mut("cluster1").unwrap().connected = false;
    run(&mut world, 600);

    let ignored = ignored();
    let mut written = BTreeSet::new();
    let history = world.take_history().into_iter();
    for write in history.filter(|write| write.spoke.is_none() && write.by != "others") {
        let of_kind = ignored.iter().find(|((_, kind), _)| *kind == write.id.kind);
        let Some((_, pointers)) = of_kind else { continue };
        for path in changed(&write) {
            let is_ignored = pointers.iter().any(|it| *it == path || it.starts_with(&format!("{path}/")));
            assert!(is_ignored, "{} writes {path} of {}", write.by, write.id);
            written.insert((write.id.kind.clone(), path));
        }
    }
    let some = [("ManagedCluster", "/spec/taints"), ("ManagedClusterAddOn", "/metadata/ownerReferences")];
    let some: BTreeSet<_> = some.into_iter().map(|(kind, path)| (kind.to_owned(), path.to_owned())).collect();
    assert!(some.is_subset(&written), "{written:?}");
}
