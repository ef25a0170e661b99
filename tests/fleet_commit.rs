//! A repository whose commits change the works of every cluster.

use std::path::Path;

use serde_json::{Value, json};

/// Commits a template whose ConfigMap contains `word`, placed on every cluster with the strategy All.
pub(crate) fn commit(repository: &Path, word: &str) {
    commit_with(repository, word, &[]);
}

/// Commits the same plus additional objects for the hub.
pub(crate) fn commit_with(repository: &Path, word: &str, further: &[Value]) {
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
    let git = git2::Repository::init_bare(repository).unwrap();
    let mut builder = git.treebuilder(None).unwrap();
    for (i, file) in files.iter().chain(further).enumerate() {
        builder
            .insert(format!("{i}.yaml"), git.blob(file.to_string().as_bytes()).unwrap(), 0o100_644)
            .unwrap();
    }
    let tree = git.find_tree(builder.write().unwrap()).unwrap();
    let author = git2::Signature::now("Test", "test@example.com").unwrap();
    let parent = git.refname_to_id("refs/heads/main").ok().map(|id| git.find_commit(id).unwrap());
    let parents: Vec<_> = parent.iter().collect();
    git.commit(Some("refs/heads/main"), &author, &author, word, &tree, &parents).unwrap();
}
