//! Open Cluster Management's own programs, installed by its own operators and started as a kubelet would start
//! them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::e2e::run_nodes;
use crate::klusterlet::pod::{Pod, write_account};
use crate::klusterlet::{self, exists};
use crate::kube::{Cluster, Directory, Kubectl, built, free_port};
use crate::running::Running;
use crate::wait::eventually;

pub(super) const HUB: &str = "open-cluster-management-hub";
const OPERATORS: &str = "open-cluster-management";
pub(super) const AGENT: &str = "open-cluster-management-agent";

/// The controllers of a hub, in takeover order.
pub(super) const CONTROLLERS: [&str; 4] = [
    "cluster-manager-placement-controller",
    "cluster-manager-addon-manager-controller",
    "cluster-manager-work-controller",
    "cluster-manager-registration-controller",
];
/// The agents of a cluster.
const AGENTS: [&str; 2] = ["klusterlet-registration-agent", "klusterlet-work-agent"];
/// The images of the programs, as named in the project's samples.
const IMAGES: [&str; 5] = ["registration", "work", "placement", "addon-manager", "registration-operator"];

/// The last objects that OCM's operator writes on a hub, and the objects that its webhook converts. All of them
/// reference Services.
const LAST: [[&str; 2]; 4] = [
    ["crd", "managedclusteraddons.addon.open-cluster-management.io"],
    ["crd", "clustermanagementaddons.addon.open-cluster-management.io"],
    ["mutatingwebhookconfiguration", "managedclustermutators.admission.cluster.open-cluster-management.io"],
    ["validatingwebhookconfiguration", "manifestworkvalidators.admission.work.open-cluster-management.io"],
];

/// The image of our operator.
pub(super) const OURS: &str = concat!("wheelwright:", env!("CARGO_PKG_VERSION"));
/// The image of our agent.
const OUR_AGENT: &str = concat!("wheelwright-agent:", env!("CARGO_PKG_VERSION"));

/// Returns the image of an OCM program.
fn image(program: &str) -> String {
    format!("quay.io/open-cluster-management/{program}:latest")
}

/// Returns the directory of the programs, building them if they do not exist.
fn programs() -> &'static Path {
    static PROGRAMS: OnceLock<PathBuf> = OnceLock::new();
    PROGRAMS.get_or_init(|| built("tests/interop/build"))
}

/// Starts an OCM program with the kubeconfig of a service account.
fn start(name: &str, dir: &Directory, root: &Path, args: &[String]) -> Running {
    let mut command = Command::new(programs().join(args[0].trim_start_matches('/')));
    command.args(&args[1..]).arg(format!("--kubeconfig={}", root.join(".kube/config").display()));
    command.arg(format!("--listen=127.0.0.1:{}", free_port())).args(["--disable-leader-election", "-v=2"]);
    let namespace = args.iter().find_map(|arg| arg.strip_prefix("--namespace=")).unwrap();
    command.env("POD_NAME", name).env("POD_NAMESPACE", namespace).env("TMPDIR", root);
    Running::spawn(&mut command, name, &dir.path(""), root)
}

/// Starts the container of an OCM Deployment.
fn start_pod(cluster: &Cluster, dir: &Directory, namespace: &str, name: &str) -> Running {
    let Pod { root, mut args } = Pod::new(cluster, dir, namespace, name);
    args.push(format!("--namespace={namespace}"));
    if name == AGENTS[0] {
        args.push(format!("--hub-kubeconfig-dir={}/hub-kubeconfig", root.display()));
    }
    start(name, dir, &root, &args)
}

/// Installs an OCM operator from its project's files and starts it.
fn start_operator(cluster: &Cluster, dir: &Directory, part: &str, command: &str) -> Running {
    let kubectl = cluster.kubectl();
    let config = programs().join(part);
    kubectl.run(&["create", "namespace", OPERATORS]);
    let file = |name: &str| config.join(name).to_str().unwrap().to_owned();
    kubectl.run(&["apply", "--server-side", "-k", &file("crds")]);
    kubectl.finds(&[format!("{}s.operator.open-cluster-management.io", part.replace('-', ""))]);
    for name in ["rbac/cluster_role.yaml", "rbac/cluster_role_binding.yaml"] {
        kubectl.run(&["apply", "-f", &file(name)]);
    }
    for name in ["operator/service_account.yaml", "operator/operator.yaml"] {
        kubectl.run(&["apply", "-n", OPERATORS, "-f", &file(name)]);
    }
    // The service account has the part's name.
    write_account(&dir.path(&format!("{part}-operator")), cluster, part, OPERATORS);
    run_operator(dir, part, command)
}

/// Starts an installed OCM operator.
fn run_operator(dir: &Directory, part: &str, command: &str) -> Running {
    let root = dir.path(&format!("{part}-operator"));
    let namespace = format!("--namespace={OPERATORS}");
    let args = ["registration-operator", command, &namespace].map(str::to_owned);
    start(&format!("{part}-operator"), dir, &root, &args)
}

/// Simulates the nodes of a cluster whose registries have the images of OCM and of the tests' add-on.
pub(super) async fn nodes(cluster: &Cluster) -> JoinHandle<()> {
    let others = ["hello:1", "hello:2", OURS, OUR_AGENT].map(str::to_owned);
    run_nodes(cluster.client().await, IMAGES.map(image).into_iter().chain(others).collect::<BTreeSet<_>>())
}

/// A hub that runs OCM's controllers and webhooks.
pub(super) struct OcmHub {
    pub(super) kubectl: Kubectl,
    /// OCM's controllers, and its webhooks in one process.
    pub(super) parts: BTreeMap<&'static str, Running>,
    _nodes: JoinHandle<()>,
    pub(super) dir: Directory,
    // The last field, so that the API server stops after its clients.
    pub(super) cluster: Cluster,
}

impl OcmHub {
    pub(super) async fn start(name: &str) -> Self {
        let (cluster, dir) = (Cluster::start(name).await, Directory::new(name));
        let (kubectl, nodes) = (cluster.kubectl(), nodes(&cluster).await);
        let operator = start_operator(&cluster, &dir, "cluster-manager", "hub");
        let sample = "operator_open-cluster-management_clustermanagers.cr.yaml";
        let sample = programs().join("cluster-manager/samples").join(sample);
        kubectl.run(&["apply", "-f", sample.to_str().unwrap()]);
        // OCM runs a work controller only if this feature is enabled.
        let gates = json!([{"feature": "ManifestWorkReplicaSet", "mode": "Enable"}]);
        let patch = json!({"spec": {"workConfiguration": {"featureGates": gates}}}).to_string();
        kubectl.run(&["patch", "clustermanager", "cluster-manager", "--type=merge", "-p", &patch]);
        let mut hub = Self { kubectl, parts: BTreeMap::new(), _nodes: nodes, dir, cluster };
        hub.installed_by(operator).await;
        hub.start_parts().await;
        eventually("the hub has its default set", async || {
            exists(&hub.kubectl, &["managedclusterset", "default"])
        })
        .await;
        hub
    }

    /// Waits until OCM's operator has installed everything, then stops it. Otherwise it would restore the
    /// references to the webhooks' Services, which are not routed here.
    pub(super) async fn installed_by(&self, operator: Running) {
        let service = |[kind, name]: [&str; 2]| {
            let path = "jsonpath={..clientConfig.service.name}";
            self.kubectl.run(&["get", kind, name, "--ignore-not-found", "-o", path])
        };
        eventually("OCM's operator has installed everything", async || {
            LAST.into_iter().all(|one| service(one).starts_with("cluster-manager-"))
                && CONTROLLERS.iter().all(|name| exists(&self.kubectl, &["deployment", name, "-n", HUB]))
        })
        .await;
        operator.kill_9();
        self.scale(OPERATORS, "cluster-manager", 0);
    }

    /// Starts the webhooks and controllers that OCM's operator installed.
    pub(super) async fn start_parts(&mut self) {
        self.parts.insert("webhooks", start_webhooks(&self.cluster, &self.dir).await);
        CONTROLLERS.into_iter().for_each(|name| self.start_controller(name));
    }

    /// Restarts OCM's operator, as after `kubectl scale --replicas=1`.
    pub(super) fn start_operator(&self) -> Running {
        self.scale(OPERATORS, "cluster-manager", 1);
        run_operator(&self.dir, "cluster-manager", "hub")
    }

    /// Starts an OCM controller, as after `kubectl scale --replicas=1`.
    pub(super) fn start_controller(&mut self, name: &'static str) {
        self.scale(HUB, name, 1);
        self.parts.insert(name, start_pod(&self.cluster, &self.dir, HUB, name));
    }

    /// Stops an OCM controller, as after `kubectl scale --replicas=0`.
    pub(super) fn stop_controller(&mut self, name: &'static str) {
        self.scale(HUB, name, 0);
        self.parts.remove(name);
    }

    fn scale(&self, namespace: &str, name: &str, replicas: u8) {
        self.kubectl.run(&["scale", "deployment", name, "-n", namespace, &format!("--replicas={replicas}")]);
    }
}

/// Starts the webhooks, and replaces references to their Services with the port that they listen on.
async fn start_webhooks(cluster: &Cluster, dir: &Directory) -> Running {
    let (kubectl, port) = (cluster.kubectl(), free_port());
    let root = dir.path("webhooks");
    write_account(&root, cluster, "registration-webhook-sa", HUB);
    for (from, to) in [("serving.crt", "tls.crt"), ("serving.key", "tls.key")] {
        fs::copy(cluster.path(from), root.join(to)).unwrap();
    }
    let mut command = Command::new(programs().join("webhooks"));
    command.arg(format!("--port={port}")).arg(format!("--certdir={}", root.display()));
    command.env("KUBECONFIG", root.join(".kube/config"));
    let running = Running::spawn(&mut command, "webhooks", &dir.path(""), &root);
    eventually("the webhooks respond", async || TcpStream::connect(("127.0.0.1", port)).is_ok()).await;
    let ca = STANDARD.encode(cluster.ca_pem());
    // Changes only the references, because other clients write the objects too.
    let point = |kind: &str, name: &str, places: &[String]| {
        let object: Value = serde_json::from_str(&kubectl.run(&["get", kind, name, "-o", "json"])).unwrap();
        let change = |place: &String| {
            let service = object.pointer(place).unwrap()["service"]["path"].as_str().unwrap();
            let config = json!({"url": format!("https://127.0.0.1:{port}{service}"), "caBundle": ca});
            json!({"op": "replace", "path": place, "value": config})
        };
        let changes = json!(places.iter().map(change).collect::<Vec<_>>()).to_string();
        kubectl.run(&["patch", kind, name, "--type=json", "-p", &changes]);
    };
    for kind in ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"] {
        let list: Value = serde_json::from_str(&kubectl.run(&["get", kind, "-o", "json"])).unwrap();
        for object in list["items"].as_array().unwrap() {
            let count = object["webhooks"].as_array().unwrap().len();
            let places: Vec<_> = (0..count).map(|index| format!("/webhooks/{index}/clientConfig")).collect();
            point(kind, object["metadata"]["name"].as_str().unwrap(), &places);
        }
    }
    for name in ["managedclusteraddons", "clustermanagementaddons"] {
        let crd = format!("{name}.addon.open-cluster-management.io");
        point("crd", &crd, &["/spec/conversion/webhook/clientConfig".to_owned()]);
    }
    running
}

/// A cluster with OCM's agents.
pub(super) struct OcmSpoke {
    pub(super) kubectl: Kubectl,
    agents: Vec<Running>,
    operator: Option<Running>,
    _nodes: JoinHandle<()>,
    pub(super) dir: Directory,
    pub(super) cluster: Cluster,
}

impl OcmSpoke {
    /// Installs the agents with a bootstrap kubeconfig; the work agent waits for the identity.
    pub(super) async fn start(name: &str, bootstrap: &Path) -> Self {
        let (cluster, dir) = (Cluster::start(name).await, Directory::new(name));
        let (kubectl, nodes) = (cluster.kubectl(), nodes(&cluster).await);
        let operator = start_operator(&cluster, &dir, "klusterlet", "klusterlet");
        kubectl.run(&["create", "namespace", AGENT]);
        let file = format!("--from-file=kubeconfig={}", bootstrap.display());
        kubectl.run(&["create", "secret", "generic", "bootstrap-hub-kubeconfig", "-n", AGENT, &file]);
        let klusterlet = json!({"apiVersion": "operator.open-cluster-management.io/v1", "kind": "Klusterlet",
            "metadata": {"name": "klusterlet"}, "spec": {"clusterName": name, "namespace": AGENT,
                "registrationImagePullSpec": image("registration"), "workImagePullSpec": image("work"), "workConfiguration": {"statusSyncInterval": "5s"}}});
        kubectl.run_with(&["create", "-f", "-"], &klusterlet.to_string());
        eventually("OCM's operator has installed the agents", async || {
            exists(&kubectl, &["deployment", "klusterlet-work-agent", "-n", AGENT])
        })
        .await;
        let agents = vec![start_pod(&cluster, &dir, AGENT, AGENTS[0])];
        Self { kubectl, agents, operator: Some(operator), _nodes: nodes, dir, cluster }
    }

    /// Starts the work agent once the cluster has its identity.
    pub(super) async fn start_work(&mut self) {
        let key = ["secret", "hub-kubeconfig-secret", "-n", AGENT, "-o", "jsonpath={.data.kubeconfig}"];
        eventually("the cluster has its identity", async || {
            exists(&self.kubectl, &key[..4]) && !self.kubectl.run(&[&["get"], &key[..]].concat()).is_empty()
        })
        .await;
        self.agents.push(start_pod(&self.cluster, &self.dir, AGENT, AGENTS[1]));
    }

    /// Gives the agents an identity that the hub signed long ago, and waits until they have renewed it.
    pub(super) async fn renew(&mut self, hub: &Cluster) {
        self.agents.clear();
        let name = ["secret", "hub-kubeconfig-secret", "-n", AGENT];
        let read = |key: &str| {
            let path = format!("jsonpath={{.data.{key}}}");
            STANDARD.decode(self.kubectl.run(&[&["get"], &name[..], &["-o", &path]].concat())).unwrap()
        };
        let text = |key: &str| String::from_utf8(read(key)).unwrap();
        let group = format!("system:open-cluster-management:{}", text("cluster-name"));
        let user = format!("{group}:{}", text("agent-name"));
        let groups = ["system:open-cluster-management:managed-clusters", &group];
        let old = hub.old_certificate(&user, &groups);
        let data =
            json!({"tls.crt": STANDARD.encode(&old.certificate), "tls.key": STANDARD.encode(&old.key)});
        let patch = json!({"data": data}).to_string();
        self.kubectl.run(&[&["patch"], &name[..], &["--type=merge", "-p", &patch]].concat());
        let agent = start_pod(&self.cluster, &self.dir, AGENT, AGENTS[0]);
        eventually("the cluster has another certificate", async || {
            read("tls\\.crt") != old.certificate.as_bytes()
        })
        .await;
        self.agents.push(agent);
        self.start_work().await;
    }

    /// Hands over the Klusterlet to our registration operator, with our image, and starts the agents that it
    /// installs.
    pub(super) async fn hand_over(&mut self) -> Vec<Running> {
        self.operator = None;
        self.kubectl.run(&["scale", "deployment", "klusterlet", "-n", OPERATORS, "--replicas=0"]);
        self.set_images(OUR_AGENT, OUR_AGENT);
        let operator = klusterlet::start_operator(&self.cluster, &self.dir, "klusterlet");
        self.have_images([OUR_AGENT, OUR_AGENT]).await;
        self.agents.clear();
        let agents = AGENTS.map(|name| klusterlet::pod::start_pod(&self.cluster, &self.dir, AGENT, name));
        [operator].into_iter().chain(agents).collect()
    }

    /// Hands back the Klusterlet to OCM's operator, with OCM's images. `ours` is the result of
    /// [`Self::hand_over`].
    pub(super) async fn take_back(&mut self, ours: Vec<Running>) {
        let mut ours = ours.into_iter();
        drop(ours.next());
        let images = ["registration", "work"].map(image);
        self.set_images(&images[0], &images[1]);
        self.kubectl.run(&["scale", "deployment", "klusterlet", "-n", OPERATORS, "--replicas=1"]);
        self.operator = Some(run_operator(&self.dir, "klusterlet", "klusterlet"));
        self.have_images([&images[0], &images[1]]).await;
        drop(ours);
        self.agents.extend(AGENTS.map(|name| start_pod(&self.cluster, &self.dir, AGENT, name)));
    }

    fn set_images(&self, registration: &str, work: &str) {
        let spec = json!({"registrationImagePullSpec": registration, "workImagePullSpec": work});
        let patch = json!({"spec": spec}).to_string();
        self.kubectl.run(&["patch", "klusterlet", "klusterlet", "--type=merge", "-p", &patch]);
    }

    /// Waits until the agents' Deployments have these images and their pods run.
    async fn have_images(&self, images: [&str; 2]) {
        let list = ["get", "deployments", "-n", AGENT, "-o", "json"];
        eventually(&format!("the agents have {images:?}"), async || {
            let list: Value = serde_json::from_str(&self.kubectl.run(&list)).unwrap();
            let runs = |(name, wanted): (&str, &str)| {
                let all = list["items"].as_array().unwrap();
                all.iter().any(|one| {
                    one["metadata"]["name"] == name
                        && one["spec"]["template"]["spec"]["containers"][0]["image"] == wanted
                        && one["status"]["updatedReplicas"].as_u64().is_some_and(|pods| pods > 0)
                        && one["status"]["observedGeneration"] == one["metadata"]["generation"]
                })
            };
            AGENTS.into_iter().zip(images).all(runs)
        })
        .await;
    }
}
