//! The helm commands on the pages, on a real API server: what a release keeps, and what stays after it is
//! uninstalled. No pods run.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::{Block, ROOT, blocks, link, link_programs, outcome, pages, run};
use crate::install::convert;
use crate::kube::helm::{self, NAMESPACE};
use crate::kube::{Cluster, Kubectl};

/// The CRD that lacks a column in the former chart.
const OLD: &str = "gitops.wheelwright.dev_configrepos.yaml";
/// The kinds of objects in the charts.
const KINDS: &str = "deployments,services,serviceaccounts,configmaps,secrets,leases,roles,rolebindings,\
    networkpolicies,poddisruptionbudgets,clusterroles,clusterrolebindings,validatingadmissionpolicies,\
    validatingadmissionpolicybindings,servicemonitors,prometheusrules";
/// Objects that a repository or a person created on a hub.
const FLEET: &[&[&str]] = &[
    &["managedcluster", "c1"],
    &["clustermanagementaddon", "logging"],
    &["managedclusteraddon", "logging", "-n", "c1"],
    &["manifestwork", "one", "-n", "c1"],
    &["configrepo", "fleet", "-n", NAMESPACE],
];

/// Returns the commands on all pages that start with some words, each without the rest of its block.
fn commands(start: &str) -> Vec<Block> {
    let mut commands = Vec::new();
    for block in pages().iter().flat_map(|page| blocks(page)).filter(Block::is_commands) {
        let lines = block.text.replace("\\\n", "");
        let lines = lines.lines().filter(|line| line.starts_with(start));
        commands.extend(lines.map(|line| Block {
            page: block.page.clone(),
            language: String::new(),
            text: line.into(),
        }));
    }
    commands
}

/// Returns the only block of a page that has a command.
fn block_with(page: &str, command: &str) -> Block {
    let mut with =
        blocks(page).into_iter().filter(|block| block.is_commands() && block.text.contains(command));
    let block = with.next().unwrap_or_else(|| panic!("{page} has no {command}"));
    assert!(with.next().is_none(), "{page} has {command} twice");
    block
}

/// Creates a former version of the charts: without a value and its use in the templates, and with another CRD.
fn make_former_charts(dir: &Path) {
    let copied = Command::new("cp").arg("-r").arg(format!("{ROOT}/charts")).arg(dir).status();
    assert!(copied.unwrap().success());
    let chart = dir.join("charts/wheelwright");
    let values = fs::read_to_string(chart.join("values.yaml")).unwrap();
    let mut values: Value = serde_saphyr::from_str(&values).unwrap();
    values.as_object_mut().unwrap().remove("grafanaDashboard").unwrap();
    fs::write(chart.join("values.yaml"), values.to_string()).unwrap();
    fs::remove_file(chart.join("templates/monitoring.yaml")).unwrap();
    let old = chart.join("crds").join(OLD);
    let mut definition: Value = serde_saphyr::from_str(&fs::read_to_string(&old).unwrap()).unwrap();
    definition["spec"]["versions"][0]["additionalPrinterColumns"].as_array_mut().unwrap().remove(0);
    fs::write(old, definition.to_string()).unwrap();
}

/// Installs what the values on the pages need: namespaces and the kinds of the Prometheus operator.
fn install_neighbors(kubectl: &Kubectl) {
    for namespace in ["argocd", "c1"] {
        kubectl.run(&["create", "namespace", namespace]);
    }
    let definitions = ["ServiceMonitor", "PrometheusRule"].map(|kind| {
        let (plural, open) = (format!("{}s", kind.to_lowercase()), "x-kubernetes-preserve-unknown-fields");
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.monitoring.coreos.com")},
            "spec": {"group": "monitoring.coreos.com", "scope": "Namespaced",
                "names": {"plural": plural, "kind": kind},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", open: true}}}]}})
        .to_string()
    });
    kubectl.run_with(&["apply", "-f", "-"], &definitions.join("\n"));
}

fn create_fleet(kubectl: &Kubectl) {
    let object = |api: &str, kind: &str, metadata: Value, spec: Value| {
        json!({"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec}).to_string()
    };
    let addon = "addon.open-cluster-management.io/v1alpha1";
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "namespace": "default"}});
    let objects = [
        object(
            "cluster.open-cluster-management.io/v1",
            "ManagedCluster",
            json!({"name": "c1"}),
            json!({"hubAcceptsClient": true}),
        ),
        object(addon, "ClusterManagementAddOn", json!({"name": "logging"}), json!({})),
        object(addon, "ManagedClusterAddOn", json!({"name": "logging", "namespace": "c1"}), json!({})),
        object(
            "work.open-cluster-management.io/v1",
            "ManifestWork",
            json!({"name": "one", "namespace": "c1"}),
            json!({"workload": {"manifests": [map]}}),
        ),
        object(
            "gitops.wheelwright.dev/v1alpha1",
            "ConfigRepo",
            json!({"name": "fleet", "namespace": NAMESPACE}),
            json!({"url": "https://git.example.com/fleet.git"}),
        ),
    ];
    kubectl.run_with(&["apply", "-f", "-"], &objects.join("\n"));
    // The operator creates this Secret.
    kubectl.run(&["create", "secret", "generic", "wheelwright-webhook", "-n", NAMESPACE]);
}

fn fleet(kubectl: &Kubectl) -> Vec<String> {
    let uid = ["-o", "jsonpath={.metadata.uid}"];
    FLEET.iter().map(|target| kubectl.run(&[&["get"], *target, &uid].concat())).collect()
}

fn operator(kubectl: &Kubectl) -> String {
    let container =
        "jsonpath={.spec.template.spec.containers[0].image} {.spec.template.spec.containers[0].args}";
    kubectl.run(&["get", "deployment", "wheelwright-operator", "-n", NAMESPACE, "-o", container])
}

fn conversion(kubectl: &Kubectl, definition: [&str; 2]) -> String {
    let fields = "jsonpath={.spec.conversion.strategy} {.spec.versions[1].served}";
    kubectl.run(&[&["get"], &definition[..], &["-o", fields]].concat())
}

#[tokio::test(flavor = "multi_thread")]
async fn helm_installs_upgrades_and_uninstalls_a_hub_as_the_pages_say_and_its_fleet_stays() {
    let hub = Cluster::start("helm").await;
    let dir = tempfile::tempdir().unwrap();
    let kubectl = hub.kubectl();
    let run = |block: &Block| run(&hub, dir.path(), "", block);
    link_programs(dir.path());
    link(&helm::program(), dir.path(), "bin/helm");
    install_neighbors(&kubectl);

    make_former_charts(dir.path());
    let [install] = <[Block; 1]>::try_from(commands("helm install wheelwright charts")).ok().unwrap();
    run(&install);
    create_fleet(&kubectl);
    let before = fleet(&kubectl);
    let columns = || {
        let columns = "jsonpath={.spec.versions[0].additionalPrinterColumns[*].name}";
        kubectl.run(&["get", "crd", "configrepos.gitops.wheelwright.dev", "-o", columns])
    };
    let (definition, former_columns) = (convert(&kubectl), columns());

    fs::remove_dir_all(dir.path().join("charts")).unwrap();
    link(&Path::new(ROOT).join("charts"), dir.path(), "charts");
    run(&block_with("docs/operating.md", "wheelwright crds |"));
    assert!(columns().len() > former_columns.len(), "{former_columns}");
    assert_eq!(conversion(&kubectl, definition), "Webhook false", "the operator serves it again");
    convert(&kubectl);

    for upgrade in commands("helm upgrade ") {
        run(&upgrade);
    }
    let pod = operator(&kubectl);
    for part in [
        "registry.example.com/wheelwright:",
        "--git-hosts=git.corp.example",
        "--git-webhook-listen",
        "http://collector.monitoring:4318",
    ] {
        assert!(pod.contains(part), "{part}: {pod}");
    }
    for made in [
        ["deployment/wheelwright-dashboard", NAMESPACE],
        ["servicemonitor/wheelwright-operator", NAMESPACE],
        ["configmap/ocm-placement-generator", "argocd"],
    ] {
        kubectl.run(&["get", made[0], "-n", made[1]]);
    }
    assert_eq!(conversion(&kubectl, definition), "Webhook true", "helm leaves what the operator wrote");
    assert_eq!(fleet(&kubectl), before);

    let definitions = || kubectl.run(&["get", "crd", "-o", "name"]);
    let all = definitions();
    run(&block_with("docs/operating.md", "helm uninstall"));
    let helms = ["get", KINDS, "-A", "-l", "app.kubernetes.io/managed-by=Helm", "-o", "name"];
    assert_eq!(kubectl.run(&helms), "");
    let left = kubectl.run(&["get", KINDS, "-n", NAMESPACE, "-o", "name"]);
    let of_the_release = |name: &&str| name.contains("wheelwright") || name.contains("helm");
    assert_eq!(left.lines().filter(of_the_release).collect::<Vec<_>>(), Vec::<&str>::new(), "{left}");
    assert_eq!(conversion(&kubectl, definition), "None false");
    assert_eq!((definitions(), fleet(&kubectl)), (all, before.clone()));

    run(&block_with("README.md", "helm install"));
    assert!(operator(&kubectl).starts_with("registry.example.com/wheelwright:"));
    assert_eq!(fleet(&kubectl), before);
    run(&block_with("README.md", "wheelwright get token"));
    run(&block_with("docs/agents.md", "charts/wheelwright-agent"));
    kubectl.run(&["get", "deployment", "wheelwright-agent", "-n", "open-cluster-management-agent"]);
    for install in commands("helm install registration-operator") {
        run(&install);
        let text = "helm uninstall registration-operator --namespace open-cluster-management".into();
        run(&Block { text, ..install });
    }

    run(&block_with("docs/operating.md", "helm uninstall"));
    let role = "open-cluster-management:bootstrap";
    kubectl.run(&["create", "clusterrole", role, "--verb=get", "--resource=pods"]);
    let (succeeds, printed) = outcome(&hub, dir.path(), "", &install);
    assert!(!succeeds && printed.contains(role), "{printed}");
    run(&Block { text: format!("{} --take-ownership", install.text), ..install });
    let rules = ["get", "clusterrole", role, "-o", "jsonpath={.rules[*].resources}"];
    assert!(kubectl.run(&rules).contains("managedclusters"));
}
