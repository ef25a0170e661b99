//! Measures rollouts to 200 clusters on a real API server while a ConfigRepo renders for 20 s, and while the
//! largest first commit is planned and written. The operator must keep renewing its lease, and the rollouts must
//! not slow down.
//!
//! The renderer takes a core away from all other programs on the machine, so the baseline is the same rendering by
//! another process. The bench fails if the lease is not renewed in time, or if the rendering ends before the
//! rollouts.
//!
//! `cargo bench --bench slow_plan [-- CLUSTERS]`
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a bench fails by panicking, and measures by the real clock"
)]
#![allow(dead_code, reason = "of the harness, only part is needed here")]

#[path = "../tests/fleet_commit.rs"]
mod fleet_commit;
mod hub;
#[path = "../tests/kube/mod.rs"]
mod kube;
#[path = "../tests/slow_commit.rs"]
mod slow_commit;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ::kube::Client;
use ::kube::api::{Api, PostParams, WatchEvent, WatchParams};
use api::gitops::v1alpha1::ConfigRepo;
use api::work::v1::ManifestWork;
use fleet_commit::commit;
use futures::{StreamExt as _, pin_mut};
use hub::{Operator, install, join, wait_for};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::Cluster;
use serde_json::json;

const NAMESPACE: &str = "wheelwright-system";
const POLL: Duration = Duration::from_millis(20);
const WITHIN: Duration = Duration::from_secs(180);
/// Number of rollouts of each kind; the bench reports the median.
const ROLLOUTS: usize = 3;
/// Number of ConfigMaps in the slow repository.
const OBJECTS: usize = 50;
/// Number of ConfigMaps in the large repository, the maximum for a ConfigRepo, and the size of each in bytes.
const LARGE_OBJECTS: usize = 5000;
const LARGE_BYTES: usize = 10_000;
/// Number of files in the large repository. A file may have up to 16 MiB.
const LARGE_FILES: usize = 10;

#[tokio::main]
async fn main() {
    let clusters = std::env::args().filter_map(|word| word.parse().ok()).next().unwrap_or(200);
    let server = Cluster::start("slow-plan").await;
    install(&server);
    let client = server.client().await;
    let dir = tempfile::tempdir().unwrap();
    let [repository, slow, large] = ["fleet.git", "slow.git", "large.git"].map(|name| dir.path().join(name));
    slow_commit::commit(&slow, OBJECTS);
    commit_large(&large);
    commit(&repository, "install");
    join(&client, clusters).await;
    let mut operator = Operator::start(&server.kubeconfig, &repository, dir.path(), &[]);
    let fleet = Fleet { repository, works: Api::all(client.clone()), clusters };
    wait_for(&fleet.works, clusters, "install").await;

    let alone = fleet.rollouts("alone").await;

    let leases = Arc::new(Mutex::new(Vec::new()));
    let watch = tokio::spawn(watch_lease(client.clone(), Arc::clone(&leases)));
    let mut renderer = Renderer::start(&slow);
    let beside_renderer = fleet.rollouts("renderer").await;
    assert!(renderer.is_running(), "the other process rendered before the rollouts were over");
    let process = renderer.end().await;

    create_repo(&client, "slow", &slow).await;
    let rendering = Rendering::begun(&dir.path().join("cache/attempts")).await;
    let beside_rendering = fleet.rollouts("rendering").await;
    assert!(rendering.is_running(), "the operator rendered before the rollouts were over");
    let (begin, end) = rendering.end(&mut operator).await;
    applied(&client, "slow").await;

    let large_begin = Instant::now();
    create_repo(&client, "large", &large).await;
    let beside_plan = fleet.rollouts("large").await;
    applied(&client, "large").await;
    let large_end = Instant::now();
    // The last gap ends with the first renewal after the end.
    tokio::time::sleep(Duration::from_secs(5)).await;
    watch.abort();
    assert_eq!(operator.0.try_wait().unwrap(), None, "the operator has lost its leadership");
    let (gap, allowed) = longest_gap(&leases.lock().unwrap(), begin, end);
    let (large_gap, _) = longest_gap(&leases.lock().unwrap(), large_begin, large_end);

    println!("clusters: {clusters}");
    println!("rendering, by the operator: {:.1} s", (end - begin).as_secs_f64());
    println!("rendering, by another process: {:.1} s", process.as_secs_f64());
    println!("longest time between two renewals of the lease while the operator renders: {gap:.2?}");
    println!(
        "{LARGE_OBJECTS} objects of {LARGE_BYTES} bytes: {:.1} s",
        (large_end - large_begin).as_secs_f64()
    );
    println!("longest time between two renewals of the lease meanwhile: {large_gap:.2?}");
    println!("push to last ManifestWork, median of {ROLLOUTS}:");
    println!("  nothing else runs: {:.2} s {alone:.2?}", median(&alone));
    println!("  another process renders: {:.2} s {beside_renderer:.2?}", median(&beside_renderer));
    println!("  the operator renders: {:.2} s {beside_rendering:.2?}", median(&beside_rendering));
    println!(
        "  the operator plans and writes the large commit: {:.2} s {beside_plan:.2?}",
        median(&beside_plan)
    );
    let gap = gap.max(large_gap);
    assert!(gap < allowed, "the lease is respected for {allowed:?} and was not renewed for {gap:?}");
}

struct Fleet {
    repository: PathBuf,
    works: Api<ManifestWork>,
    clusters: usize,
}

impl Fleet {
    /// Pushes commits one after the other. Returns the seconds from each push to the last work.
    async fn rollouts(&self, name: &str) -> Vec<f64> {
        let mut seconds = Vec::new();
        for i in 0..ROLLOUTS {
            let word = format!("{name}-{i}");
            let begin = Instant::now();
            commit(&self.repository, &word);
            wait_for(&self.works, self.clusters, &word).await;
            seconds.push(begin.elapsed().as_secs_f64());
        }
        seconds
    }
}

fn median(seconds: &[f64]) -> f64 {
    let mut sorted = seconds.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// A `wheelwright render` process; killed when the bench ends.
struct Renderer(Operator, Instant);

impl Renderer {
    fn start(repository: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
        command.args(["render", "--output", "names", "--revision", "main", "--repo"]).arg(repository);
        command.stdout(Stdio::null());
        Self(Operator(command.spawn().unwrap()), Instant::now())
    }

    fn is_running(&mut self) -> bool {
        self.0.0.try_wait().unwrap().is_none()
    }

    /// Waits until the rendering ends; returns its duration.
    async fn end(mut self) -> Duration {
        while self.is_running() {
            tokio::time::sleep(POLL).await;
        }
        assert!(self.0.0.wait().unwrap().success(), "the slow repository cannot be rendered");
        self.1.elapsed()
    }
}

/// A rendering by the operator. The operator keeps a file while it renders.
struct Rendering {
    file: PathBuf,
    begin: Instant,
}

impl Rendering {
    /// Waits until the rendering begins.
    async fn begun(attempts: &Path) -> Self {
        let begin = Instant::now();
        loop {
            if let Some(file) = attempts.read_dir().unwrap().next() {
                return Self { file: file.unwrap().path(), begin: Instant::now() };
            }
            assert!(begin.elapsed() < WITHIN, "the slow repository is not rendered");
            tokio::time::sleep(POLL).await;
        }
    }

    fn is_running(&self) -> bool {
        self.file.exists()
    }

    /// Waits until the rendering ends; returns its start and end.
    async fn end(self, operator: &mut Operator) -> (Instant, Instant) {
        while self.is_running() {
            assert_eq!(operator.0.try_wait().unwrap(), None, "the operator has lost its leadership");
            assert!(self.begin.elapsed() < WITHIN, "the rendering does not end");
            tokio::time::sleep(POLL).await;
        }
        (self.begin, Instant::now())
    }
}

/// Records each change of the lease, as another candidate sees it.
async fn watch_lease(client: Client, leases: Arc<Mutex<Vec<(Instant, LeaseSpec)>>>) {
    let api: Api<Lease> = Api::namespaced(client, NAMESPACE);
    let params = WatchParams::default().fields("metadata.name=wheelwright-operator");
    let events = api.watch(&params, "0").await.unwrap();
    pin_mut!(events);
    while let Some(event) = events.next().await {
        match event.unwrap() {
            WatchEvent::Added(lease) | WatchEvent::Modified(lease) => {
                leases.lock().unwrap().push((Instant::now(), lease.spec.unwrap()));
            }
            WatchEvent::Bookmark(_) => {}
            WatchEvent::Deleted(_) | WatchEvent::Error(_) => panic!("the watch of the lease has failed"),
        }
    }
}

/// Returns the longest gap between two renewals, from the last one before `begin` to the first one after `end`,
/// and the duration of the lease.
fn longest_gap(leases: &[(Instant, LeaseSpec)], begin: Instant, end: Instant) -> (Duration, Duration) {
    let first = leases.iter().rposition(|(at, _)| *at < begin).expect("there is a lease before");
    let last = leases.iter().position(|(at, _)| *at > end).expect("the lease is renewed afterwards");
    let leases = &leases[first..=last];
    let holder = &leases[0].1.holder_identity;
    assert!(holder.is_some() && leases.iter().all(|(_, spec)| spec.holder_identity == *holder));
    let gap = leases.windows(2).map(|pair| pair[1].0 - pair[0].0).max().unwrap();
    let respected = leases[0].1.lease_duration_seconds.unwrap();
    (gap, Duration::from_secs(respected.try_into().unwrap()))
}

/// Commits many ConfigMaps.
fn commit_large(repository: &Path) {
    let value = "x".repeat(LARGE_BYTES);
    let map = |i: usize| {
        let metadata = json!({"name": format!("large-{i}"), "namespace": "default"});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"value": value}})
    };
    let git = git2::Repository::init_bare(repository).unwrap();
    let mut builder = git.treebuilder(None).unwrap();
    for file in 0..LARGE_FILES {
        let of_file = (0..LARGE_OBJECTS).filter(|i| i % LARGE_FILES == file);
        let text: String = of_file.map(|i| format!("---\n{}\n", map(i))).collect();
        builder.insert(format!("{file}.yaml"), git.blob(text.as_bytes()).unwrap(), 0o100_644).unwrap();
    }
    let tree = git.find_tree(builder.write().unwrap()).unwrap();
    let author = git2::Signature::now("Test", "test@example.com").unwrap();
    git.commit(Some("refs/heads/main"), &author, &author, "large", &tree, &[]).unwrap();
}

async fn create_repo(client: &Client, name: &str, repository: &Path) {
    let repo = json!({
        "apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo",
        "metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"url": repository, "ref": {"branch": "main"}},
    });
    let repos: Api<ConfigRepo> = Api::namespaced(client.clone(), NAMESPACE);
    repos.create(&PostParams::default(), &serde_json::from_value(repo).unwrap()).await.unwrap();
}

/// Waits until all objects of a repository are applied.
async fn applied(client: &Client, name: &str) {
    let repos: Api<ConfigRepo> = Api::namespaced(client.clone(), NAMESPACE);
    let begin = Instant::now();
    while repos.get(name).await.unwrap().status.is_none_or(|status| status.applied.is_none()) {
        assert!(begin.elapsed() < WITHIN, "the repository {name} is not applied");
        tokio::time::sleep(POLL).await;
    }
}
