//! The code blocks of the README and of the docs: commands run on a real API server, and the server accepts
//! the objects.

mod helm;
mod reasons;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::kube::{Cluster, assets};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The pages whose blocks run, in this order, on one hub.
const RUN: &[&str] = &[
    "docs/tutorial.md",
    "docs/how-to.md",
    "docs/operating.md",
    "docs/addons.md",
    "docs/repositories.md",
    "docs/simulate.md",
    "README.md",
];

/// Blocks that do not run: page, start of the first line, and reason.
const NOT_RUN: &[(&str, &str, &str)] = &[
    ("README.md", "make demo", "a step of .ci/run"),
    ("README.md", "make test", "it is what runs this test"),
    ("README.md", "wheelwright crds |", "this hub has the operator already; helm:: runs it"),
    ("README.md", "wheelwright operator", "it runs until it is stopped; chart:: runs it"),
    ("README.md", "wheelwright agent", "it runs until it is stopped; cli:: runs it and accepts its cluster"),
    ("README.md", "wheelwright accept", "no agent asks here; cli:: accepts one that does"),
    ("docs/tutorial.md", "make demo", "a step of .ci/run"),
    ("docs/tutorial.md", "wheelwright accept", "no agent asks here; cli:: accepts one that does"),
    ("docs/tutorial.md", "wheelwright plan", "plan:: runs plans of branches"),
    ("docs/how-to.md", "wheelwright migrate", "no cluster with workloads is here; migrate:: moves some"),
    ("docs/how-to.md", "wheelwright rollout approve", "nothing waits here; rollout:: approves what waits"),
    (
        "docs/how-to.md",
        "etcdctl",
        "etcdctl is not part of the tests; faults:: restores a copy of etcd's files",
    ),
    ("docs/operating.md", "podman build", "no daemon and no registry; image:: makes the image"),
    ("docs/operating.md", "wheelwright rollout approve", "nothing waits here; rollout:: approves what waits"),
    (
        "docs/operating.md",
        "wheelwright doctor",
        "no operator runs here, so it fails; doctor:: examines a hub",
    ),
    (
        "docs/operating.md",
        "wheelwright dashboard",
        "it runs until it is stopped; dashboard:: and browser:: look at it",
    ),
    ("docs/operating.md", "wheelwright crds |", "helm has installed nothing here; helm:: runs it"),
    (
        "docs/operating.md",
        "kubectl create namespace open-cluster-management-agent",
        "this hub is no cluster of a fleet; helm:: runs it",
    ),
    (
        "docs/operating.md",
        "helm install registration-operator",
        "nothing runs its pods here; helm:: runs helm, and klusterlet:: the chart",
    ),
    (
        "docs/operating.md",
        "kubectl create namespace cluster1",
        "there are no kubeconfigs of other clusters here; klusterlet::hosted:: does the same",
    ),
    ("docs/operating.md", "helm upgrade", "helm has installed nothing here; helm:: runs it"),
    ("docs/operating.md", "helm uninstall", "helm has installed nothing here; helm:: runs it"),
    ("docs/operating.md", "kubectl port-forward", "nothing runs pods here; dashboard:: looks at the page"),
    ("docs/addons.md", "kubectl create namespace", "published:: applies these files on both hubs"),
    ("docs/addons.md", "kubectl get rolloutpolicies", "nothing is held here; rollout:: approves what waits"),
    ("docs/addons.md", "kubectl annotate managedclusteraddon", "no add-on is here; the simulator hosts one"),
    ("docs/addons.md", "kubectl patch managedclusteraddon", "no add-on waits for a job here"),
    ("docs/argocd.md", "helm upgrade", "helm has installed nothing here; helm:: runs it"),
    ("docs/argocd.md", "kubectl patch", "Argo CD is not here; argocd:: runs the checks in Lua"),
    ("docs/cli.md", "", "cli:: runs a fleet with these commands and an agent"),
    ("docs/plan.md", "", "plan:: runs them on repositories of its own"),
    ("docs/rendering.md", "", "render's own tests run each option"),
    (
        "docs/repositories.md",
        "git fetch origin",
        "no operator reports here; git:: fetches reports and archives",
    ),
    ("docs/repositories.md", "wheelwright operator", "it runs until it is stopped; chart:: runs it"),
    (
        "docs/simulate.md",
        "wheelwright simulate rollout --snapshot",
        "the simulator's tests read a hub's objects",
    ),
    ("examples-repo/README.md", "", "golden:: renders its overlays, and the demo runs it"),
];

/// The programs that a block of commands begins with.
const PROGRAMS: &[&str] =
    &["wheelwright", "kubectl", "helm", "make", "cp", "etcdctl", "podman", "ssh-keygen", "git", "curl"];

struct Block {
    page: String,
    language: String,
    text: String,
}

impl Block {
    fn is_commands(&self) -> bool {
        let first = self.text.split_whitespace().next().unwrap_or_default();
        self.language.is_empty() && PROGRAMS.contains(&first)
    }

    fn reason(&self) -> Option<&'static str> {
        let is_it =
            |(page, start, _): &&(&str, &str, &str)| *page == self.page && self.text.starts_with(start);
        NOT_RUN.iter().find(is_it).map(|(_, _, why)| *why)
    }
}

fn blocks(page: &str) -> Vec<Block> {
    let text = std::fs::read_to_string(format!("{ROOT}/{page}")).unwrap();
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for line in text.lines() {
        match (line.strip_prefix("```"), open.take()) {
            (Some(language), None) => {
                open = Some(Block { page: page.into(), language: language.into(), text: String::new() });
            }
            (Some(_), Some(block)) => blocks.push(block),
            (None, Some(mut block)) => {
                block.text += line;
                block.text.push('\n');
                open = Some(block);
            }
            (None, None) => {}
        }
    }
    blocks
}

fn pages() -> BTreeSet<String> {
    let docs = std::fs::read_dir(format!("{ROOT}/docs")).unwrap();
    let names = docs.map(|entry| format!("docs/{}", entry.unwrap().file_name().to_str().unwrap()));
    let pages = names.filter(|name| name.ends_with(".md"));
    pages.chain(["README.md".to_owned(), "examples-repo/README.md".to_owned()]).collect()
}

#[test]
fn every_block_of_commands_runs_or_says_why_not() {
    let all: Vec<Block> = pages().iter().flat_map(|page| blocks(page)).filter(Block::is_commands).collect();
    for block in &all {
        assert!(
            RUN.contains(&block.page.as_str()) || block.reason().is_some(),
            "{}:\n{}",
            block.page,
            block.text
        );
    }
    for (page, start, _) in NOT_RUN {
        let is_it = |block: &&Block| block.page == *page && block.text.starts_with(start);
        assert!(all.iter().any(|block| is_it(&block)), "no block of {page} starts with {start:?}");
    }
}

/// Sets the status of the operator's Deployment as if its pods ran, because there is no kubelet.
async fn run_pods(client: kube::Client) {
    let deployments: Api<Deployment> = Api::namespaced(client, "wheelwright-system");
    loop {
        if let Ok(Some(found)) = deployments.get_opt("wheelwright-operator").await {
            let count = found.spec.replicas;
            let status = json!({"status": {"observedGeneration": found.metadata.generation, "replicas": count,
                "updatedReplicas": count, "readyReplicas": count, "availableReplicas": count}});
            // The Deployment may be deleted meanwhile.
            let _ = deployments
                .patch_status("wheelwright-operator", &PatchParams::default(), &Patch::Merge(status))
                .await;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn link(from: &Path, dir: &Path, name: &str) {
    std::os::unix::fs::symlink(from, dir.join(name)).unwrap();
}

/// Makes the directory of the programs that blocks call, below `dir`.
fn link_programs(dir: &Path) {
    std::fs::create_dir(dir.join("bin")).unwrap();
    link(Path::new(env!("CARGO_BIN_EXE_wheelwright")), dir, "bin/wheelwright");
    link(&assets().join("kubectl"), dir, "bin/kubectl");
}

/// Prepares what the pages assume: programs, a copy of the repository, an add-on whose rollout stopped, and
/// Deployments with OCM's names.
async fn prepare(hub: &Cluster, dir: &Path) {
    link_programs(dir);
    link(&Path::new(ROOT).join("examples"), dir, "examples");
    // A page makes a git repository of the copy.
    let copied = Command::new("cp").arg("-r").arg(format!("{ROOT}/examples-repo")).arg(dir).status();
    assert!(copied.unwrap().success());
    for name in ["allowed_signers", "alice.asc", "app.pem"] {
        std::fs::write(dir.join(name), "").unwrap();
    }
    let inputs = blocks("docs/simulate.md").into_iter().filter(|block| block.language == "yaml");
    for (name, input) in ["fleet.yaml", "outcomes.yaml"].into_iter().zip(inputs) {
        std::fs::write(dir.join(name), input.text).unwrap();
    }
    let kubectl = hub.kubectl();
    kubectl.install(api::crds::hub().into_iter());
    let stopped = Path::new(ROOT).join("tests/golden/explain/rollout.yaml");
    crate::rollout::load(&hub.client().await, &stopped).await;
    let repo = json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo",
        "metadata": {"name": "fleet", "namespace": "fleet"}, "spec": {"url": "https://git.example.com/fleet"}});
    kubectl.run_with(&["apply", "-f", "-"], &repo.to_string());
    for namespace in ["open-cluster-management", "open-cluster-management-hub"] {
        kubectl.run(&["create", "namespace", namespace]);
    }
    for (namespace, name) in [
        ("open-cluster-management", "cluster-manager"),
        ("open-cluster-management-hub", "cluster-manager-placement-controller"),
        ("open-cluster-management-hub", "cluster-manager-addon-manager-controller"),
        ("open-cluster-management-hub", "cluster-manager-work-controller"),
        ("open-cluster-management-hub", "cluster-manager-registration-controller"),
    ] {
        kubectl.run(&["create", "deployment", name, "-n", namespace, "--image=example.com/ocm"]);
    }
}

/// Runs a block with bash; returns what it prints, and whether it succeeds.
fn outcome(hub: &Cluster, dir: &Path, block: &Block) -> (bool, String) {
    let mut command = Command::new("timeout");
    command.args(["180", "bash", "-euo", "pipefail", "-c", &block.text]).current_dir(dir);
    command.env("PATH", format!("{}:{}", dir.join("bin").display(), std::env::var("PATH").unwrap()));
    command.env("KUBECONFIG", &hub.kubeconfig).env("HOME", dir).env("TOKEN", "token-of-a-git-server");
    let output = command.output().unwrap();
    let printed =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.success(), printed)
}

fn run(hub: &Cluster, dir: &Path, block: &Block) {
    let (succeeds, printed) = outcome(hub, dir, block);
    assert!(succeeds, "{}:\n{}\n{printed}", block.page, block.text);
}

#[test]
fn every_controller_changes_sides_in_a_row_of_the_how_to() {
    let page = std::fs::read_to_string(format!("{ROOT}/docs/how-to.md")).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| `cluster-manager-"));
    let mut named: Vec<&str> = rows.flat_map(|row| row.split('`').skip(3).step_by(2)).collect();
    let begin = page.split_once("install --controllers=").unwrap().1.split(' ').next().unwrap();
    named.extend(begin.split(','));
    named.sort_unstable();
    let mut known = wheelwright::operator::controller_names();
    known.sort_unstable();
    assert_eq!(named, known);
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_and_objects_of_the_pages_work_on_a_hub() {
    let hub = Cluster::start("docs").await;
    let dir = tempfile::tempdir().unwrap();
    prepare(&hub, dir.path()).await;
    let pods = tokio::spawn(run_pods(hub.client().await));
    let kubectl = hub.kubectl();
    let mut count = 0;
    for block in RUN.iter().flat_map(|page| blocks(page)) {
        if block.language == "yaml" && block.text.starts_with("apiVersion:") {
            kubectl.run_with(
                &["apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", "-"],
                &block.text,
            );
            count += 1;
        }
        if block.is_commands() && block.reason().is_none() {
            run(&hub, dir.path(), &block);
            count += 1;
        }
    }
    pods.abort();
    assert!(count >= 30, "{count} blocks ran");
}
