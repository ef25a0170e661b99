//! Argo CD itself alongside our operator: its controllers, repo-server and server follow the same git repositories
//! on the same hub.
//!
//! `make neighbors` runs these tests. They are not part of `make test`, because building Argo CD takes twelve
//! core-minutes.

mod cluster_secrets;
mod commands;
mod crashes;
mod deletions;
mod embedded;
mod fight;
mod generators;
mod hand_over;
mod health;
mod observe;
mod program;
mod pull;
mod shared;
mod sources;

use std::path::{Path, PathBuf};

use api::cluster::v1::ClientConfig;
use api::crds;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::config::Kubeconfig;
use kube::core::{ApiResource, GroupVersionKind};
use object::Object;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use wheelwright::agent::{self, AgentOptions, Bootstrap};
use wheelwright::apiserver::{Server, ServerOptions};
use wheelwright::shell::now;

use self::program::ArgoCd;
use crate::e2e::Repository;
use crate::klusterlet::pod::{account_kubeconfig, start_operator};
use crate::kube::{Cluster, Directory, Kubectl, free_port, helm, install_crypto};
use crate::running::Running;
use crate::trace::{accept, apply, client};
use crate::wait::eventually;

/// The namespace of Argo CD.
const NAMESPACE: &str = "argocd";
/// The namespace used by the objects in the tests.
const FLEET: &str = "fleet";
/// The file with the operator's kubeconfig.
const OPERATOR: &str = "operator.kubeconfig";

/// A hub with our operator, installed with the chart, and Argo CD.
struct Hub {
    client: kube::Client,
    argo_cd: ArgoCd,
    /// The clusters, each with an agent.
    spokes: Vec<Server>,
    stop: CancellationToken,
    /// Absent while it is not running.
    operator: Option<Running>,
    /// The kubeconfig of an administrator.
    kubeconfig: PathBuf,
    serves: Serves,
    // The last field, so that the processes stop before their files are removed.
    dir: Directory,
}

/// The API server of a hub.
enum Serves {
    Embedded { _server: Server },
    Kubernetes { cluster: Box<Cluster> },
}

impl Hub {
    /// Starts `wheelwright hub` as the hub. The operator and Argo CD are administrators.
    async fn embedded(name: &str) -> Self {
        let server = embedded(crds::hub()).await;
        let dir = Directory::new(name);
        let kubeconfig = dir.path("admin.kubeconfig");
        let admin = server.admin_kubeconfig_yaml().unwrap();
        std::fs::write(&kubeconfig, &admin).unwrap();
        let kubectl = Kubectl::new(&kubeconfig, dir.path("kubectl-home"));
        program::install(&kubectl);
        for namespace in [FLEET, helm::NAMESPACE] {
            kubectl.run(&["create", "namespace", namespace]);
        }
        let allowed = "gitops.wheelwright.dev/operator-identity=allowed";
        kubectl.run(&["label", "namespace", helm::NAMESPACE, allowed]);
        let args = ["operator", "--local-repositories", "--kubeconfig", kubeconfig.to_str().unwrap()];
        let operator = Running::start("our-operator", &dir.path(""), &args);
        let argo_cd = ArgoCd::start_as(&admin, &admin, &dir.path("argo-cd"));
        Self {
            client: client(&server.kubeconfig("admin", &["system:masters"]).unwrap()).await,
            argo_cd,
            spokes: Vec::new(),
            stop: CancellationToken::new(),
            operator: Some(operator),
            kubeconfig,
            serves: Serves::Embedded { _server: server },
            dir,
        }
    }

    /// Starts a Kubernetes API server as the hub, with our operator as installed by the chart.
    async fn start(name: &str) -> Self {
        let cluster = Cluster::start(name).await;
        let (dir, kubectl) = (Directory::new(name), cluster.kubectl());
        program::install(&kubectl);
        kubectl.run(&["create", "namespace", FLEET]);
        install_operator(&cluster);
        let account = account_kubeconfig(&cluster, "wheelwright-operator", helm::NAMESPACE);
        std::fs::write(dir.path(OPERATOR), account).unwrap();
        let operator = run_operator(&kubectl, &dir);
        let argo_cd = ArgoCd::start(&cluster, &dir.path("argo-cd"));
        Self {
            client: cluster.client().await,
            argo_cd,
            spokes: Vec::new(),
            stop: CancellationToken::new(),
            operator: Some(operator),
            kubeconfig: cluster.kubeconfig.clone(),
            serves: Serves::Kubernetes { cluster: Box::new(cluster) },
            dir,
        }
    }

    /// Ends the operator and Argo CD as `kill -9` does, and starts both again.
    fn crash(&mut self) {
        self.operator.take().unwrap().kill_9();
        self.argo_cd.restart();
        let Serves::Kubernetes { cluster } = &self.serves else { panic!("the chart is not installed") };
        self.operator = Some(run_operator(&cluster.kubectl(), &self.dir));
    }

    /// Joins a new cluster with our agent.
    async fn join(&mut self, name: &str) {
        let server = embedded(crds::spoke()).await;
        let spoke = client(&server.kubeconfig("admin", &["system:masters"]).unwrap()).await;
        self.spokes.push(server);
        self.join_with(name, spoke, Vec::new()).await;
    }

    /// Joins the caller's cluster, whose agent reports `addresses` of its API server.
    async fn join_with(&self, name: &str, spoke: kube::Client, addresses: Vec<ClientConfig>) {
        let bootstrap = Kubeconfig::read_from(&self.kubeconfig).unwrap();
        let mut options = AgentOptions::new(Bootstrap::Given(Box::new(bootstrap)), spoke, name);
        options.client_configs = addresses;
        tokio::spawn(agent::run(options, self.stop.clone()));
        accept(&self.client, name).await;
    }

    fn repository(&self, name: &str) -> Repository {
        let dir = self.dir.path(name);
        std::fs::create_dir_all(&dir).unwrap();
        Repository::empty(&dir)
    }

    fn api(&self, kind: &str, namespace: &str) -> Api<DynamicObject> {
        let group_version = match kind {
            "Application" | "ApplicationSet" | "AppProject" => "argoproj.io/v1alpha1",
            "ConfigRepo" | "ClusterDecision" | "RolloutPolicy" => "gitops.wheelwright.dev/v1alpha1",
            "ManifestWorkReplicaSet" => "work.open-cluster-management.io/v1alpha1",
            "ManifestWork" => "work.open-cluster-management.io/v1",
            "ManagedCluster" => "cluster.open-cluster-management.io/v1",
            "Placement" | "PlacementDecision" => "cluster.open-cluster-management.io/v1beta1",
            "ClusterManagementAddOn" | "ManagedClusterAddOn" => "addon.open-cluster-management.io/v1alpha1",
            "ClusterRole" => "rbac.authorization.k8s.io/v1",
            "Deployment" => "apps/v1",
            _ => "v1",
        };
        let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        match namespace {
            "" => Api::all_with(self.client.clone(), &resource),
            namespace => Api::namespaced_with(self.client.clone(), namespace, &resource),
        }
    }

    /// Returns an object; `Null` if it does not exist.
    async fn get(&self, kind: &str, namespace: &str, name: &str) -> Value {
        let found = self.api(kind, namespace).get_opt(name).await.unwrap();
        found.map(|object| serde_json::to_value(object).unwrap()).unwrap_or_default()
    }

    async fn list(&self, kind: &str) -> Vec<Value> {
        let all = self.api(kind, "").list(&ListParams::default()).await.unwrap().items;
        all.into_iter().map(|object| serde_json::to_value(object).unwrap()).collect()
    }

    async fn apply(&self, object: Value) {
        apply(&self.client, &Object::from_value(object).unwrap()).await;
    }

    async fn patch(&self, kind: &str, namespace: &str, name: &str, patch: Value) {
        let patch = Patch::Merge(patch);
        self.api(kind, namespace).patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    async fn delete(&self, kind: &str, namespace: &str, name: &str) {
        self.api(kind, namespace).delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Makes a ConfigRepo follow a repository. It fetches often, because nothing sends webhooks here.
    async fn follow(&self, name: &str, repository: &Repository, mode: &str) {
        let spec = json!({"url": repository.path, "mode": mode, "interval": "1s", "healthTimeout": "0s"});
        let metadata = json!({"name": name, "namespace": helm::NAMESPACE});
        self.apply(json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo", "metadata": metadata, "spec": spec}))
            .await;
    }

    /// Returns the status, reason and message of a ConfigRepo's Ready condition.
    async fn ready(&self, name: &str) -> String {
        let repo = self.get("ConfigRepo", helm::NAMESPACE, name).await;
        let conditions = repo["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let ready = conditions.iter().find(|condition| condition["type"] == "Ready");
        ready
            .map(|one| format!("{} {} {}", one["status"], one["reason"], one["message"]))
            .unwrap_or_default()
            .replace('"', "")
    }

    async fn becomes(&self, name: &str, state: &str) {
        eventually(&format!("ConfigRepo {name}: {state}"), async || self.ready(name).await.contains(state))
            .await;
    }

    /// Makes an Application follow a repository, with automated sync and pruning.
    async fn application(&self, name: &str, repository: &Repository, more: Value) {
        let mut spec = json!({"project": "default",
            "source": {"repoURL": url(&repository.path), "targetRevision": "main", "path": ".", "directory": {"recurse": true}},
            "destination": {"server": "https://kubernetes.default.svc", "namespace": FLEET},
            "syncPolicy": {"automated": {"prune": true}}});
        json_patch::merge(&mut spec, &more);
        let metadata = json!({"name": name, "namespace": NAMESPACE});
        self.apply(json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": metadata, "spec": spec}))
            .await;
    }

    /// Makes Argo CD refresh a repository, as a webhook would. Argo CD 3.5 loses a request that arrives while it
    /// writes the Application: it puts the response to its own write, which is older, into its cache. The annotation
    /// stays, so the same request again would change nothing.
    async fn refresh(&self, application: &str) {
        let refresh = json!({"metadata": {"annotations": {"argocd.argoproj.io/refresh": "normal"}}});
        self.patch("Application", NAMESPACE, application, refresh).await;
    }

    async fn app(&self, name: &str) -> Value {
        self.get("Application", NAMESPACE, name).await
    }

    /// Waits until Argo CD has applied a commit; fails if the sync fails.
    async fn synced(&self, name: &str, commit: &str) -> Value {
        let (mut app, mut shown) = (Value::Null, String::new());
        eventually(&format!("Argo CD has applied {commit} of {name}"), async || {
            app = self.app(name).await;
            let operation = &app["status"]["operationState"];
            let is_its = operation["syncResult"]["revision"] == commit;
            assert!(!is_its || operation["phase"] != "Failed", "{operation:#}");
            let resources = app["status"]["resources"].as_array().into_iter().flatten();
            let differs: Vec<&Value> =
                resources.filter(|one| one["status"] != "Synced").map(|one| &one["name"]).collect();
            let now =
                format!("{name}: {} {} {differs:?}", operation["phase"], app["status"]["sync"]["status"]);
            if now != shown {
                eprintln!("{now}");
                shown = now;
            }
            is_its && operation["phase"] == "Succeeded" && app["status"]["sync"]["status"] == "Synced"
        })
        .await;
        app
    }
}

async fn embedded(definitions: Vec<CustomResourceDefinition>) -> Server {
    install_crypto();
    let objects = definitions.iter().map(Object::from_typed).collect();
    Server::start(ServerOptions { objects, ..ServerOptions::new(now) }).await.unwrap()
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Starts the operator that the chart has installed.
fn run_operator(kubectl: &Kubectl, dir: &Directory) -> Running {
    start_operator(kubectl, &dir.path(OPERATOR), &dir.path(""), free_port(), &["--local-repositories"])
}

/// Installs the chart with the values from the pages about Argo CD.
fn install_operator(cluster: &Cluster) {
    let rules = json!([{"apiGroups": ["", "apps", "rbac.authorization.k8s.io"],
        "resources": ["configmaps", "secrets", "deployments", "clusterroles"],
        "verbs": ["get", "list", "watch", "create", "patch", "delete"]}]);
    let mut command = std::process::Command::new(helm::program());
    command.args(["install", "wheelwright", concat!(env!("CARGO_MANIFEST_DIR"), "/charts/wheelwright")]);
    command
        .args(["--create-namespace", "--namespace", helm::NAMESPACE])
        .arg("--kubeconfig")
        .arg(&cluster.kubeconfig);
    for value in [
        &format!("extraRules={rules}")[..],
        "conversionWebhook.enabled=false",
        "argocd.enabled=true",
        "argocd.refresh=true",
        "argocd.clusterSecrets=true",
        "argocd.managedServiceAccount=\"argocd\"",
        "argocd.pullModel=true",
    ] {
        command.args(["--set-json", value]);
    }
    let output = command.env("HOME", cluster.path("helm-home")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let allowed = "gitops.wheelwright.dev/operator-identity=allowed";
    cluster.kubectl().run(&["label", "namespace", helm::NAMESPACE, allowed]);
}

/// Returns the URL that Argo CD uses for a local repository.
fn url(repository: &Path) -> String {
    format!("file://{}", repository.display())
}

fn config_map(name: &str, value: &str, annotations: Value) -> String {
    let metadata = json!({"name": name, "namespace": FLEET, "annotations": annotations});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": value}}).to_string()
}

/// Returns a binding of the cluster set that contains all clusters.
fn binding(namespace: &str) -> Value {
    json!({"apiVersion": "cluster.open-cluster-management.io/v1beta2", "kind": "ManagedClusterSetBinding",
        "metadata": {"name": "global", "namespace": namespace}, "spec": {"clusterSet": "global"}})
}

fn placement(name: &str, spec: Value) -> String {
    let metadata = json!({"name": name, "namespace": FLEET});
    json!({"apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement", "metadata": metadata, "spec": spec})
        .to_string()
}
