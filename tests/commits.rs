//! A commit is applied or rejected as a whole, from the user's view: git, the operator as a process, kubectl and
//! `wheelwright`.

use std::path::Path;
use std::process::Command;

use crate::e2e::Repository;
use crate::kube::{Cluster, Kubectl};
use crate::running::Running;
use crate::sources::Hub;
use crate::wait::eventually;

const SETTINGS: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: default}\ndata:\n  k: one\n";
const AZURE: &str = "apiVersion: cluster.open-cluster-management.io/v1beta2\nkind: ManagedClusterSet\nmetadata: {name: azure}\n";
/// The misspelled field is on line 7.
const MISSPELT: &str = "apiVersion: cluster.open-cluster-management.io/v1beta1\nkind: Placement\nmetadata:\n  name: everywhere\n  \
     namespace: default\nspec:\n  clusterSet: [azure]\n";

fn status(kubeconfig: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
    let output = command.args(["status", "--kubeconfig"]).arg(kubeconfig).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Commits a misspelled field along with other changes, then corrects it.
async fn a_misspelled_field_is_corrected(kubeconfig: &Path, dir: &Path) {
    let kubectl = Kubectl::new(kubeconfig, dir.join("kubectl"));
    let mut repository = Repository::empty(dir);
    repository.write("settings.yaml", SETTINGS);
    let first = repository.commit("one");
    let url = repository.path.to_str().unwrap().to_owned();
    let args =
        ["operator", "--kubeconfig", kubeconfig.to_str().unwrap(), "--local-repositories", "--repo", &url];
    let _operator = Running::start("operator", dir, &args);
    let log = || std::fs::read_to_string(dir.join("operator.log")).unwrap();
    let configrepos = || kubectl.run(&["get", "configrepos", "-A"]);
    let says = async |what: &str| {
        eventually(what, async || configrepos().contains(what)).await;
    };
    says(&format!("1 object of {}", &first[..12])).await;
    let applied = |commit: &str, counts: &str| {
        log().lines().any(|line| {
            ["INFO", "applied repo=wheelwright-system/fleet", commit, counts]
                .iter()
                .all(|part| line.contains(part))
        })
    };
    assert!(applied(&first, "created=1 changed=0 deleted=0 unchanged=0 duration="), "{}", log());

    repository.write("settings.yaml", &SETTINGS.replace("one", "two"));
    repository.write("azure.yaml", AZURE);
    repository.write("placement.yaml", MISSPELT);
    repository.commit("two");
    says(".spec.clusterSet: field not declared in schema").await;
    let shown = configrepos();
    for part in
        ["did you mean \"clusterSets\"?", "(placement.yaml:7)", &format!("{} stays applied", &first[..12])]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let shown = status(kubeconfig);
    for part in ["InvalidObject", "placement.yaml:7", ".spec.clusterSet: field not declared in schema"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    eventually("an event names the field", async || {
        let events = kubectl.run(&["get", "events.events.k8s.io", "-A", "-o", "wide"]);
        events.lines().any(|line| line.contains("InvalidObject") && line.contains("placement.yaml:7"))
    })
    .await;
    assert!(kubectl.fails(&["get", "managedclusterset", "azure"]).contains("NotFound"));
    let settings = || kubectl.run(&["get", "configmap", "settings", "-o", "jsonpath={.data.k}"]);
    assert_eq!(settings(), "one");
    let inventories = || kubectl.run(&["get", "configrepoinventories", "-A", "-o", "yaml"]);
    assert!(!inventories().contains("azure"), "{}", inventories());

    repository.edit("placement.yaml", "clusterSet:", "clusterSets:");
    let third = repository.commit("three");
    says(&format!("3 objects of {}", &third[..12])).await;
    assert_eq!(settings(), "two");
    kubectl.run(&["get", "managedclusterset", "azure"]);
    assert!(applied(&third, "created=2 changed=1 deleted=0 unchanged=0 duration="), "{}", log());

    let patch = ["patch", "configrepo", "fleet", "-n", "wheelwright-system", "--type=merge", "-p"];
    kubectl.run(&[&patch[..], &[r#"{"spec": {"suspend": true}}"#]].concat());
    says("suspended (spec.suspend); 3 objects of").await;
    assert!(configrepos().contains("SUSPENDED"), "{}", configrepos());
    let shown = status(kubeconfig);
    assert!(
        shown.contains("suspended (spec.suspend)") && !shown.contains("no operator has processed"),
        "{shown}"
    );
    kubectl.run(&[&patch[..], &[r#"{"spec": {"suspend": false}}"#]].concat());
    eventually("it goes on", async || !configrepos().contains("suspended (")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_with_a_misspelled_field_is_refused_as_a_whole_on_the_embedded_hub() {
    let hub = Hub::start().await;
    a_misspelled_field_is_corrected(&hub.dir.path().join("kubeconfig"), hub.dir.path()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_with_a_misspelled_field_is_refused_as_a_whole_on_kube_apiserver() {
    let hub = Cluster::start("commits").await;
    hub.kubectl().install(api::crds::hub().into_iter());
    let dir = tempfile::tempdir().unwrap();
    a_misspelled_field_is_corrected(&hub.kubeconfig, dir.path()).await;
}
