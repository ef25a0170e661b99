//! The code blocks of the README and the docs: a real API server runs the commands and accepts the objects.

mod helm;
mod lists;
mod reasons;
mod tutorial;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use api::names::ADDON_PRE_DELETE;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::{Patch, PatchParams};
use object::Object;
use serde_json::json;
use wheelwright::apiserver::Server;

use crate::kube::{Cluster, Kubectl, assets};
use crate::running::Running;
use crate::wait::eventually;
use lists::{NOT_RUN, ON_A_HUB_WITH_A_FLEET, ON_A_NEW_HUB, PRINTED, PROGRAMS, UNTIL_STOPPED};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// A plan with changes exits with 10, as its page says.
pub(crate) const PLANS_OF_CHANGES_SUCCEED: &str =
    r#"wheelwright() { command wheelwright "$@" || [ "$1 $?" = "plan 10" ]; }"#;

/// The work's manifest file in docs/cli.md.
const SETTINGS: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: default}\ndata: {a: b}\n";

pub(crate) struct Block {
    page: String,
    language: String,
    pub(crate) text: String,
}

impl Block {
    pub(crate) fn is_commands(&self) -> bool {
        let word = self.text.split_whitespace().next().unwrap_or_default();
        // A variable may come first, as in `kinds=$(kubectl`.
        let program = word.split_once("=$(").map_or(word, |(_, program)| program);
        self.language.is_empty() && PROGRAMS.split(' ').any(|known| known == program)
    }

    /// Returns the entry for this block in a list.
    fn listed(&self, list: &[(&str, &str, &'static str)]) -> Option<&'static str> {
        let is_it =
            |(page, start, _): &&(&str, &str, &str)| *page == self.page && self.text.starts_with(start);
        list.iter().find(is_it).map(|(_, _, says)| *says)
    }
}

/// Returns the code blocks of a page.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
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

/// Returns every page: the pages of the book, and pages next to code.
fn pages() -> BTreeSet<String> {
    let folders = ["", "docs/", "docs/design/", "docs/reference/", "examples-repo/", "crates/addon-sdk/"];
    let of = |folder: &str| {
        let entries = std::fs::read_dir(format!("{ROOT}/{folder}")).unwrap();
        let names = entries.map(|entry| format!("{folder}{}", entry.unwrap().file_name().to_str().unwrap()));
        names.filter(|name| name.ends_with(".md")).collect::<Vec<_>>()
    };
    folders.into_iter().flat_map(of).collect()
}

/// Returns true if a test or a module of this name exists: `helm::`, `klusterlet::hosted::`.
fn is_module(name: &str) -> bool {
    let path = name.trim_end_matches("::").replace("::", "/");
    let exists = |folder: &str| {
        let path = Path::new(ROOT).join(folder).join(&path);
        path.is_dir() || path.with_extension("rs").exists()
    };
    ["tests", "tests/docs", "src"].into_iter().any(exists)
}

#[test]
fn every_block_of_commands_runs_or_says_why_not() {
    let all: Vec<Block> = pages().iter().flat_map(|page| blocks(page)).collect();
    for block in all.iter().filter(|block| !block.is_commands()) {
        let Block { page, language, text } = block;
        let is_printed = PRINTED.iter().any(|(of, start)| of == page && text.starts_with(start));
        let is_other = ["yaml", "json", "text", "rust", "toml"].contains(&language.as_str());
        assert!(is_printed || is_other, "neither commands nor what they print: {page}:\n{language}\n{text}");
    }
    let all: Vec<Block> = all.into_iter().filter(Block::is_commands).collect();
    for (page, start, reason) in NOT_RUN {
        let named = reason.split([' ', ';', ',']).filter(|word| word.ends_with("::"));
        for module in named {
            assert!(is_module(module), "{page}: {start}: there is no {module}");
        }
    }
    let run = ON_A_NEW_HUB.iter().chain(ON_A_HUB_WITH_A_FLEET);
    for block in &all {
        assert!(
            run.clone().any(|(page, _)| *page == block.page) || block.listed(NOT_RUN).is_some(),
            "{}:\n{}",
            block.page,
            block.text
        );
    }
    for (page, start, _) in NOT_RUN.iter().chain(UNTIL_STOPPED) {
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
            // The Deployment may have been deleted in the meantime.
            let _ = deployments
                .patch_status("wheelwright-operator", &PatchParams::default(), &Patch::Merge(status))
                .await;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

pub(crate) fn link(from: &Path, dir: &Path, name: &str) {
    std::os::unix::fs::symlink(from, dir.join(name)).unwrap();
}

/// Creates the directory for the programs that blocks call, in `dir`.
pub(crate) fn link_programs(dir: &Path) {
    std::fs::create_dir(dir.join("bin")).unwrap();
    link(Path::new(env!("CARGO_BIN_EXE_wheelwright")), dir, "bin/wheelwright");
    link(&assets().join("kubectl"), dir, "bin/kubectl");
}

/// Prepares what the pages assume: programs, a copy of the repository, other files, and two joined clusters.
/// Returns the cluster that joins by following the pages.
async fn prepare(hub: &Cluster, dir: &Path) -> Server {
    link_programs(dir);
    link(&crate::kube::helm::program(), dir, "bin/helm");
    std::fs::create_dir(dir.join("laptop")).unwrap();
    std::fs::create_dir(dir.join("tests")).unwrap();
    for name in ["examples", "tests/published"] {
        link(&Path::new(ROOT).join(name), dir, name);
    }
    // A page turns the copy into a git repository.
    let copied = Command::new("cp").arg("-r").arg(format!("{ROOT}/examples-repo")).arg(dir).status();
    assert!(copied.unwrap().success());
    for name in ["allowed_signers", "alice.asc", "app.pem"] {
        std::fs::write(dir.join(name), "").unwrap();
    }
    std::fs::write(dir.join("settings.yaml"), SETTINGS).unwrap();
    let inputs = blocks("docs/simulate.md").into_iter().filter(|block| block.language == "yaml");
    for (name, input) in ["fleet.yaml", "outcomes.yaml", "strategy.yaml"].into_iter().zip(inputs) {
        std::fs::write(dir.join(name), input.text).unwrap();
    }
    let cluster = crate::cli::server(api::crds::spoke().iter().map(Object::from_typed).collect()).await;
    std::fs::write(dir.join("cluster.kubeconfig"), cluster.admin_kubeconfig_yaml().unwrap()).unwrap();
    std::fs::copy(&hub.kubeconfig, dir.join("hub.kubeconfig")).unwrap();
    let kubectl = hub.kubectl();
    kubectl.install(api::crds::hub().into_iter());
    join(&kubectl);
    cluster
}

/// Creates two joined clusters, or marks existing ones as joined.
fn join(kubectl: &Kubectl) {
    let clusters = ["aws-1", "aws-2"].map(|name| {
        json!({"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": {"name": name}, "spec": {"hubAcceptsClient": true}})
        .to_string()
    });
    kubectl.run_with(&["apply", "-f", "-"], &clusters.join("\n"));
    let conditions = ["ManagedClusterJoined", "ManagedClusterConditionAvailable"].map(|name| {
        json!({"type": name, "status": "True", "reason": "Test", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"})
    });
    let status = json!({"status": {"conditions": conditions}}).to_string();
    let patch = ["--subresource=status", "--type=merge", "-p", &status];
    kubectl.run(&[&["patch", "managedcluster", "aws-1", "aws-2"], &patch[..]].concat());
}

/// Prepares what the later pages assume: an add-on whose rollout stopped, and Deployments with OCM's names.
async fn prepare_fleet(hub: &Cluster) {
    let kubectl = hub.kubectl();
    kubectl.run(&["delete", "managedcluster", "aws-1", "aws-2"]);
    let stopped = Path::new(ROOT).join("tests/golden/explain/rollout.yaml");
    crate::rollout::load(&hub.client().await, &stopped).await;
    join(&kubectl);
    let waits = json!({"metadata": {"finalizers": [ADDON_PRE_DELETE]}}).to_string();
    kubectl.run(&[
        "patch",
        "managedclusteraddon",
        "managed-serviceaccount",
        "-n",
        "aws-3",
        "--type=merge",
        "-p",
        &waits,
    ]);
    kubectl.run(&["create", "namespace", "open-cluster-management-hub"]);
    kubectl.run(&["create", "namespace", "argocd"]);
    kubectl.run(&["create", "configmap", "argocd-cm", "-n", "argocd"]);
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

/// Returns a bash command that runs a block as a reader of the pages would, in a directory below `dir`.
fn bash(hub: &Cluster, dir: &Path, below: &str, script: &str) -> Command {
    let mut command = Command::new("bash");
    command.args(["-euo", "pipefail", "-c", script]).current_dir(dir.join(below));
    command.env("PATH", format!("{}:{}", dir.join("bin").display(), std::env::var("PATH").unwrap()));
    command.env("KUBECONFIG", &hub.kubeconfig).env("HOME", dir).env("TOKEN", "token-of-a-git-server");
    command
}

/// Runs a block in a directory below `dir`; returns true if it succeeds, and its output.
fn outcome(hub: &Cluster, dir: &Path, below: &str, block: &Block) -> (bool, String) {
    let script = format!("{PLANS_OF_CHANGES_SUCCEED}\n{}", block.text);
    // Do not use a timeout for commands that run until they are killed: they would outlive it.
    let limited = r#"exec timeout 180 bash -euo pipefail -c "$SCRIPT""#;
    let output = bash(hub, dir, below, limited).env("SCRIPT", script).output().unwrap();
    let printed =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.success(), printed)
}

/// Runs a block like [`outcome`] and fails the test if the block fails.
pub(crate) fn run(hub: &Cluster, dir: &Path, below: &str, block: &Block) {
    let (succeeds, printed) = outcome(hub, dir, below, block);
    assert!(succeeds, "{}:\n{}\n{printed}", block.page, block.text);
}

/// Starts a command that runs until it is stopped, and waits until it prints a text.
async fn start(hub: &Cluster, dir: &Path, below: &str, block: &Block, says: &str) -> Running {
    let name = format!("{} {}", block.page, block.text).replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let mut process =
        Running::spawn(&mut bash(hub, dir, below, &format!("exec {}", block.text)), &name, dir, dir);
    let log = dir.join(format!("{name}.log"));
    eventually("the command works", async || {
        assert!(process.is_running(), "{}:\n{}", block.page, block.text);
        std::fs::read_to_string(&log).unwrap().contains(says)
    })
    .await;
    process
}

#[test]
fn every_controller_changes_sides_in_a_row_of_its_guide() {
    let page = std::fs::read_to_string(format!("{ROOT}/docs/from-ocm.md")).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| `cluster-manager-"));
    let mut named: Vec<&str> = rows.flat_map(|row| row.split('`').skip(3).step_by(2)).collect();
    let begin = page.split_once("\n  --controllers=").unwrap().1.split_whitespace().next().unwrap();
    named.extend(begin.split(','));
    named.sort_unstable();
    let mut known = wheelwright::operator::controller_names();
    known.sort_unstable();
    assert_eq!(named, known);
}

/// Runs the blocks of a page in a directory below `dir`; returns their number.
async fn run_page(hub: &Cluster, dir: &Path, page: &str, below: &str) -> usize {
    if !below.is_empty() {
        std::fs::copy(&hub.kubeconfig, dir.join(below).join("hub.kubeconfig")).unwrap();
    }
    let (mut count, mut running) = (0, Vec::new());
    for block in blocks(page) {
        let is_object =
            block.text.starts_with("apiVersion:") && !block.text.contains("apiVersion: argoproj.io/");
        if block.language == "yaml" && is_object {
            let apply = ["apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", "-"];
            hub.kubectl().run_with(&apply, &block.text);
            count += 1;
        }
        if !block.is_commands() || block.listed(NOT_RUN).is_some() {
            continue;
        }
        match block.listed(UNTIL_STOPPED) {
            Some(says) => running.push((start(hub, dir, below, &block, says).await, block)),
            None => run(hub, dir, below, &block),
        }
        count += 1;
    }
    for (mut process, block) in running {
        assert!(process.is_running(), "{page}:\n{}", block.text);
    }
    count
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_and_objects_of_the_pages_work_on_a_hub() {
    let hub = Cluster::start("docs").await;
    let dir = tempfile::tempdir().unwrap();
    let _cluster = prepare(&hub, dir.path()).await;
    let pods = tokio::spawn(run_pods(hub.client().await));
    let mut count = 0;
    for (page, below) in ON_A_NEW_HUB {
        count += run_page(&hub, dir.path(), page, below).await;
    }
    prepare_fleet(&hub).await;
    for (page, below) in ON_A_HUB_WITH_A_FLEET {
        count += run_page(&hub, dir.path(), page, below).await;
    }
    pods.abort();
    assert!(count >= 50, "{count} blocks ran");
}
