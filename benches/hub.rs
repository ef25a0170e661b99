//! A hub with a fleet, and the operator as a process.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ::kube::Client;
use ::kube::api::{Api, ListParams, PostParams};
use api::cluster::v1::ManagedCluster;
use api::work::v1::ManifestWork;
use futures::{StreamExt as _, stream};
use serde_json::json;

use crate::kube::Cluster;

const WITHIN: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(20);
/// Most requests in flight, as many as the operator allows.
pub(crate) const AT_ONCE: usize = 32;

/// A process that ends with the bench.
pub(crate) struct Operator(pub(crate) Child);

impl Operator {
    /// Starts the operator with a repository to follow.
    pub(crate) fn start(kubeconfig: &Path, repository: &Path, dir: &Path, flags: &[&str]) -> Self {
        let repository = ["--local-repositories", "--repo", repository.to_str().unwrap()];
        Self::start_alone(kubeconfig, dir, &[&repository, flags].concat())
    }

    /// Starts the operator. Its log and its caches are in `dir`.
    pub(crate) fn start_alone(kubeconfig: &Path, dir: &Path, flags: &[&str]) -> Self {
        let log = std::fs::File::create(dir.join("operator.log")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
        command.arg("operator").arg("--kubeconfig").arg(kubeconfig);
        command.arg("--cache-dir").arg(dir.join("cache")).args(flags);
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap())
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Defines the kinds of the hub.
pub(crate) fn install(hub: &Cluster) {
    let crds = Command::new(env!("CARGO_BIN_EXE_wheelwright")).arg("crds").output().unwrap();
    let crds = String::from_utf8(crds.stdout).unwrap();
    hub.kubectl().run_with(&["apply", "--server-side", "-f", "-"], &crds);
}

/// Creates clusters that the hub has accepted.
pub(crate) async fn join(client: &Client, clusters: usize) {
    let api: Api<ManagedCluster> = Api::all(client.clone());
    let create = |i: usize| {
        let api = api.clone();
        let cluster = json!({
            "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": {"name": format!("cluster-{i:04}")}, "spec": {"hubAcceptsClient": true},
        });
        let cluster = serde_json::from_value(cluster).unwrap();
        async move { api.create(&PostParams::default(), &cluster).await.unwrap() }
    };
    stream::iter(0..clusters).map(create).buffer_unordered(AT_ONCE).collect::<Vec<_>>().await;
}

/// Waits until every cluster's work carries a value.
pub(crate) async fn wait_for(works: &Api<ManifestWork>, clusters: usize, word: &str) {
    let deadline = Instant::now() + WITHIN;
    loop {
        // A kind whose definition is new may not be listable yet.
        let items = works.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
        let there = items
            .iter()
            .filter(|work| {
                serde_json::to_string(&work.spec).unwrap().contains(&format!("\"word\":\"{word}\""))
            })
            .count();
        if there == clusters {
            return;
        }
        assert!(Instant::now() < deadline, "only {there} of {clusters} works carry {word:?}");
        tokio::time::sleep(POLL).await;
    }
}

/// Reads the CPU seconds and the peak resident megabytes of a process.
pub(crate) fn usage(pid: u32) -> (f64, f64) {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
    (ticks / 100.0, memory(pid, "VmHWM:"))
}

/// Reads megabytes of memory of a process, such as `VmRSS:`, the resident ones.
pub(crate) fn memory(pid: u32, field: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1000.0
}

/// The writes of custom resources that the API server has counted since it began.
#[derive(Clone, Copy)]
pub(crate) struct Requests {
    pub(crate) writes: f64,
    /// Those among them that were refused.
    pub(crate) refused: f64,
}

/// Reads the API server's metric of requests.
pub(crate) async fn requests(client: &Client) -> Requests {
    let request = axum::http::Request::get("/metrics").body(Vec::new()).unwrap();
    let metrics = client.request_text(request).await.unwrap();
    let is_write = |line: &&str| {
        let verbs = ["POST", "PUT", "PATCH", "APPLY", "DELETE"];
        line.starts_with("apiserver_request_total{")
            && line.contains("open-cluster-management.io")
            && verbs.iter().any(|verb| line.contains(&format!("verb=\"{verb}\"")))
    };
    let number = |line: &str| line.rsplit(' ').next().and_then(|number| number.parse::<f64>().ok());
    let lines: Vec<&str> = metrics.lines().filter(is_write).collect();
    let refused = lines.iter().filter(|line| line.contains("code=\"4")).filter_map(|line| number(line));
    Requests { writes: lines.iter().filter_map(|line| number(line)).sum(), refused: refused.sum() }
}
