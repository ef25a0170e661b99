//! The main journey on other versions of Kubernetes than the pinned one: install, join, a commit, the next commit
//! and its report, on an API server with the admission policies.

use std::path::PathBuf;
use std::process::Command;

use crate::e2e::{Repository, accept, image, images, run_nodes, running};
use crate::klusterlet::pod::{account_kubeconfig, start_operator};
use crate::kube::{Cluster, Version, built, free_port, helm};
use crate::running::Running;
use crate::wait::eventually;

/// The oldest version that the pinned programs can emulate.
#[tokio::test]
async fn a_commit_reaches_a_cluster_that_emulates_kubernetes_1_33() {
    let version = Version::Emulated("1.33");
    let hub = a_commit_reaches_a_cluster(&version).await;
    let served = hub.kubectl().run(&["get", "--raw", "/version"]);
    assert!(served.contains(r#""emulationMinor": "33""#), "{served}");
}

/// `make neighbors` builds the programs.
#[tokio::test]
#[ignore = "building them takes ten minutes of a core for each version; make neighbors runs it"]
async fn a_commit_reaches_clusters_of_the_oldest_version_and_of_one_in_between() {
    for (script, version) in [("tests/kube/1.30/build", "v1.30."), ("tests/kube/1.33/build", "v1.33.")] {
        let hub = a_commit_reaches_a_cluster(&Version::Built(built(script))).await;
        let served = hub.kubectl().run(&["get", "--raw", "/version"]);
        assert!(served.contains(&format!(r#""gitVersion": "{version}"#)), "{served}");
    }
}

/// Runs the journey on a hub and a spoke of a version. Returns the hub.
async fn a_commit_reaches_a_cluster(version: &Version) -> Cluster {
    let mut clusters = Cluster::start_all_of(&["versions-hub", "versions-spoke"], version).await;
    let (spoke, hub) = (clusters.pop().unwrap(), clusters.pop().unwrap());
    let (dir, kubectl) = (tempfile::tempdir().unwrap(), hub.kubectl());
    let mut repository = Repository::create(dir.path());
    repository.commit("0.9.0");
    let wheelwright = |line: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
        let output = command.args(line.split(' ')).arg("--kubeconfig").arg(&hub.kubeconfig).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {error}");
        String::from_utf8(output.stdout).unwrap()
    };

    wheelwright("install --wait 0 --addon-roles managed-serviceaccount-addon-agent");
    let name = r#"{"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster", "metadata": {"name": "kube-system"}}"#;
    eventually("the admission policies are in force", async || {
        let refused = kubectl.output_with(&["create", "--dry-run=server", "-f", "-"], name);
        String::from_utf8_lossy(&refused.stderr).contains("ValidatingAdmissionPolicy")
    })
    .await;
    let _operator = start_installed(&hub, dir.path().to_owned(), &repository);
    let bootstrap = dir.path().join("bootstrap");
    std::fs::write(&bootstrap, wheelwright("get token --output kubeconfig")).unwrap();
    let spoke_kubeconfig = spoke.kubeconfig.to_str().unwrap();
    let args =
        ["agent", "--hub-kubeconfig", bootstrap.to_str().unwrap(), "--spoke-kubeconfig", spoke_kubeconfig];
    let _agent =
        Running::start("agent", dir.path(), &[&args[..], &["--spoke-cluster-name", "aws-1"]].concat());
    accept(&kubectl, "aws-1").await;

    let on_spoke = [spoke.client().await];
    let nodes = run_nodes(on_spoke[0].clone(), images());
    eventually("0.9.0 runs", async || running(&on_spoke).await == [image("v0.9.0")]).await;
    repository.edit("overlays/prod/patches/version.yaml", "0.9.0", "0.10.0");
    let commit = repository.commit("0.10.0");
    eventually("0.10.0 runs", async || running(&on_spoke).await == [image("v0.10.0")]).await;
    eventually("a report about it", async || {
        repository.summary().is_some_and(|summary| summary.contains(&commit))
    })
    .await;
    nodes.abort();
    hub
}

/// Starts the operator with the permissions that `wheelwright install` created.
fn start_installed(hub: &Cluster, dir: PathBuf, repository: &Repository) -> Running {
    let kubeconfig = dir.join("operator.kubeconfig");
    std::fs::write(&kubeconfig, account_kubeconfig(hub, "wheelwright-operator", helm::NAMESPACE)).unwrap();
    let operator = start_operator(&hub.kubectl(), &kubeconfig, &dir, free_port(), &["--local-repositories"]);
    let example = include_str!("../examples-repo/bootstrap/config-repo.yaml");
    let repo =
        example.replace("https://git.example.com/platform/fleet.git", repository.path.to_str().unwrap());
    let documents = format!("{repo}  report: {{branch: status}}\n");
    hub.kubectl().run_with(&["apply", "--server-side", "-f", "-"], &documents);
    operator
}
