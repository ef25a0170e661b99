//! Fleets of clusters with one add-on, complete from the add-on to the workloads on its clusters.

use std::ops::Range;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use api::addon::v1alpha1::ClusterManagementAddOn;
use api::cluster::v1::ManagedCluster;
use api::condition::find_condition;
use api::work::v1::ManifestWork;
use object::tree::FileTree;
use object::{Key, Object};
use sim::{Setup, World, workload};
use store::{ListOptions, ResourcePath};

pub(crate) const ADDON: &str = "managed-serviceaccount";

pub(crate) fn seconds(n: i64) -> SignedDuration {
    SignedDuration::from_secs(n)
}

pub(crate) fn world(clusters: usize) -> World {
    seeded(7, clusters)
}

pub(crate) fn seeded(seed: u64, clusters: usize) -> World {
    with(Setup::default(), seed, clusters)
}

pub(crate) fn with(setup: Setup, seed: u64, clusters: usize) -> World {
    let mut world = World::with(setup, seed, Timestamp::from_second(1_800_000_000).unwrap());
    for i in 0..clusters {
        join(&mut world, i, i == 0, seconds(3));
    }
    let joined = |world: &World| {
        world.list::<ManagedCluster>().iter().all(|c| c.spec.taints.is_empty() && c.status.is_some())
    };
    assert!(world.run_until(seconds(10), joined).unwrap(), "{:?}", world.list::<ManagedCluster>());
    world
}

/// Adds a cluster on which only 0.4.0 and 0.4.1 become ready, after the given time.
pub(crate) fn join(world: &mut World, i: usize, canary: bool, ready_after: SignedDuration) {
    let images = ["msa:0.4.0", "msa:0.4.1"].map(str::to_owned).into();
    let workloads = workload::Environment { images, ready_after, nodes: 1 };
    world.join(&cluster(i), &[("canary", if canary { "true" } else { "false" })], workloads).unwrap();
}

pub(crate) fn cluster(i: usize) -> String {
    format!("cluster{}", i + 1)
}

pub(crate) fn put(world: &mut World, object: Value) {
    world.apply(Object::from_value(object).unwrap()).unwrap();
}

pub(crate) fn repo() -> Key {
    Key::namespaced("config", "fleet")
}

/// Creates a ConfigRepo that may act as the operator.
pub(crate) fn config_repo(world: &mut World, repo: &Key, spec: Value) {
    let identity = json!({"gitops.wheelwright.dev/operator-identity": "allowed"});
    put(
        world,
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": repo.namespace, "labels": identity}}),
    );
    put(
        world,
        json!({
            "apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo",
            "metadata": {"name": repo.name, "namespace": repo.namespace}, "spec": spec,
        }),
    );
}

pub(crate) fn template(world: &mut World, name: &str, image: &str) {
    let container = json!({"name": "agent", "image": image});
    let pod = json!({"metadata": {"labels": {"app": "msa"}}, "spec": {"containers": [container]}});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "msa", "namespace": "open-cluster-management-agent-addon"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "msa"}}, "template": pod},
    });
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "open-cluster-management-agent-addon"}});
    put(
        world,
        json!({
            "apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "AddOnTemplate", "metadata": {"name": name},
            "spec": {"addonName": ADDON, "agentSpec": {"workload": {"manifests": [namespace, deployment]}}, "registration": [{"type": "KubeClient"}]},
        }),
    );
}

pub(crate) fn addon(world: &mut World, template: &str, strategy: Value) {
    put(
        world,
        json!({
            "apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ClusterManagementAddOn", "metadata": {"name": ADDON},
            "spec": {
                "supportedConfigs": [{"group": "addon.open-cluster-management.io", "resource": "addontemplates", "defaultConfig": {"name": template}}],
                "installStrategy": {"type": "Placements", "placements": [{"namespace": "default", "name": "fleet", "rolloutStrategy": strategy}]},
            },
        }),
    );
}

/// Selects every cluster; the first is the canary.
pub(crate) fn select_all(world: &mut World) {
    let binding =
        json!({"metadata": {"name": "global", "namespace": "default"}, "spec": {"clusterSet": "global"}});
    let kind = json!({"apiVersion": "cluster.open-cluster-management.io/v1beta2", "kind": "ManagedClusterSetBinding"});
    put(world, merged(kind, binding));
    select(world, json!({}));
}

pub(crate) fn select(world: &mut World, labels: Value) {
    let canary = json!({"groupName": "canary", "groupClusterSelector": {"labelSelector": {"matchLabels": {"canary": "true"}}}});
    let predicate = json!({"requiredClusterSelector": {"labelSelector": {"matchLabels": labels}}});
    put(
        world,
        json!({
            "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement", "metadata": {"name": "fleet", "namespace": "default"},
            "spec": {
                "predicates": [predicate],
                "decisionStrategy": {"groupStrategy": {"decisionGroups": [canary]}},
            },
        }),
    );
}

pub(crate) fn merged(mut one: Value, other: Value) -> Value {
    json_patch::merge(&mut one, &other);
    one
}

pub(crate) fn progressive() -> Value {
    json!({
        "type": "Progressive",
        "progressive": {"mandatoryDecisionGroups": [{"groupName": "canary"}], "maxConcurrency": 2, "progressDeadline": "20s", "maxFailures": 0},
    })
}

/// Returns the image in each cluster's work, in cluster order.
pub(crate) fn images(world: &World) -> Vec<String> {
    let works = world.list::<ManifestWork>();
    works
        .iter()
        .map(|work| {
            serde_json::to_string(&work.spec).unwrap().split("msa:").nth(1).unwrap_or("?")[..5].to_owned()
        })
        .collect()
}

pub(crate) fn progress(world: &World) -> (String, String) {
    let cma: ClusterManagementAddOn = world.get(&Key::cluster(ADDON)).unwrap();
    let status = cma.status.unwrap_or_default();
    let condition = status
        .install_progressions
        .first()
        .and_then(|p| find_condition(&p.conditions, "Progressing").cloned());
    condition.map(|c| (c.reason, c.message)).unwrap_or_default()
}

pub(crate) fn is_completed(world: &World) -> bool {
    progress(world).0 == "Completed"
}

pub(crate) fn config_maps(world: &World) -> Vec<String> {
    let all = ResourcePath::resource("", "v1", "configmaps");
    let list = world.spokes["cluster1"].store.list(&all, &ListOptions::default()).unwrap();
    list.items.iter().map(|item| format!("{}={}", item.name(), item.at(&["data", "v"]).unwrap())).collect()
}

pub(crate) fn work(world: &mut World, maps: &[(&str, &str)]) {
    work_of(world, "w", maps);
}

/// Creates or changes a ManifestWork.
pub(crate) fn put_work(world: &mut World, metadata: Value, spec: Value) {
    let work = json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork", "metadata": metadata, "spec": spec,
    });
    put(world, work);
}

pub(crate) fn work_of(world: &mut World, name: &str, maps: &[(&str, &str)]) {
    let manifest = |(name, value): &(&str, &str)| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": {"v": value}});
    let manifests: Vec<Value> = maps.iter().map(manifest).collect();
    put_work(
        world,
        json!({"name": name, "namespace": "cluster1"}),
        json!({"workload": {"manifests": manifests}}),
    );
    world.run_for(seconds(10)).unwrap();
}

/// Returns the files of a repository with a namespace for each tenant.
pub(crate) fn tenants(range: Range<usize>, data: &str) -> FileTree {
    let file = |i: usize| {
        let namespace = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: tenant-{i}}}\n");
        let map =
            format!("kind: ConfigMap\nmetadata: {{name: m, namespace: tenant-{i}}}\ndata: {{k: {data:?}}}\n");
        (format!("{i}.yaml"), format!("{namespace}---\napiVersion: v1\n{map}"))
    };
    let files: Vec<_> = range.map(file).collect();
    files.iter().map(|(path, text)| (path.clone(), text.as_bytes())).collect()
}
