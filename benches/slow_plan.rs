//! A repository that takes 20 s to render beside a rollout of 200 clusters, on a real API server: the lease is renewed, and the rollout
//! keeps the pace that it has without it.
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

#[path = "hub.rs"]
mod hub;
#[path = "../tests/kube/mod.rs"]
mod kube;

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ::kube::api::{Api, DynamicObject, PostParams};
use ::kube::discovery::ApiResource;
use api::work::v1::ManifestWork;
use hub::{commit, join, start_operator, wait_for};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Cluster;
use serde_json::json;

const NAMESPACE: &str = "wheelwright-system";
/// Objects of the slow repository, and patches that each of them passes.
const OBJECTS: usize = 1000;
const PATCHES: usize = 1500;

#[tokio::main]
async fn main() {
    let clusters = std::env::args().filter_map(|word| word.parse().ok()).next().unwrap_or(200);
    let server = Cluster::start("slow-plan").await;
    let crds = Command::new(env!("CARGO_BIN_EXE_wheelwright")).arg("crds").output().unwrap();
    let kubectl = server.kubectl();
    kubectl.run_with(&["apply", "--server-side", "-f", "-"], &String::from_utf8(crds.stdout).unwrap());
    let client = server.client().await;
    let dir = tempfile::tempdir().unwrap();
    let (fast, slow) = (dir.path().join("fleet.git"), dir.path().join("slow.git"));
    git2::Repository::init_bare(&fast).unwrap();
    commit_slow(&slow);
    commit(&fast, "one", 1);
    join(&client, clusters).await;
    let _operator = start_operator(&server.kubeconfig, &fast, dir.path(), &["--leader-elect"]);
    let works: Api<ManifestWork> = Api::all(client.clone());
    wait_for(&works, clusters, "one").await;
    let gaps = Arc::new(Mutex::new(Vec::new()));
    let watching = tokio::spawn(renewals(client.clone(), Arc::clone(&gaps)));

    commit(&fast, "two", 2);
    let begin = Instant::now();
    wait_for(&works, clusters, "two").await;
    let alone = begin.elapsed();

    let rendering = Instant::now();
    create_slow(&client, &slow).await;
    // Time for the fetch, so that the rendering has begun.
    tokio::time::sleep(Duration::from_secs(3)).await;
    gaps.lock().unwrap().clear();
    commit(&fast, "three", 3);
    let begin = Instant::now();
    wait_for(&works, clusters, "three").await;
    let beside = begin.elapsed();
    assert!(!is_applied(&client).await, "the slow repository was rendered before the rollout was over");
    while !is_applied(&client).await {
        assert!(rendering.elapsed() < Duration::from_secs(300), "the slow repository is never rendered");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let rendered = rendering.elapsed();
    watching.abort();
    let gaps = gaps.lock().unwrap();
    println!("clusters: {clusters}");
    println!("push to last ManifestWork, alone: {:.2} s", alone.as_secs_f64());
    println!(
        "push to last ManifestWork, while another repository is rendered: {:.2} s",
        beside.as_secs_f64()
    );
    println!("the other repository, until its first object is applied: {:.1} s", rendered.as_secs_f64());
    println!(
        "longest time between two renewals of the lease meanwhile: {:.1} s, of {}",
        gaps.iter().max().unwrap_or(&Duration::ZERO).as_secs_f64(),
        gaps.len()
    );
}

/// Notes the times between changes of the lease.
async fn renewals(client: ::kube::Client, gaps: Arc<Mutex<Vec<Duration>>>) {
    let leases: Api<Lease> = Api::namespaced(client, NAMESPACE);
    let (mut seen, mut since) = (None, Instant::now());
    loop {
        let version = leases.get("wheelwright-operator").await.unwrap().metadata.resource_version;
        if seen != version {
            gaps.lock().unwrap().push(since.elapsed());
            (seen, since) = (version, Instant::now());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A repository of many objects that each pass many patches.
fn commit_slow(repository: &Path) {
    let mut objects = String::new();
    for i in 0..OBJECTS {
        let _ = write!(
            objects,
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: slow-{i}, namespace: default}}\n"
        );
    }
    let patch = |i: usize| json!({"target": {"kind": "ConfigMap", "name": "slow-.*"}, "patch": format!("- {{op: add, path: /data, value: {{a: b{i}}}}}")});
    let patches: Vec<_> = (0..PATCHES).map(patch).collect();
    let kustomization = json!({"resources": ["objects.yaml"], "patches": patches}).to_string();
    let git = git2::Repository::init_bare(repository).unwrap();
    let mut builder = git.treebuilder(None).unwrap();
    for (name, text) in [("objects.yaml", objects), ("kustomization.yaml", kustomization)] {
        builder.insert(name, git.blob(text.as_bytes()).unwrap(), 0o100_644).unwrap();
    }
    let tree = git.find_tree(builder.write().unwrap()).unwrap();
    let author =
        git2::Signature::new("Bench", "bench@example.com", &git2::Time::new(1_700_000_000, 0)).unwrap();
    git.commit(Some("refs/heads/main"), &author, &author, "slow", &tree, &[]).unwrap();
}

async fn create_slow(client: &::kube::Client, repository: &Path) {
    let repo = json!({
        "apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo",
        "metadata": {"name": "slow", "namespace": NAMESPACE},
        "spec": {"url": repository, "ref": {"branch": "main"}},
    });
    let resource = ApiResource {
        group: "gitops.wheelwright.dev".into(),
        version: "v1alpha1".into(),
        api_version: "gitops.wheelwright.dev/v1alpha1".into(),
        kind: "ConfigRepo".into(),
        plural: "configrepos".into(),
    };
    let repos: Api<DynamicObject> = Api::namespaced_with(client.clone(), NAMESPACE, &resource);
    repos.create(&PostParams::default(), &serde_json::from_value(repo).unwrap()).await.unwrap();
}

async fn is_applied(client: &::kube::Client) -> bool {
    let maps: Api<k8s_openapi::api::core::v1::ConfigMap> = Api::namespaced(client.clone(), "default");
    maps.get_opt("slow-0").await.unwrap().is_some()
}
