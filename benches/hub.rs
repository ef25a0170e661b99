//! A hub with a fleet, an operator as a process, and a repository whose commits change the work of every cluster.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ::kube::api::{Api, ListParams, PostParams};
use api::cluster::v1::ManagedCluster;
use api::work::v1::ManifestWork;
use futures::{StreamExt as _, stream};
use serde_json::json;

const WITHIN: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(20);
/// Requests in flight, as many as the operator allows itself.
pub(crate) const AT_ONCE: usize = 32;

/// A process that ends with the bench.
pub(crate) struct Operator(pub(crate) Child);

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn start_operator(kubeconfig: &Path, repository: &Path, dir: &Path, more: &[&str]) -> Operator {
    let log = std::fs::File::create(dir.join("operator.log")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
    command
        .arg("operator")
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .arg("--local-repositories")
        .arg("--repo")
        .arg(repository)
        .args(more);
    command.env("XDG_CACHE_HOME", dir).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    Operator(command.spawn().unwrap())
}

/// A template whose ConfigMap says `word`, placed on every cluster, strategy All.
pub(crate) fn commit(repository: &Path, word: &str, number: i64) {
    let group = "addon.open-cluster-management.io";
    let files = [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fleet", "labels": {"gitops.wheelwright.dev/operator-identity": "allowed"}}}),
        json!({"apiVersion": "cluster.open-cluster-management.io/v1beta2", "kind": "ManagedClusterSetBinding",
            "metadata": {"name": "global", "namespace": "fleet"}, "spec": {"clusterSet": "global"}}),
        json!({"apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement",
            "metadata": {"name": "all", "namespace": "fleet"}, "spec": {"tolerations": [{"operator": "Exists"}]}}),
        json!({"apiVersion": format!("{group}/v1alpha1"), "kind": "AddOnTemplate", "metadata": {"name": "bench"},
        "spec": {"addonName": "bench", "agentSpec": {"workload": {"manifests": [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bench", "namespace": "default"}, "data": {"word": word}},
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "bench", "namespace": "default"}},
        ]}}}}),
        json!({"apiVersion": format!("{group}/v1alpha1"), "kind": "ClusterManagementAddOn", "metadata": {"name": "bench"},
        "spec": {
            "supportedConfigs": [{"group": group, "resource": "addontemplates", "defaultConfig": {"name": "bench"}}],
            "installStrategy": {"type": "Placements", "placements": [
                {"namespace": "fleet", "name": "all", "rolloutStrategy": {"type": "All"}}]},
        }}),
    ];
    let git = git2::Repository::open_bare(repository).unwrap();
    let mut builder = git.treebuilder(None).unwrap();
    for (i, file) in files.iter().enumerate() {
        builder
            .insert(format!("{i}.yaml"), git.blob(file.to_string().as_bytes()).unwrap(), 0o100_644)
            .unwrap();
    }
    let tree = git.find_tree(builder.write().unwrap()).unwrap();
    let author =
        git2::Signature::new("Bench", "bench@example.com", &git2::Time::new(1_700_000_000 + number, 0))
            .unwrap();
    let parent = git.refname_to_id("refs/heads/main").ok().map(|id| git.find_commit(id).unwrap());
    let parents: Vec<_> = parent.iter().collect();
    git.commit(Some("refs/heads/main"), &author, &author, word, &tree, &parents).unwrap();
}

pub(crate) async fn join(client: &::kube::Client, clusters: usize) {
    let api: Api<ManagedCluster> = Api::all(client.clone());
    let create = |i: usize| {
        let api = api.clone();
        let cluster = json!({
            "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": {"name": format!("cluster-{i:04}")}, "spec": {"hubAcceptsClient": true},
        });
        async move { api.create(&PostParams::default(), &serde_json::from_value(cluster).unwrap()).await.unwrap() }
    };
    stream::iter(0..clusters).map(create).buffer_unordered(AT_ONCE).collect::<Vec<_>>().await;
}

/// Waits until every cluster's work carries a word.
pub(crate) async fn wait_for(works: &Api<ManifestWork>, clusters: usize, word: &str) {
    let deadline = Instant::now() + WITHIN;
    loop {
        // A kind that was defined a moment ago may not be listable yet.
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
