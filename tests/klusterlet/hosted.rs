//! A hosted agent runs next to the registration operator, on another cluster than the managed one.

use std::collections::BTreeSet;

use api::cluster::v1alpha1::ClusterClaim;
use api::operator::v1::Klusterlet;
use api::work::v1::AppliedManifestWork;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::ListParams;
use kube::config::Kubeconfig;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use wheelwright::apiserver::{Server, ServerOptions};
use wheelwright::shell::now;

use super::pod::{assert_permitted, start_pod};
use super::{IMAGE, becomes, embedded_hub, exists, start_operator};
use crate::addons::hosted_agent;
use crate::drop_in::send_work;
use crate::e2e::run_nodes;
use crate::kube::{Cluster, Directory, Kubectl};
use crate::trace::{accept, client};
use crate::wait::eventually;

fn create_secret(kubectl: &Kubectl, dir: &Directory, name: &str, kubeconfig: &Kubeconfig) {
    std::fs::write(dir.path(name), serde_saphyr::to_string(kubeconfig).unwrap()).unwrap();
    let file = format!("--from-file=kubeconfig={}", dir.path(name).display());
    kubectl.run(&["create", "secret", "generic", name, "-n", "c1", &file]);
}

async fn finalizers(works: &Api<AppliedManifestWork>) -> Vec<String> {
    let all = works.list(&ListParams::default()).await.unwrap().items;
    all.into_iter().flat_map(|work| work.metadata.finalizers.unwrap_or_default()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hosted_agent_keeps_its_secrets_in_its_namespace_and_leaves_its_cluster_with_its_klusterlet() {
    let (dir, stop) = (Directory::new("klusterlet-hosted"), CancellationToken::new());
    let hosting = Cluster::start("klusterlet-hosting").await;
    let hub = embedded_hub(&dir, &stop).await;
    let managed = Server::start(ServerOptions::new(now)).await.unwrap();
    let [bootstrap, of_managed] =
        [&hub, &managed].map(|server| server.kubeconfig("admin", &["system:masters"]).unwrap());
    let (on_hub, on_managed) = (client(&bootstrap).await, client(&of_managed).await);
    let (on_hosting, kubectl) = (hosting.client().await, hosting.kubectl());
    let nodes = run_nodes(on_hosting.clone(), BTreeSet::from([IMAGE.to_owned()]));
    let operator = start_operator(&hosting, &dir, "klusterlet");
    eventually("the kind is served", async || exists(&kubectl, &["klusterlets"])).await;
    let klusterlet = json!({"apiVersion": "operator.open-cluster-management.io/v1", "kind": "Klusterlet",
        "metadata": {"name": "c1"}, "spec": {"clusterName": "c1", "deployOption": {"mode": "Hosted"}}});
    kubectl.run_with(&["create", "-f", "-"], &klusterlet.to_string());

    let klusterlets: Api<Klusterlet> = Api::all(on_hosting.clone());
    becomes(&klusterlets, "ReadyToApply", "False KlusterletPrepareFailed").await;
    eventually("the namespace is made", async || exists(&kubectl, &["namespace", "c1"])).await;
    create_secret(&kubectl, &dir, "external-managed-kubeconfig", &of_managed);
    create_secret(&kubectl, &dir, "bootstrap-hub-kubeconfig", &bootstrap);
    becomes(&klusterlets, "ReadyToApply", "True KlusterletPrepared").await;
    becomes(&klusterlets, "Applied", "True KlusterletApplied").await;

    let registration = start_pod(&hosting, &dir, "c1", "c1-registration-agent");
    accept(&on_hub, "c1").await;
    becomes(&klusterlets, "WorkDesiredDegraded", "False DeploymentsFunctional").await;
    becomes(&klusterlets, "HubConnectionDegraded", "False HubConnectionFunctional").await;
    let work = start_pod(&hosting, &dir, "c1", "c1-work-agent");
    send_work(&on_hub, "one").await;
    let maps: Api<ConfigMap> = Api::namespaced(on_managed.clone(), "default");
    eventually("the work is applied", async || maps.get_opt("one").await.unwrap().is_some()).await;
    let secret_names = |kubectl: &Kubectl| kubectl.run(&["get", "secrets", "-n", "c1", "-o", "name"]);
    eventually("the work is kept", async || secret_names(&kubectl).lines().count() == 4).await;
    assert!(secret_names(&kubectl).contains("secret/hub-kubeconfig-secret"));
    let hub_file = dir.path("hub.kubeconfig");
    std::fs::write(&hub_file, serde_saphyr::to_string(&bootstrap).unwrap()).unwrap();
    let of_hub = Kubectl::new(&hub_file, dir.path("kubectl-home"));
    hosted_agent::register(&of_hub, "c1", "c1");
    hosted_agent::approve(&of_hub, 1).await;
    eventually("an add-on beside its agent has credentials", async || {
        exists(&kubectl, &["secret", hosted_agent::SECRET, "-n", "c1"])
    })
    .await;
    let addon = || {
        let addon = of_hub.run(&["get", "managedclusteraddon", "helper", "-n", "c1", "-o", "json"]);
        serde_json::from_str(&addon).unwrap()
    };
    eventually("its lease is looked for", async || {
        hosted_agent::message(&addon(), "Available").contains("No lease found on hosting cluster")
    })
    .await;
    let secrets = Api::<Secret>::all(on_managed.clone()).list(&ListParams::default()).await.unwrap().items;
    assert!(secrets.is_empty(), "the managed cluster has no secret: {secrets:?}");
    for kind in ["clusterroles", "clusterrolebindings"] {
        let all = kubectl.run(&["get", kind, "-o", "name"]);
        assert!(!all.contains("c1-"), "the agent may nothing on the whole hosting cluster: {all}");
    }
    for (pod, name) in [(registration, "c1-registration-agent"), (work, "c1-work-agent")] {
        assert_permitted(&dir, name);
        pod.kill_9();
    }

    kubectl.run(&["delete", "klusterlet", "c1", "--wait=false"]);
    let applied: Api<AppliedManifestWork> = Api::all(on_managed.clone());
    eventually("a pod is to leave the cluster", async || {
        exists(&kubectl, &["deployment", "c1-cleanup", "-n", "c1"])
    })
    .await;
    let left = ["get", "deployments", "-n", "c1", "-o", "name"];
    assert_eq!(kubectl.run(&left).trim(), "deployment.apps/c1-cleanup", "the agent has ended before");
    assert_eq!(finalizers(&applied).await.len(), 1);
    let cleanup = start_pod(&hosting, &dir, "c1", "c1-cleanup");
    eventually("the Klusterlet goes", async || !exists(&kubectl, &["klusterlet", "c1"])).await;
    assert_eq!(finalizers(&applied).await, [""; 0], "nobody is left who would remove a finalizer");
    let claims: Api<ClusterClaim> = Api::all(on_managed);
    let left = claims.list(&ListParams::default()).await.unwrap().items;
    assert!(left.is_empty(), "another agent may have the cluster: {left:?}");
    assert!(maps.get_opt("one").await.unwrap().is_some(), "the objects of works stay");
    eventually("the namespace goes", async || !exists(&kubectl, &["namespace", "c1"])).await;
    let log = std::fs::read_to_string(dir.path("registration-operator.log")).unwrap();
    assert!(!log.contains(" WARN "), "{log}");
    cleanup.kill_9();
    drop(operator);
    nodes.abort();
    stop.cancel();
}
