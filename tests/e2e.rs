//! The operator and two agents as processes, on three real API servers: from a commit to the status commit,
//! through `kill -9`.

mod repository;

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use object::Object;
use serde_json::{Value, json};
use sim::workload;

pub(crate) use self::repository::Repository;
use crate::kube::{Cluster, Kubectl};
use crate::running::Running;
use crate::wait::eventually;

const POLL: Duration = Duration::from_millis(100);
const AGENT_IMAGE: &str = "quay.io/open-cluster-management/managed-serviceaccount";

/// Simulates the nodes of a spoke: pods with known images become ready after a while.
pub(crate) fn run_nodes(spoke: kube::Client, images: BTreeSet<String>) -> tokio::task::JoinHandle<()> {
    let world = workload::Environment { images, ready_after: SignedDuration::from_secs(1), nodes: 1 };
    tokio::spawn(async move {
        loop {
            let all: Api<Deployment> = Api::all(spoke.clone());
            for deployment in
                all.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default()
            {
                let object = Object::from_typed(&deployment);
                let api: Api<Deployment> = Api::namespaced(spoke.clone(), object.namespace());
                let step = workload::step(&object, &world, jiff::Timestamp::now());
                if let Some(metadata) = step.metadata {
                    let _ = api
                        .patch(
                            object.name(),
                            &PatchParams::default(),
                            &Patch::Merge(json!({"metadata": metadata})),
                        )
                        .await;
                }
                if let Some(status) = step.status {
                    let _ = api
                        .patch_status(
                            object.name(),
                            &PatchParams::default(),
                            &Patch::Merge(json!({"status": status})),
                        )
                        .await;
                }
            }
            tokio::time::sleep(POLL).await;
        }
    })
}

fn apply_file(kubectl: &Kubectl, file: &str) {
    kubectl.run(&["apply", "--server-side", "-f", &format!("{}/{file}", env!("CARGO_MANIFEST_DIR"))]);
}

/// Prepares a hub as its administrator would.
pub(crate) fn prepare_hub(hub: &Cluster) {
    let kubectl = hub.kubectl();
    let crds = Command::new(env!("CARGO_BIN_EXE_wheelwright")).arg("crds").output().unwrap();
    kubectl.run_with(&["apply", "--server-side", "-f", "-"], &String::from_utf8(crds.stdout).unwrap());
    apply_file(&kubectl, "charts/wheelwright/templates/clusterrole.yaml");
    apply_file(&kubectl, "charts/wheelwright/templates/bootstrap.yaml");
    kubectl.run(&[
        "create",
        "clusterrolebinding",
        "operator",
        "--clusterrole=wheelwright-operator",
        "--user=operator",
    ]);
    // The chart's Role for leader election.
    kubectl.run(&["create", "namespace", "wheelwright-system"]);
    let lease = ["--resource=leases", "--resource-name=wheelwright-operator"];
    let role = ["create", "role", "election", "-n", "wheelwright-system", "--verb=update,patch"];
    kubectl.run(&[&role[..], &lease].concat());
    let binding = ["create", "rolebinding", "election", "-n", "wheelwright-system"];
    kubectl.run(&[&binding[..], &["--role=election", "--user=operator"]].concat());
    // The tests commit ConfigMaps, which the chart's `extraRules` allow.
    kubectl.run(&[
        "create",
        "clusterrole",
        "extra",
        "--verb=get,list,watch,create,patch,delete",
        "--resource=configmaps",
    ]);
    // The operator binds an add-on's role to agents, which the chart's `addonRoles` allow.
    kubectl.run(&[
        "create",
        "clusterrole",
        "addon-role",
        "--verb=bind",
        "--resource=clusterroles",
        "--resource-name=managed-serviceaccount-addon-agent",
    ]);
    kubectl.run(&[
        "create",
        "clusterrolebinding",
        "addon-role",
        "--clusterrole=addon-role",
        "--user=operator",
    ]);
    kubectl.run(&["create", "clusterrolebinding", "extra", "--clusterrole=extra", "--user=operator"]);
}

/// Runs the unmodified commands from OCM's documentation.
pub(crate) async fn accept(kubectl: &Kubectl, cluster: &str) {
    let label = format!("open-cluster-management.io/cluster-name={cluster}");
    eventually("the cluster asks to join", async || {
        kubectl.command(&["get", "managedcluster", cluster]).output().unwrap().status.success()
            && !kubectl.run(&["get", "csr", "-l", &label, "-o", "name"]).is_empty()
    })
    .await;
    kubectl.run(&["label", "managedcluster", cluster, "cloud=aws"]);
    kubectl.run(&[
        "patch",
        "managedcluster",
        cluster,
        "--type=merge",
        "-p",
        r#"{"spec":{"hubAcceptsClient":true}}"#,
    ]);
    let request = kubectl.run(&["get", "csr", "-l", &label, "-o", "name"]);
    kubectl.run(&[
        "certificate",
        "approve",
        request.lines().next().unwrap().trim_start_matches("certificatesigningrequest.certificates.k8s.io/"),
    ]);
}

/// Returns the image that each spoke runs, if its Deployment is available.
pub(crate) async fn running(spokes: &[kube::Client]) -> Vec<Option<String>> {
    let mut images = Vec::new();
    for spoke in spokes {
        let api: Api<Deployment> =
            Api::namespaced(spoke.clone(), "open-cluster-management-managed-serviceaccount");
        let deployment = api
            .get_opt("managed-serviceaccount-addon-agent")
            .await
            .ok()
            .flatten()
            .map(|found| Object::from_typed(&found));
        let image = |d: &Object| {
            d.at(&["spec", "template", "spec", "containers"])?
                .get(0)?
                .get("image")?
                .as_str()
                .map(str::to_owned)
        };
        let ready = |d: &Object| d.at(&["status", "updatedReplicas"]).and_then(Value::as_i64) == Some(1);
        images.push(deployment.filter(ready).as_ref().and_then(image));
    }
    images
}

pub(crate) fn image(tag: &str) -> Option<String> {
    Some(format!("{AGENT_IMAGE}:{tag}"))
}

/// The images of both versions of the add-on, and of a work.
pub(crate) fn images() -> BTreeSet<String> {
    ["v0.9.0", "v0.10.0"].into_iter().filter_map(image).chain(["registry.k8s.io/pause".into()]).collect()
}

/// Checks that an add-on with its own manager gets credentials on its cluster once the manager approves them, and
/// loses them when the add-on is deleted.
async fn credentials_come_and_go(kubectl: &Kubectl, spoke: &kube::Client) {
    let of_cluster = "system:open-cluster-management:cluster:aws-2:addon:helper";
    let groups = [of_cluster, "system:open-cluster-management:addon:helper"];
    let subject = json!({ "user": format!("{of_cluster}:agent:helper-agent"), "groups": groups });
    let registration = json!({ "signerName": "kubernetes.io/kube-apiserver-client", "subject": subject });
    let status = json!({ "status": { "registrations": [registration] } }).to_string();
    let addon = ["managedclusteraddon", "helper", "-n", "aws-2"];
    let kind = json!({
        "apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ManagedClusterAddOn",
        "metadata": { "name": "helper", "namespace": "aws-2" }, "spec": { "installNamespace": "default" },
    });
    kubectl.run_with(&["apply", "--server-side", "-f", "-"], &kind.to_string());
    let patch = ["patch", "--subresource=status", "--type=merge", "-p", &status];
    kubectl.run(&[&patch[..1], &addon, &patch[1..]].concat());
    let requests = ["get", "csr", "-l", "open-cluster-management.io/addon-name=helper"];
    let request = || kubectl.run(&[&requests[..], &["-o", "jsonpath={.items[*].metadata.name}"]].concat());
    eventually("the agent asks for a certificate", async || !request().is_empty()).await;
    kubectl.run(&["certificate", "approve", request().trim()]);
    let secrets: Api<Secret> = Api::namespaced(spoke.clone(), "default");
    eventually("the add-on has credentials", async || {
        secrets.get_opt("helper-hub-kubeconfig").await.is_ok_and(|found| found.is_some())
    })
    .await;
    eventually("the hub has the report", async || {
        kubectl.run(&[&["get"][..], &addon, &["-o", "yaml"]].concat()).contains("ClientCertificateUpdated")
    })
    .await;
    kubectl.run(&[&["delete"][..], &addon].concat());
    eventually("the credentials are gone", async || {
        secrets.get_opt("helper-hub-kubeconfig").await.is_ok_and(|found| found.is_none())
    })
    .await;
}

#[tokio::test]
async fn a_commit_reaches_the_spokes_and_comes_back_as_a_report_through_kill_9() {
    let mut clusters = Cluster::start_all(&["hub", "aws-1", "aws-2"]).await;
    let dir = tempfile::tempdir().unwrap();
    let mut spokes = clusters.split_off(1);
    let mut hub = clusters.remove(0);
    let kubectl = hub.kubectl();
    prepare_hub(&hub);
    let mut repository = Repository::create(dir.path());
    repository.commit("0.9.0");

    let operator_kubeconfig = hub.kubeconfig_for("operator", &[]);
    let repo = repository.path.to_str().unwrap().to_owned();
    let start_operator = || {
        Running::start(
            "operator",
            dir.path(),
            &[
                "operator",
                // Nothing restarts an operator that exits because the API server was unavailable.
                "--leader-elect=false",
                "--kubeconfig",
                operator_kubeconfig.to_str().unwrap(),
                "--local-repositories",
                "--repo",
                &repo,
                "--path",
                "overlays/prod",
                "--report-branch",
                "status",
            ],
        )
    };
    let operator = start_operator();
    let bootstrap = hub.kubeconfig_for("bootstrap", &["system:bootstrappers:managedcluster"]);
    let mut agents = Vec::new();
    for (name, spoke) in ["aws-1", "aws-2"].iter().zip(&spokes) {
        let args = [
            "agent",
            "--hub-kubeconfig",
            bootstrap.to_str().unwrap(),
            "--spoke-kubeconfig",
            spoke.kubeconfig.to_str().unwrap(),
            "--spoke-cluster-name",
            name,
        ];
        agents.push(Running::start(name, dir.path(), &args));
        accept(&kubectl, name).await;
    }
    kubectl.run(&["label", "managedcluster", "aws-1", "canary=true"]);
    let spoke_clients = [spokes[0].client().await, spokes[1].client().await];
    let nodes: Vec<_> = spoke_clients.iter().cloned().map(|spoke| run_nodes(spoke, images())).collect();
    eventually("0.9.0 runs on both", async || {
        running(&spoke_clients).await == [image("v0.9.0"), image("v0.9.0")]
    })
    .await;
    eventually("a report about it", async || repository.summary().is_some()).await;

    // Kill the operator while the canary has the new version and the other cluster does not.
    repository.edit("overlays/prod/patches/version.yaml", "0.9.0", "0.10.0");
    let commit = repository.commit("0.10.0");
    eventually("0.10.0 has begun on the canary", async || {
        kubectl
            .run(&["get", "manifestworks", "-n", "aws-1", "-o", "yaml"])
            .contains("managed-serviceaccount:v0.10.0")
    })
    .await;
    operator.kill_9();
    assert!(
        !kubectl
            .run(&["get", "manifestworks", "-n", "aws-2", "-o", "yaml"])
            .contains("managed-serviceaccount:v0.10.0")
    );
    let operator = start_operator();
    eventually("0.10.0 runs on both", async || {
        running(&spoke_clients).await == [image("v0.10.0"), image("v0.10.0")]
    })
    .await;
    eventually("a report about it", async || {
        repository.summary().is_some_and(|summary| summary.contains(&commit))
    })
    .await;

    // Kill the API servers of the hub and a spoke during a rollout.
    repository.edit("overlays/prod/patches/version.yaml", "0.10.0", "0.9.0");
    hub.kill_apiserver();
    spokes[1].kill_apiserver();
    let commit = repository.commit("back to 0.9.0");
    spokes[1].restart_apiserver().await;
    hub.restart_apiserver().await;
    eventually("0.9.0 runs on both again", async || {
        running(&spoke_clients).await == [image("v0.9.0"), image("v0.9.0")]
    })
    .await;
    eventually("a report about it", async || {
        repository.summary().is_some_and(|summary| summary.contains(&commit))
    })
    .await;
    credentials_come_and_go(&kubectl, &spoke_clients[1]).await;
    nodes.iter().for_each(tokio::task::JoinHandle::abort);
    drop((operator, agents));
}
