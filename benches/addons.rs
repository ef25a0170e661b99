//! Measures the installation of an add-on of four objects and edits of its template, with the operator as a
//! process on a real API server. The baseline, in the same run, is a loop of the same writes to objects of the
//! same size.
//!
//! `cargo bench --bench addons [-- CLUSTERS [EDITS]]`
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a bench fails by panicking, and measures by the real clock"
)]
#![allow(dead_code, reason = "of the harness, only part is needed here")]

mod hub;
#[path = "../tests/kube/mod.rs"]
mod kube;

use std::time::{Duration, Instant};

use ::kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::work::v1::ManifestWork;
use futures::{StreamExt as _, stream};
use hub::{AT_ONCE, Operator, Requests, install, join, memory, requests, usage, wait_for};
use k8s_openapi::api::core::v1::Namespace;
use kube::Cluster;
use object::Object;
use serde_json::{Value, json};

const GROUP: &str = "addon.open-cluster-management.io";
const CLUSTER: &str = "cluster.open-cluster-management.io";
/// The operator counts as at rest after this time without a write.
const QUIET: Duration = Duration::from_secs(3);

/// The cost of one change to the whole fleet until it comes to rest.
struct Cost {
    took: Duration,
    writes: Requests,
    cpu: f64,
    resident: f64,
}

struct Bench {
    client: ::kube::Client,
    operator: Operator,
    clusters: usize,
}

#[tokio::main]
async fn main() {
    let mut numbers = std::env::args().filter_map(|word| word.parse::<usize>().ok());
    let (clusters, edits) = (numbers.next().unwrap_or(200), numbers.next().unwrap_or(10).max(1));
    let server = Cluster::start("bench").await;
    install(&server);
    let client = server.client().await;
    let dir = tempfile::tempdir().unwrap();
    let operator = Operator::start_alone(&server.kubeconfig, dir.path(), &[]);
    join(&client, clusters).await;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let label = ListParams::default().labels("open-cluster-management.io/cluster-name");
    while namespaces.list_metadata(&label).await.unwrap().items.len() < clusters {
        tokio::time::sleep(QUIET).await;
    }
    let bench = Bench { client, operator, clusters };
    bench.rest().await;

    println!("clusters: {clusters}");
    let installed = bench.change("0", &objects("0")).await;
    bench.print("first install", &installed);
    let mut costs = Vec::new();
    for number in 1..=edits {
        let word = number.to_string();
        let edit = bench.change(&word, &[template(&word)]).await;
        bench.print(&format!("edit {number}"), &edit);
        costs.push(edit);
    }
    let Bench { client, operator, .. } = bench;
    drop(operator);
    let bare = bare_loops(&client).await;
    for (name, cost, (took, cpu)) in
        [("an install", &installed, bare[0]), ("the first edit", &costs[0], bare[1])]
    {
        println!(
            "bare loop of {name}, {AT_ONCE} at once: {:.2} s, {:.2} CPU-ms per cluster",
            took.as_secs_f64(),
            cpu * 1000.0 / clusters as f64,
        );
        println!(
            "{name}, against its bare loop: {:.2} of the time, {:.2} of the CPU time",
            cost.took.as_secs_f64() / took.as_secs_f64(),
            cost.cpu / cpu,
        );
    }
    let grown = costs[edits - 1].resident - costs[0].resident;
    println!("memory after {edits} edits, more than after the first: {grown:.1} MB");
}

impl Bench {
    /// Applies objects and waits until every work contains the word and writes have stopped.
    async fn change(&self, word: &str, objects: &[Value]) -> Cost {
        let works: Api<ManifestWork> = Api::all(self.client.clone());
        let pid = self.operator.0.id();
        let (before, used) = (requests(&self.client).await, usage(pid).0);
        let begin = Instant::now();
        for object in objects {
            apply(&self.client, object).await;
        }
        wait_for(&works, self.clusters, word).await;
        let took = begin.elapsed();
        let after = self.rest().await;
        Cost {
            took,
            writes: after.since(&before).writes(),
            cpu: usage(pid).0 - used,
            resident: memory(pid, "VmRSS:"),
        }
    }

    /// Waits until writes have stopped; returns the number of requests so far.
    async fn rest(&self) -> Requests {
        let mut last = requests(&self.client).await;
        loop {
            tokio::time::sleep(QUIET).await;
            let now = requests(&self.client).await;
            if now.since(&last).writes().total() == 0.0 {
                return now;
            }
            last = now;
        }
    }

    fn print(&self, name: &str, cost: &Cost) {
        let Cost { took, writes, cpu, resident } = cost;
        let clusters = self.clusters as f64;
        println!(
            "{name}: {:.2} s to the last work; {:.2} writes per cluster, {:.2} refused; {:.2} CPU-ms per cluster; {resident:.0} MB",
            took.as_secs_f64(),
            writes.total() / clusters,
            writes.refused().total() / clusters,
            cpu * 1000.0 / clusters,
        );
        println!("    {writes:?}");
    }
}

fn template(word: &str) -> Value {
    let named = |kind: &str, version: &str| json!({"apiVersion": version, "kind": kind, "metadata": {"name": "bench", "namespace": "default"}});
    let (mut map, mut role) = (named("ConfigMap", "v1"), named("Role", "rbac.authorization.k8s.io/v1"));
    map["data"] = json!({"word": word});
    role["rules"] = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]);
    let mut binding = named("RoleBinding", "rbac.authorization.k8s.io/v1");
    binding["roleRef"] = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "bench"});
    binding["subjects"] = json!([{"kind": "ServiceAccount", "name": "bench", "namespace": "default"}]);
    let manifests = [map, named("ServiceAccount", "v1"), role, binding];
    json!({"apiVersion": format!("{GROUP}/v1alpha1"), "kind": "AddOnTemplate", "metadata": {"name": "bench"},
        "spec": {"addonName": "bench", "agentSpec": {"workload": {"manifests": manifests}}}})
}

/// Returns an add-on that is rolled out to every cluster at once.
fn objects(word: &str) -> [Value; 5] {
    let placement = json!({"namespace": "fleet", "name": "all", "rolloutStrategy": {"type": "All"}});
    let config = json!({"group": GROUP, "resource": "addontemplates", "defaultConfig": {"name": "bench"}});
    [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fleet"}}),
        json!({"apiVersion": format!("{CLUSTER}/v1beta2"), "kind": "ManagedClusterSetBinding",
            "metadata": {"name": "global", "namespace": "fleet"}, "spec": {"clusterSet": "global"}}),
        json!({"apiVersion": format!("{CLUSTER}/v1beta1"), "kind": "Placement",
            "metadata": {"name": "all", "namespace": "fleet"}, "spec": {"tolerations": [{"operator": "Exists"}]}}),
        template(word),
        json!({"apiVersion": format!("{GROUP}/v1alpha1"), "kind": "ClusterManagementAddOn", "metadata": {"name": "bench"},
            "spec": {"supportedConfigs": [config], "installStrategy": {"type": "Placements", "placements": [placement]}}}),
    ]
}

async fn apply(client: &::kube::Client, object: &Value) {
    let object = Object::from_value(object.clone()).unwrap();
    let gvk = object.gvk();
    let kind = ::kube::core::GroupVersionKind::gvk(&gvk.group, &gvk.version, &gvk.kind);
    let (resource, _) = ::kube::discovery::pinned_kind(client, &kind).await.unwrap();
    let api: Api<::kube::api::DynamicObject> = if object.namespace().is_empty() {
        Api::all_with(client.clone(), &resource)
    } else {
        Api::namespaced_with(client.clone(), object.namespace(), &resource)
    };
    let params = PatchParams::apply("bench").force();
    api.patch(object.name(), &params, &Patch::Apply(object.clone().into_value())).await.unwrap();
}

/// Repeats the operator's writes while the operator is stopped. An installation writes an add-on, its status and a
/// work for each cluster; an edit writes the status and the work. Returns the duration of each and its CPU time in
/// seconds, excluding the API server's.
async fn bare_loops(client: &::kube::Client) -> [(Duration, f64); 2] {
    let works = Api::<ManifestWork>::all(client.clone()).list(&ListParams::default()).await.unwrap().items;
    let addons: Api<ManagedClusterAddOn> = Api::all(client.clone());
    let addons = addons.list(&ListParams::default()).await.unwrap().items;
    let pairs: Vec<_> = addons.into_iter().zip(works).collect();
    let mut costs = [(Duration::ZERO, 0.0); 2];
    for (round, cost) in costs.iter_mut().enumerate() {
        let (begin, used) = (Instant::now(), usage(std::process::id()).0);
        let write = |(addon, work): (ManagedClusterAddOn, ManifestWork)| async move {
            let namespace = work.metadata.namespace.clone().unwrap();
            let addons: Api<ManagedClusterAddOn> = Api::namespaced(client.clone(), &namespace);
            let works: Api<ManifestWork> = Api::namespaced(client.clone(), &namespace);
            let params = PatchParams::default();
            let mut spec = serde_json::to_value(&work.spec).unwrap();
            spec["workload"]["manifests"][0]["data"]["word"] = json!(format!("bare {round}"));
            let (metadata, status) = (json!({"name": "bare", "namespace": namespace}), &addon.status);
            if round == 0 {
                let addon = json!({"metadata": metadata, "spec": addon.spec});
                addons.create(&PostParams::default(), &serde_json::from_value(addon).unwrap()).await.unwrap();
            }
            addons.patch_status("bare", &params, &Patch::Merge(json!({"status": status}))).await.unwrap();
            if round == 0 {
                let work = json!({"metadata": metadata, "spec": spec});
                works.create(&PostParams::default(), &serde_json::from_value(work).unwrap()).await.unwrap();
            } else {
                works.patch("bare", &params, &Patch::Merge(json!({"spec": spec}))).await.unwrap();
            }
        };
        stream::iter(pairs.clone()).map(write).buffer_unordered(AT_ONCE).collect::<Vec<_>>().await;
        *cost = (begin.elapsed(), usage(std::process::id()).0 - used);
    }
    costs
}
