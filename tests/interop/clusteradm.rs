//! clusteradm, the command line of Open Cluster Management, manages one of our fleets. Our registration operators
//! serve the ClusterManager and the Klusterlet that it creates.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use serde_json::{Value, json};

use super::programs::{AGENT, HUB};
use crate::e2e::run_nodes;
use crate::klusterlet::pod::{self, account_kubeconfig, start_pod};
use crate::klusterlet::{exists, start_operator};
use crate::kube::{Cluster, Directory, Kubectl, built, free_port};
use crate::offline::probe;
use crate::wait::eventually;

const IMAGES: [&str; 2] = [
    concat!("registry.example.com/wheelwright:", env!("CARGO_PKG_VERSION")),
    concat!("registry.example.com/wheelwright-agent:", env!("CARGO_PKG_VERSION")),
];

fn program() -> PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| built("tests/clusteradm/build")).clone()
}

/// clusteradm with the kubeconfig of one cluster.
struct Clusteradm {
    kubectl: Kubectl,
    kubeconfig: PathBuf,
    dir: PathBuf,
}

impl Clusteradm {
    fn new(cluster: &Cluster, dir: &Directory) -> Self {
        Self { kubectl: cluster.kubectl(), kubeconfig: cluster.kubeconfig.clone(), dir: dir.path("") }
    }

    /// Runs a command that must succeed; returns all of its output.
    fn run(&self, line: &str) -> String {
        let (succeeds, text) = self.output(line);
        assert!(succeeds, "clusteradm {line}: {text}");
        text
    }

    /// Runs a command that must fail and print `expected`.
    fn fails(&self, line: &str, expected: &str) {
        let (succeeds, text) = self.output(line);
        assert!(!succeeds && text.contains(expected), "clusteradm {line}: {text}");
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(program());
        command.args(line.split_whitespace()).current_dir(&self.dir);
        command.env("KUBECONFIG", &self.kubeconfig).env("HOME", &self.dir);
        command
    }

    /// Runs a command; returns true if it succeeds, and all of its output.
    fn output(&self, line: &str) -> (bool, String) {
        let output = self.command(line).output().unwrap();
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        println!("$ clusteradm {line}\n{text}");
        (output.status.success(), text)
    }

    /// Runs a command that must print `expected`.
    fn prints(&self, line: &str, expected: &str) {
        let printed = self.run(line);
        assert!(printed.contains(expected), "clusteradm {line}: {printed}");
    }

    /// Runs a command until it prints `expected`.
    async fn eventually_prints(&self, line: &str, expected: &str) {
        eventually(&format!("clusteradm {line} prints {expected}"), async || {
            self.run(line).contains(expected)
        })
        .await;
    }
}

/// Waits until the text of a ConfigMap on a cluster is `text`, or until it is gone if that is empty.
async fn says(kubectl: &Kubectl, name: &str, text: &str) {
    eventually(&format!("ConfigMap {name} says {text:?}"), async || {
        kubectl.run(&["get", "configmap", name, "--ignore-not-found", "-o", "jsonpath={.data.text}"]) == text
    })
    .await;
}

/// Writes the manifest of a ConfigMap to a file.
fn write_map(dir: &Directory, name: &str, text: &str) {
    let metadata = json!({"name": name, "namespace": "default"});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": text}});
    fs::write(dir.path(&format!("{name}.yaml")), map.to_string()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn clusteradm_runs_a_fleet_of_ours_from_init_to_clean() {
    let (hub_dir, dir) = (Directory::new("clusteradm-hub"), Directory::new("clusteradm"));
    let mut clusters = Cluster::start_all(&["clusteradm-hub", "clusteradm-spoke"]).await;
    let (spoke, hub) = (clusters.pop().unwrap(), clusters.pop().unwrap());
    let (on_hub, on_spoke) = (Clusteradm::new(&hub, &dir), Clusteradm::new(&spoke, &dir));
    let kubectl = spoke.kubectl();
    let images = || BTreeSet::from(IMAGES.map(str::to_owned));
    let _nodes = [run_nodes(hub.client().await, images()), run_nodes(spoke.client().await, images())];

    on_hub.prints("init", "The multicluster hub control plane has been initialized successfully!");
    let _manager = start_operator(&hub, &hub_dir, "hub");
    let deployment = ["deployment", "wheelwright-operator", "-n", HUB];
    eventually("the hub side is installed", async || exists(&hub.kubectl(), &deployment)).await;
    let (kubeconfig, port) = (hub_dir.path("account.kubeconfig"), free_port());
    fs::write(&kubeconfig, account_kubeconfig(&hub, "wheelwright-operator", HUB)).unwrap();
    let _operator = pod::start_operator(&hub.kubectl(), &kubeconfig, &hub_dir.path(""), port, &[]);
    let url = format!("http://127.0.0.1:{port}");
    eventually("our operator is ready", async || probe(&url, "/readyz").await == "ok").await;
    on_hub.run("version");
    // It looks for the Deployments of OCM's hub side by name, and we have only one.
    on_hub.fails("get hub-info", "resource name may not be empty");

    let token: Value = serde_json::from_str(&on_hub.run("get token -o json")).unwrap();
    let [token, url] = ["hub-token", "hub-apiserver"].map(|key| token[key].as_str().unwrap());
    let authority = hub.path("ca.crt").display().to_string();
    let join =
        format!("join --hub-token {token} --hub-apiserver {url} --ca-file {authority} --cluster-name c1");
    let _klusterlet = start_operator(&spoke, &dir, "klusterlet");
    // A dry run reads the cluster's kinds.
    eventually("the kind is served", async || exists(&kubectl, &["klusterlets"])).await;
    on_spoke.prints(&format!("{join} --dry-run --output-file join.yaml"), "accept --clusters c1");
    assert!(fs::read_to_string(dir.path("join.yaml")).unwrap().contains("kind: Klusterlet"));
    on_spoke.run(&join);
    let agents = ["klusterlet-registration-agent", "klusterlet-work-agent"];
    eventually("the agents are installed", async || {
        agents.iter().all(|name| exists(&kubectl, &["deployment", name, "-n", AGENT]))
    })
    .await;
    let registration = start_pod(&spoke, &dir, AGENT, agents[0]);
    on_hub.prints("accept --clusters c1 --wait", "Your managed cluster c1 has joined the Hub successfully");
    on_hub.eventually_prints("get clusters", "<Available> True").await;
    let work = start_pod(&spoke, &dir, AGENT, agents[1]);
    on_hub.prints("get clusters -o table", "c1     true       True        default");
    on_spoke.prints("get klusterlet-info", "klusterlet");

    sets_and_placements(&on_hub).await;
    works(&on_hub, &kubectl, &dir).await;
    addons(&on_hub, &kubectl, &dir).await;
    on_hub.prints(
        "clusterset set default --clusters c1",
        "Cluster c1 is set, from ClusterSet team to Clusterset default",
    );
    on_hub.prints(
        "clusterset unbind team --namespace default",
        "Clusterset team is unbind from namespace default",
    );
    // The command hangs forever if the set is gone before its watch starts.
    let mut delete = on_hub.command("delete clusterset team").spawn().unwrap();
    eventually("the set is gone", async || !exists(&on_hub.kubectl, &["managedclusterset", "team"])).await;
    delete.kill().unwrap();
    delete.wait().unwrap();

    on_hub.prints("upgrade clustermanager", "upgraded completed successfully");
    on_spoke.run("upgrade klusterlet");
    on_hub.prints("get clusters", "<Available> True");
    on_hub.run("delete token");
    for agent in [registration, work] {
        agent.kill_9();
    }
    on_spoke.prints("unjoin --cluster-name c1", "Applied resources have been deleted");
    assert!(!exists(&kubectl, &["klusterlet", "klusterlet"]));
    on_hub.prints("clean", "The multicluster hub control plane has been clean up successfully!");
    assert!(!exists(&hub.kubectl(), &deployment));
    assert!(exists(&hub.kubectl(), &["managedcluster", "c1"]), "the fleet stays");
}

async fn sets_and_placements(on_hub: &Clusteradm) {
    on_hub.prints("create clusterset team", "Clusterset team is created");
    on_hub.prints(
        "clusterset set team --clusters c1",
        "Cluster c1 is set, from ClusterSet default to Clusterset team",
    );
    on_hub
        .prints("clusterset bind team --namespace default", "Clusterset team is bound to Namespace default");
    on_hub
        .eventually_prints(
            "get clustersets -o table",
            "team      default            1 ManagedClusters selected",
        )
        .await;
    on_hub.run("create placement all --namespace default --clustersets team");
    // clusteradm panics on a placement that has no condition yet.
    let kubectl = ["get", "placement", "all", "-o", "jsonpath={.status.conditions[0].type}"];
    eventually("the placement has conditions", async || !on_hub.kubectl.run(&kubectl).is_empty()).await;
    on_hub.eventually_prints("get placements -o table", "[c1]").await;
}

async fn works(on_hub: &Clusteradm, on_spoke: &Kubectl, dir: &Directory) {
    write_map(dir, "direct", "1");
    on_hub.prints("create work direct -f direct.yaml --clusters c1", "create work direct in cluster c1");
    says(on_spoke, "direct", "1").await;
    on_hub.eventually_prints("get works direct --cluster c1", "<Available> True").await;
    write_map(dir, "direct", "2");
    let overwrite = "create work direct -f direct.yaml --clusters c1 --overwrite";
    on_hub.prints(overwrite, "update work direct in cluster c1");
    says(on_spoke, "direct", "2").await;
    for (name, flags) in [("placed", ""), ("kept", "-r")] {
        write_map(dir, name, "1");
        on_hub.run(&format!("create work {name} -f {name}.yaml --placement default/all {flags}"));
        says(on_spoke, name, "1").await;
    }
    on_hub.eventually_prints("get works --cluster c1 -o table", "placed").await;
    for name in ["direct", "placed"] {
        on_hub.prints(&format!("delete work {name} --cluster c1"), "is deleted");
        says(on_spoke, name, "").await;
    }
    on_hub.kubectl.run(&["delete", "manifestworkreplicaset", "kept", "--timeout=60s"]);
    says(on_spoke, "kept", "").await;
}

async fn addons(on_hub: &Clusteradm, on_spoke: &Kubectl, dir: &Directory) {
    write_map(dir, "hello", "1");
    on_hub.prints("addon create hello -f hello.yaml", "AddonTemplate hello-0.0.1 is created");
    on_hub.prints("addon enable --names hello --clusters c1", "Deploying hello add-on to namespaces");
    says(on_spoke, "hello", "1").await;
    on_hub.eventually_prints("get addon hello", "ManifestApplied -> true").await;
    on_hub.prints(
        "addon disable --names hello --clusters c1",
        "Undeploying hello add-on in managed cluster: c1.",
    );
    says(on_spoke, "hello", "").await;
    on_hub.run("install hub-addon --names governance-policy-framework");
    on_hub.prints("get addon -o table", "governance-policy-framework");
    on_hub.prints("proxy health", "Cluster-Proxy addon is not installed.");
}
