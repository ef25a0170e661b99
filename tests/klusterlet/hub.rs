//! ClusterManagers: our hub side takes over from OCM's registration operator.

use std::collections::BTreeSet;
use std::process::Command;

use api::condition::Conditions as _;
use api::crds;
use api::operator::v1::ClusterManager;
use kube::Api;
use serde_json::{Value, json};

use super::{exists, start_operator, takes_example};
use crate::e2e::run_nodes;
use crate::kube::{Cluster, Directory};
use crate::wait::eventually;

const NAMESPACE: &str = "open-cluster-management-hub";
const IMAGE: &str = "registry.example.com/wheelwright:1";
const THEIRS: &str = "quay.io/open-cluster-management/registration:v1";

/// Returns a ClusterManager as OCM's operator leaves it, with the defaults of OCM's CRD.
fn left() -> Value {
    let gates = json!([{"feature": "ManagedClusterAutoApproval", "mode": "Enable"}, {"feature": "Nothing", "mode": "Enable"}]);
    json!({"apiVersion": "operator.open-cluster-management.io/v1", "kind": "ClusterManager",
    "metadata": {
        "name": "cluster-manager", "annotations": {"gitops.wheelwright.dev/image": IMAGE},
        "finalizers": ["operator.open-cluster-management.io/cluster-manager-cleanup"],
    },
    "spec": {
        "registrationImagePullSpec": THEIRS, "deployOption": {"mode": "Default"}, "workConfiguration": {"workDriver": "kube"},
        "nodePlacement": {"nodeSelector": {"infra": "true"}},
        "registrationConfiguration": {"autoApproveUsers": ["someone"], "featureGates": gates},
    }})
}

/// Returns a part of OCM's hub side: a Deployment and a webhook that it serves.
fn theirs() -> [Value; 2] {
    let labels = json!({"app": "clustermanager-registration-controller"});
    let container = json!({"name": "hub", "image": THEIRS});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "cluster-manager-registration-controller", "namespace": NAMESPACE},
        "spec": {"selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}}});
    let rule = json!({"apiGroups": ["cluster.open-cluster-management.io"], "apiVersions": ["*"], "operations": ["*"],
        "resources": ["managedclusters"]});
    let webhook = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "managedclustervalidators.admission.cluster.open-cluster-management.io"},
        "webhooks": [{"name": "managedclustervalidators.admission.cluster.open-cluster-management.io",
            "rules": [rule], "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": {"service": {"name": "cluster-manager-registration-webhook", "namespace": NAMESPACE}}}]});
    [deployment, webhook]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_manager_installs_the_hub_side_in_the_place_of_ocms_and_the_fleet_stays_when_it_goes() {
    let dir = Directory::new("cluster-manager");
    let hub = Cluster::start("cluster-manager-hub").await;
    let (on_hub, kubectl) = (hub.client().await, hub.kubectl());
    kubectl.install(crds::operator().into_iter().chain(crds::hub()));
    kubectl.run(&["create", "namespace", NAMESPACE]);
    for object in theirs() {
        kubectl
            .run_with(&["create", "--field-manager=registration-operator", "-f", "-"], &object.to_string());
    }
    let service = json!({"name": "cluster-manager-addon-webhook", "namespace": NAMESPACE});
    let webhook = json!({"conversionReviewVersions": ["v1"], "clientConfig": {"service": service}});
    let conversion = json!({"spec": {"conversion": {"strategy": "Webhook", "webhook": webhook}}}).to_string();
    let definition = ["crd", "managedclusteraddons.addon.open-cluster-management.io"];
    kubectl.run(&[&["patch"], &definition[..], &["--type=merge", "-p", &conversion]].concat());
    kubectl.run_with(&["create", "-f", "-"], &left().to_string());
    let cluster = json!({"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster", "metadata": {"name": "c1"}});
    eventually("the webhook of OCM's hub side, which nobody serves, refuses every write", async || {
        let create = kubectl.output_with(&["create", "--dry-run=server", "-f", "-"], &cluster.to_string());
        !create.status.success()
    })
    .await;

    let operator = start_operator(&hub, &dir, "hub");
    let managers: Api<ClusterManager> = Api::all(on_hub.clone());
    let becomes = async |type_: &str, wanted: &str| {
        eventually(&format!("{type_} {wanted}"), async || {
            let found = managers.get("cluster-manager").await.unwrap();
            found.condition(type_).is_some_and(|one| format!("{} {}", one.status, one.reason) == wanted)
        })
        .await;
    };
    becomes("Applied", "False RuntimeResourceApplyFailed").await;
    let ours = ["deployment", "wheelwright-operator", "-n", NAMESPACE];
    assert!(!exists(&kubectl, &ours), "ours does not start before theirs has ended");
    let nodes = run_nodes(on_hub, BTreeSet::from([IMAGE, THEIRS].map(str::to_owned)));
    becomes("Applied", "True ClusterManagerApplied").await;
    becomes("Progressing", "False ClusterManagerUpToDate").await;
    takes_example(&kubectl, "cluster-manager.yaml");
    becomes("HubRegistrationDegraded", "False RegistrationFunctional").await;
    becomes("HubPlacementDegraded", "False PlacementFunctional").await;
    becomes("ValidFeatureGates", "False InvalidFeatureGatesExisting").await;
    becomes("FieldsIgnored", "True FieldsWithoutEffect").await;
    assert!(!exists(&kubectl, &["deployment", "cluster-manager-registration-controller", "-n", NAMESPACE]));
    kubectl.run_with(&["create", "-f", "-"], &cluster.to_string());
    let path = "jsonpath={.spec.conversion.webhook.clientConfig.service.name}";
    let converted_by = kubectl.run(&[&["get", "-o", path], &definition[..]].concat());
    assert_eq!(converted_by, "wheelwright-webhook", "nobody serves OCM's any more");
    let deployment: Value =
        serde_json::from_str(&kubectl.run(&[&["get", "-o", "json"], &ours[..]].concat())).unwrap();
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["containers"][0]["image"], IMAGE);
    assert_eq!(pod["containers"][0]["args"][0], "operator");
    assert_eq!(pod["nodeSelector"], json!({"infra": "true"}));
    let binding = ["clusterrolebinding", "wheelwright:auto-approved-bootstrap"];
    assert!(kubectl.run(&[&["get", "-o", "yaml"], &binding[..]].concat()).contains("someone"));
    kubectl.run(&["get", "validatingadmissionpolicy", "wheelwright-managedclusters"]);

    let newer = "registry.example.com/wheelwright:2";
    let image = format!("gitops.wheelwright.dev/image={newer}");
    kubectl.run(&["annotate", "--overwrite", "clustermanager", "cluster-manager", &image]);
    let gates = json!({"spec": {"registrationConfiguration": {"featureGates": []}}}).to_string();
    kubectl.run(&["patch", "clustermanager", "cluster-manager", "--type=merge", "-p", &gates]);
    let path = "jsonpath={.spec.template.spec.containers[0].image}";
    eventually("the image changes", async || {
        kubectl.run(&[&["get", "-o", path], &ours[..]].concat()) == newer
    })
    .await;
    eventually("nobody joins by himself any more", async || !exists(&kubectl, &binding)).await;

    kubectl.run(&["delete", "clustermanager", "cluster-manager", "--timeout=60s"]);
    assert!(!exists(&kubectl, &ours));
    for gone in ["clusterrole/wheelwright-operator", "validatingadmissionpolicy/wheelwright-managedclusters"]
    {
        assert!(!exists(&kubectl, &[gone]), "{gone}");
    }
    kubectl.run(&["get", "managedcluster", "c1"]);
    let log = std::fs::read_to_string(dir.path("registration-operator.log")).unwrap();
    assert!(!log.contains(" WARN "), "{log}");
    drop(operator);
    nodes.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_side_is_uninstalled_when_its_cluster_manager_gets_another_operator() {
    const KINDS: &str = "deployments,serviceaccounts,services,networkpolicies,roles,rolebindings,\
        clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings";
    let dir = Directory::new("cluster-manager-back");
    let hub = Cluster::start("cluster-manager-back").await;
    let kubectl = hub.kubectl();
    kubectl.install(crds::operator().into_iter());
    kubectl.run_with(&["create", "-f", "-"], &left().to_string());
    let operator = start_operator(&hub, &dir, "hub");
    let ours = ["deployment", "wheelwright-operator", "-n", NAMESPACE];
    eventually("the hub side is installed", async || exists(&kubectl, &ours)).await;
    drop(operator);

    let uninstall = |more: &[&str]| {
        let kubeconfig = ["--kubeconfig", hub.kubeconfig.to_str().unwrap()];
        let mut command = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
        let output = command.arg("uninstall").args(more).args(kubeconfig).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(uninstall(&[]).starts_with("nothing is installed\n"), "that is of another namespace");
    assert!(exists(&kubectl, &ours));
    let printed = uninstall(&["--namespace", NAMESPACE]);
    let deleted = "Deployment.apps open-cluster-management-hub/wheelwright-operator deleted\n";
    assert!(printed.contains(deleted), "{printed}");
    let owner = "app.kubernetes.io/managed-by=wheelwright-registration-operator";
    eventually("its objects are gone", async || {
        kubectl.run(&["get", KINDS, "-A", "-l", owner, "-o", "name"]).is_empty()
    })
    .await;
    let finalizers = "jsonpath={.metadata.deletionTimestamp}{.metadata.finalizers[*]}";
    let manager = kubectl.run(&["get", "clustermanager", "cluster-manager", "-o", finalizers]);
    assert_eq!(manager, "operator.open-cluster-management.io/cluster-manager-cleanup", "it stays");
    kubectl.run(&["get", "crd", "managedclusters.cluster.open-cluster-management.io"]);
}
