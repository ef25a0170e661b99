//! A hub with a fleet, and the operator as a process.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ::kube::Client;
use ::kube::api::{Api, ListParams, PostParams, WatchEvent, WatchParams};
use api::cluster::v1::ManagedCluster;
use api::work::v1::ManifestWork;
use futures::{StreamExt as _, stream};
use serde_json::json;

use crate::kube::Cluster;

const WITHIN: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(20);
/// Maximum number of requests in flight, the same as the operator's limit.
pub(crate) const AT_ONCE: usize = 32;

/// The operator process; killed when the bench ends.
pub(crate) struct Operator(pub(crate) Child);

impl Operator {
    /// Starts the operator with a repository to follow.
    pub(crate) fn start(kubeconfig: &Path, repository: &Path, dir: &Path, flags: &[&str]) -> Self {
        let repository = ["--local-repositories", "--repo", repository.to_str().unwrap()];
        Self::start_alone(kubeconfig, dir, &[&repository, flags].concat())
    }

    /// Starts the operator with its log and caches in `dir`.
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

/// Installs the hub's CRDs.
pub(crate) fn install(hub: &Cluster) {
    let crds = Command::new(env!("CARGO_BIN_EXE_wheelwright")).arg("crds").output().unwrap();
    let crds = String::from_utf8(crds.stdout).unwrap();
    hub.kubectl().run_with(&["apply", "--server-side", "-f", "-"], &crds);
}

/// Creates accepted clusters. They have no agents, but do not become unknown during a bench.
pub(crate) async fn join(client: &Client, clusters: usize) {
    let api: Api<ManagedCluster> = Api::all(client.clone());
    let create = |i: usize| {
        let api = api.clone();
        let cluster = json!({
            "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": {"name": format!("cluster-{i:04}")}, "spec": {"hubAcceptsClient": true, "leaseDurationSeconds": 3600},
        });
        let cluster = serde_json::from_value(cluster).unwrap();
        async move { api.create(&PostParams::default(), &cluster).await.unwrap() }
    };
    stream::iter(0..clusters).map(create).buffer_unordered(AT_ONCE).collect::<Vec<_>>().await;
}

/// Waits until every cluster's work contains a value. Uses a watch, because lists of the whole fleet would keep
/// the API server busy.
pub(crate) async fn wait_for(works: &Api<ManifestWork>, clusters: usize, word: &str) {
    let word = format!("\"word\":\"{word}\"");
    let carries = |work: &ManifestWork| serde_json::to_string(&work.spec).unwrap().contains(&word);
    let mut with = BTreeSet::new();
    let followed = async {
        loop {
            // Right after its CRD is created, a kind may not be listable yet.
            let Ok(list) = works.list(&ListParams::default()).await else {
                tokio::time::sleep(POLL).await;
                continue;
            };
            with = list
                .items
                .iter()
                .filter(|work| carries(work))
                .map(|work| work.metadata.uid.clone())
                .collect();
            let version = list.metadata.resource_version.unwrap_or_default();
            let mut events = works.watch(&WatchParams::default(), &version).await.unwrap().boxed();
            while with.len() < clusters {
                let Some(Ok(event)) = events.next().await else { break };
                match event {
                    WatchEvent::Added(work) | WatchEvent::Modified(work) if carries(&work) => {
                        with.insert(work.metadata.uid);
                    }
                    WatchEvent::Added(_) | WatchEvent::Modified(_) | WatchEvent::Bookmark(_) => {}
                    WatchEvent::Deleted(work) => {
                        with.remove(&work.metadata.uid);
                    }
                    WatchEvent::Error(_) => break,
                }
            }
            if with.len() == clusters {
                return;
            }
        }
    };
    let is_in_time = tokio::time::timeout(WITHIN, followed).await.is_ok();
    assert!(is_in_time, "only {} of {clusters} works carry {word}", with.len());
}

/// Reads the CPU seconds and the peak resident megabytes of a process.
pub(crate) fn usage(pid: u32) -> (f64, f64) {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
    (ticks / 100.0, memory(pid, "VmHWM:"))
}

/// Reads a memory figure of a process in megabytes, such as `VmRSS:` for resident memory.
pub(crate) fn memory(pid: u32, field: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1000.0
}

/// The number of requests that an API server answered, by verb and resource, with the status code of failed ones.
/// Excludes leases, and counts a watch when it ends.
#[derive(Debug)]
pub(crate) struct Requests(BTreeMap<String, f64>);

/// Reads the API server's request metric.
pub(crate) async fn requests(client: &Client) -> Requests {
    let request = axum::http::Request::get("/metrics").body(Vec::new()).unwrap();
    let metrics = client.request_text(request).await.unwrap();
    let mut counts = BTreeMap::new();
    for line in metrics.lines().filter(|line| line.starts_with("apiserver_request_total{")) {
        let (labels, count) = line.rsplit_once(' ').unwrap();
        let value = |label: &str| {
            labels.split_once(&format!("{label}=\"")).unwrap().1.split('"').next().unwrap().to_owned()
        };
        let resource = value("resource");
        if ["", "leases"].contains(&resource.as_str()) {
            continue;
        }
        let part = |mark: &str, label: &str| {
            Some(value(label))
                .filter(|text| !text.is_empty())
                .map_or_else(String::new, |text| mark.to_owned() + &text)
        };
        let dry_run = if value("dry_run").is_empty() { "" } else { " (dry run)" };
        let code = value("code");
        let refused = if code.starts_with(['4', '5']) { format!(" {code}") } else { String::new() };
        let name = format!(
            "{} {resource}{}{}{dry_run}{refused}",
            value("verb"),
            part(".", "group"),
            part("/", "subresource"),
        );
        *counts.entry(name).or_default() += count.parse::<f64>().unwrap();
    }
    Requests(counts)
}

impl Requests {
    /// Returns the requests since an earlier count.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let new =
            self.0.iter().map(|(name, count)| (name.clone(), count - before.0.get(name).unwrap_or(&0.0)));
        Self(new.filter(|(_, count)| *count > 0.0).collect())
    }

    pub(crate) fn total(&self) -> f64 {
        self.0.values().fold(0.0, |sum, count| sum + count)
    }

    /// Returns the writes to OCM's kinds.
    pub(crate) fn writes(&self) -> Self {
        let is_write = |name: &str| {
            let verbs = ["POST ", "PUT ", "PATCH ", "APPLY ", "DELETE "];
            name.contains("open-cluster-management.io") && verbs.iter().any(|verb| name.starts_with(verb))
        };
        self.only(is_write)
    }

    /// Returns the requests that the API server rejected.
    pub(crate) fn refused(&self) -> Self {
        self.only(|name| name.rsplit(' ').next().is_some_and(|code| code.parse::<u16>().is_ok()))
    }

    fn only(&self, is: impl Fn(&str) -> bool) -> Self {
        Self(self.0.iter().filter(|(name, _)| is(name)).map(|(name, count)| (name.clone(), *count)).collect())
    }
}
