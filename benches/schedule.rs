//! Measures the placement controller as a process: 10,000 clusters and 100 placements on a real API server that
//! serves OCM's cluster kinds but none of ours. The same run measures the bare cost of listing and parsing the
//! clusters.
//!
//! `cargo bench --bench schedule [-- CLUSTERS]`
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a bench fails by panicking, and measures by the real clock"
)]
#![allow(dead_code, reason = "of the harness, only part is needed here")]

#[path = "../tests/kube/mod.rs"]
mod kube;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ::kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use api::cluster::v1::ManagedCluster;
use api::cluster::v1beta1::Placement;
use api::crds;
use futures::{StreamExt as _, stream};
use kube::Cluster;
use serde_json::{Value, json};

const PLACEMENTS: usize = 100;
const WITHIN: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(500);
/// Number of requests in flight while filling the hub.
const AT_ONCE: usize = 32;
const MANAGER: PatchParams =
    PatchParams { dry_run: false, force: false, field_manager: None, field_validation: None };
/// Number of objects per page, the same as the operator requests.
const PAGE: u32 = 500;
/// Number of label changes over which the cost is averaged.
const CHANGES: usize = 50;
/// A process is at rest if its CPU time grows by no more than this in a second.
const AT_REST: f64 = 0.001;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|word| word == "--list") {
        return list(Path::new(&arguments[at + 1])).await;
    }
    let clusters = arguments.iter().filter_map(|word| word.parse().ok()).next().unwrap_or(10_000);
    let hub = Cluster::start("schedule").await;
    let client = hub.client().await;
    hub.kubectl().install(
        crds::hub().into_iter().filter(|crd| crd.spec.group == "cluster.open-cluster-management.io"),
    );
    fill(&client, clusters).await;

    let bare = Command::new(&arguments[0]).arg("--list").arg(&hub.kubeconfig).output().unwrap();
    let bare: f64 = String::from_utf8(bare.stdout).unwrap().trim().parse().unwrap();
    println!("clusters: {clusters}, placements: {PLACEMENTS}");
    println!("bare list and parse: {bare:.3} CPU-s");

    let operator = Operator::start(&hub.kubeconfig, "first");
    scheduled(&client, &operator).await;
    let first = operator.at_rest().await;
    println!(
        "first schedule: {first:.3} CPU-s, {:.1} times the bare list, peak memory {:.1} MB",
        first / bare,
        operator.memory("VmHWM:")
    );
    println!(
        "resident memory: {:.1} MB, of it the program's file {:.1} MB",
        operator.memory("VmRSS:"),
        operator.memory("RssFile:")
    );

    let begin = operator.at_rest().await;
    for i in 0..CHANGES {
        relabel(&client, i).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let one = (operator.at_rest().await - begin) / CHANGES as f64;
    println!("one changed label: {:.2} CPU-ms, 1/{:.0} of the first schedule", one * 1000.0, first / one);

    let begin = operator.at_rest().await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    println!("ten seconds of nothing: {:.2} CPU-ms", (operator.cpu() - begin) * 1000.0);
    drop(operator);

    let operator = Operator::start(&hub.kubeconfig, "again");
    tokio::time::sleep(Duration::from_secs(3)).await;
    let again = operator.at_rest().await;
    println!("restart, nothing to write: {again:.3} CPU-s, peak memory {:.1} MB", operator.memory("VmHWM:"));
}

/// The operator process; killed when the bench ends.
struct Operator(Child);

impl Operator {
    fn start(kubeconfig: &Path, name: &str) -> Self {
        let log = std::fs::File::create(kubeconfig.with_file_name(format!("operator-{name}.log"))).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
        // Without leader election, so that the second process does not wait for the first one's lease.
        command.args(["operator", "--leader-elect=false", "--controllers=placement,clusterset"]);
        command.arg("--kubeconfig").arg(kubeconfig);
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap())
    }

    /// Returns the CPU seconds used so far.
    fn cpu(&self) -> f64 {
        cpu(&self.0.id().to_string())
    }

    /// Returns the CPU seconds used once the process is at rest.
    async fn at_rest(&self) -> f64 {
        loop {
            let before = self.cpu();
            tokio::time::sleep(Duration::from_secs(1)).await;
            let now = self.cpu();
            if now - before < AT_REST {
                return now;
            }
        }
    }

    /// Returns a memory figure in megabytes.
    fn memory(&self, field: &str) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let kib = status
            .lines()
            .find_map(|line| line.strip_prefix(field))
            .unwrap()
            .trim()
            .trim_end_matches(" kB")
            .parse::<f64>()
            .unwrap();
        kib * 1024.0 / 1e6
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the CPU seconds of all threads of a process, with nanosecond precision.
fn cpu(pid: &str) -> f64 {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let spent = threads.filter_map(|thread| {
        let schedstat = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        schedstat.split_whitespace().next()?.parse::<f64>().ok()
    });
    spent.sum::<f64>() / 1e9
}

/// Lists all clusters page by page, parses them and prints the cost, which is the minimum for any controller.
async fn list(kubeconfig: &Path) {
    let client = kube::client_of(kubeconfig).await;
    let clusters: Api<ManagedCluster> = Api::all(client);
    let before = cpu("self");
    let (mut params, mut all) = (ListParams::default().limit(PAGE), Vec::new());
    loop {
        let page = clusters.list(&params).await.unwrap();
        all.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => break,
        }
    }
    println!("{}", cpu("self") - before);
}

/// Waits until every placement reports its selection.
async fn scheduled(client: &::kube::Client, operator: &Operator) {
    let placements: Api<Placement> = Api::all(client.clone());
    let deadline = Instant::now() + WITHIN;
    loop {
        let done = |placement: &Placement| {
            placement.status.as_ref().is_some_and(|status| status.number_of_selected_clusters == 50)
        };
        let there = placements
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .iter()
            .filter(|placement| done(placement))
            .count();
        if there == PLACEMENTS {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "only {there} placements are scheduled after {:.1} CPU-s",
            operator.cpu()
        );
        tokio::time::sleep(POLL).await;
    }
}

async fn relabel(client: &::kube::Client, i: usize) {
    let clusters: Api<ManagedCluster> = Api::all(client.clone());
    let patch = json!({"metadata": {"labels": {"team": format!("team-{i}")}}});
    clusters.patch(&format!("cluster-{:05}", 7 * i), &MANAGER, &Patch::Merge(patch)).await.unwrap();
}

async fn fill(client: &::kube::Client, clusters: usize) {
    let api: Api<ManagedCluster> = Api::all(client.clone());
    let join = |i: usize| {
        let api = api.clone();
        async move {
            let mut wanted = cluster(i);
            api.create(&PostParams::default(), &serde_json::from_value(wanted.clone()).unwrap())
                .await
                .unwrap();
            let status = json!({"status": wanted["status"].take()});
            api.patch_status(&format!("cluster-{i:05}"), &MANAGER, &Patch::Merge(status)).await.unwrap();
        }
    };
    stream::iter(0..clusters).map(join).buffer_unordered(AT_ONCE).collect::<Vec<_>>().await;
    let group = "cluster.open-cluster-management.io";
    let mut others = vec![
        json!({"apiVersion": format!("{group}/v1beta2"), "kind": "ManagedClusterSet", "metadata": {"name": "global"},
            "spec": {"clusterSelector": {"selectorType": "LabelSelector", "labelSelector": {}}}}),
        json!({"apiVersion": format!("{group}/v1beta2"), "kind": "ManagedClusterSetBinding",
            "metadata": {"name": "global", "namespace": "default"}, "spec": {"clusterSet": "global"}}),
    ];
    others.extend((0..PLACEMENTS).map(placement));
    for object in others {
        let plural = format!("{}s", object["kind"].as_str().unwrap().to_lowercase());
        let namespace = object["metadata"]["namespace"]
            .as_str()
            .map(|name| format!("namespaces/{name}/"))
            .unwrap_or_default();
        let path = format!("/apis/{}/{namespace}{plural}", object["apiVersion"].as_str().unwrap());
        let request = axum::http::Request::post(path)
            .header("content-type", "application/json")
            .body(object.to_string().into_bytes());
        client.request_text(request.unwrap()).await.unwrap();
    }
}

fn cluster(i: usize) -> Value {
    let conditions = ["HubAcceptedManagedCluster", "ManagedClusterJoined", "ManagedClusterConditionAvailable"].map(|condition| {
        json!({
            "type": condition, "status": "True", "reason": "AsItShouldBe", "message": "Managed cluster is as it should be",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    });
    json!({
        "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
        "metadata": {
            "name": format!("cluster-{i:05}"),
            "labels": {
                "cluster.open-cluster-management.io/clusterset": "default", "env": (["dev", "test", "prod"][i % 3]),
                "region": format!("region-{}", i % 20), "team": format!("team-{}", i % 50),
            },
        },
        "spec": {"hubAcceptsClient": true, "leaseDurationSeconds": 60},
        "status": {
            "conditions": conditions,
            "allocatable": {"cpu": (i % 64).to_string(), "memory": format!("{}Gi", i % 256)},
            "capacity": {"cpu": "64", "memory": "256Gi"},
            "version": {"kubernetes": "v1.36.0"},
            "clusterClaims": [{"name": "id.k8s.io", "value": format!("cluster-{i:05}")}, {"name": "platform", "value": "AWS"}],
        },
    })
}

/// Returns a placement that matches two thirds of the clusters.
fn placement(i: usize) -> Value {
    let labels = json!({"matchExpressions": [
        {"key": "env", "operator": "In", "values": ["test", "prod"]}, {"key": "team", "operator": "Exists"}]});
    json!({
        "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement",
        "metadata": {"namespace": "default", "name": format!("placement-{i:03}")},
        "spec": {"numberOfClusters": 50, "predicates": [{"requiredClusterSelector": {"labelSelector": labels}}]},
    })
}
