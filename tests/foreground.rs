//! Foreground deletion of an add-on, as by Argo CD, on an API server with the Kubernetes garbage collector.

use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::crds;
use api::names::ADD_ONS_OWNED_ANNOTATION;
use kube::Api;
use kube::api::ListParams;
use object::{Metadata as _, Object};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use wheelwright::apiserver::ADMISSION_POLICIES;
use wheelwright::operator::{self, OperatorOptions};

use crate::kube as real;
use crate::trace::apply;
use crate::wait::eventually;

const ADD_ON: &str = "tool";

fn objects() -> Vec<Value> {
    let group = "cluster.open-cluster-management.io";
    let cluster = |name: &str| {
        json!({"apiVersion": format!("{group}/v1"), "kind": "ManagedCluster", "metadata": {"name": name},
            "spec": {"hubAcceptsClient": true}})
    };
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fleet"}}),
        json!({"apiVersion": format!("{group}/v1beta2"), "kind": "ManagedClusterSetBinding",
            "metadata": {"name": "global", "namespace": "fleet"}, "spec": {"clusterSet": "global"}}),
        json!({"apiVersion": format!("{group}/v1beta1"), "kind": "Placement",
            "metadata": {"name": "all", "namespace": "fleet"}, "spec": {"tolerations": [{"operator": "Exists"}]}}),
        cluster("c1"),
        cluster("c2"),
        json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ClusterManagementAddOn",
            "metadata": {"name": ADD_ON}, "spec": {
                "installStrategy": {"type": "Placements", "placements": [{"namespace": "fleet", "name": "all"}]}}}),
    ]
}

/// Installs the admission policy for ClusterManagementAddOns and waits until it is in force.
async fn refuse_foreground(kubectl: &real::Kubectl) {
    let policy = "name: wheelwright-clustermanagementaddons\n";
    let documents = ADMISSION_POLICIES.split("\n---\n").filter(|document| document.contains(policy));
    kubectl.run_with(&["apply", "-f", "-"], &documents.collect::<Vec<_>>().join("\n---\n"));
    let probe = "apiVersion: addon.open-cluster-management.io/v1alpha1\nkind: ClusterManagementAddOn\n\
        metadata: {name: probe, finalizers: [gitops.wheelwright.dev/addon-removal]}\nspec: {}\n";
    kubectl.run_with(&["apply", "-f", "-"], probe);
    let delete = [
        "delete",
        "clustermanagementaddon",
        "probe",
        "--cascade=foreground",
        "--dry-run=server",
        "--wait=false",
    ];
    eventually("the policy is in force", async || {
        let output = kubectl.command(&delete).output().unwrap();
        String::from_utf8_lossy(&output.stderr).contains("its clusters do not own their add-ons yet")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_addon_that_is_deleted_in_the_foreground_waits_for_an_approval_on_a_real_hub() {
    let cluster = real::Cluster::start("foreground").await;
    let (kubectl, hub) = (cluster.kubectl(), cluster.client().await);
    kubectl.install(crds::hub().into_iter());
    refuse_foreground(&kubectl).await;
    let (stop, cache) = (CancellationToken::new(), tempfile::tempdir().unwrap());
    let operator = tokio::spawn(operator::run(OperatorOptions::new(hub.clone(), cache.path()), stop.clone()));
    for object in objects() {
        apply(&hub, &Object::from_value(object).unwrap()).await;
    }
    let cmas: Api<ClusterManagementAddOn> = Api::all(hub.clone());
    let add_ons: Api<ManagedClusterAddOn> = Api::all(hub.clone());
    let named = ListParams::default().fields(&format!("metadata.name={ADD_ON}"));
    let list = async || add_ons.list(&named).await.unwrap().items;
    eventually("the clusters own the add-on", async || {
        let cma = cmas.get(ADD_ON).await.unwrap();
        list().await.len() == 2 && cma.annotation(ADD_ONS_OWNED_ANNOTATION) == Some("true")
    })
    .await;

    kubectl.run(&["delete", "clustermanagementaddon", ADD_ON, "--cascade=foreground", "--wait=false"]);
    eventually("the garbage collector has done its part", async || {
        let cma = cmas.get(ADD_ON).await.unwrap();
        assert!(cma.is_terminating());
        !cma.has_finalizer("foregroundDeletion")
    })
    .await;
    let left = list().await;
    assert!(left.len() == 2 && left.iter().all(|add_on| !add_on.is_terminating()), "{left:?}");

    let mut approve = tokio::process::Command::new(env!("CARGO_BIN_EXE_wheelwright"));
    approve.args(["rollout", "approve", ADD_ON, "--kubeconfig"]).arg(&cluster.kubeconfig);
    eventually("a person approves", async || approve.output().await.unwrap().status.success()).await;
    eventually("the add-on is gone", async || {
        list().await.is_empty() && cmas.get_opt(ADD_ON).await.unwrap().is_none()
    })
    .await;
    stop.cancel();
    operator.abort();
}
