//! An add-on on one cluster: its state on the hub, and the processes that would run as pods on a cluster.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::Api;
use serde_json::Value;

use crate::published::hub::Hub;
use crate::running::Running;
use crate::wait::eventually;

/// Returns the path of an example's binary.
pub(crate) fn example(name: &str) -> String {
    static BUILT: OnceLock<()> = OnceLock::new();
    BUILT.get_or_init(|| {
        // Build with the root package, so that dependencies get the same features and are not rebuilt.
        let packages = ["-p", "wheelwright", "-p", "helloworld", "-p", "resource-score", "--bins"];
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet"]).args(packages).current_dir(env!("CARGO_MANIFEST_DIR"));
        // Unset these variables: if they differ from a shell's, build scripts such as `ring`'s run again and
        // everything that depends on them is rebuilt.
        for (name, _) in std::env::vars()
            .filter(|(name, _)| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"))
        {
            cargo.env_remove(name);
        }
        assert!(cargo.status().unwrap().success(), "the examples are not built; see above");
    });
    let program = Path::new(env!("CARGO_BIN_EXE_wheelwright")).with_file_name(name);
    program.to_str().unwrap().to_owned()
}

/// An add-on on a cluster with one of our agents.
pub(super) struct Installed {
    pub(super) addon: &'static str,
    pub(super) cluster: &'static str,
    pub(super) spoke: kube::Client,
}

impl Installed {
    /// Joins a cluster, either before or after the add-on is installed.
    pub(super) async fn on(hub: &mut Hub, addon: &'static str, cluster: &'static str) -> Self {
        let spoke = hub.join_with_agent(cluster, &[]).await;
        Self { addon, cluster, spoke }
    }

    pub(super) fn on_hub(&self, hub: &Hub) -> Value {
        hub.get(&["managedclusteraddon", self.addon, "-n", self.cluster])
    }

    /// Returns the reason of a condition; empty if it is not set.
    pub(super) fn reason(&self, hub: &Hub, type_: &str) -> String {
        let addon = self.on_hub(hub);
        let conditions = addon["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let condition = conditions.into_iter().find(|one| one["type"] == type_).unwrap_or_default();
        condition["reason"].as_str().unwrap_or_default().to_owned()
    }

    /// Waits until a condition has a reason.
    pub(super) async fn says(&self, hub: &Hub, type_: &str, reason: &str) {
        let state = format!("{} on {} says {type_}, {reason}", self.addon, self.cluster);
        eventually(&state, async || self.reason(hub, type_) == reason).await;
    }

    pub(super) fn work(&self, hub: &Hub) -> Value {
        hub.get(&["manifestwork", &format!("addon-{}-deploy-0", self.addon), "-n", self.cluster])
    }

    /// Returns the Deployment of the agent in the work.
    pub(super) fn deployment(&self, hub: &Hub) -> Value {
        let work = self.work(hub);
        let manifests = work["spec"]["workload"]["manifests"].as_array().cloned().unwrap_or_default();
        manifests.into_iter().find(|one| one["kind"] == "Deployment").unwrap_or_default()
    }

    /// Waits for the agent's identity and writes it as a pod would mount it; returns the kubeconfig.
    pub(super) async fn identity(&self, hub: &Hub, namespace: &str) -> PathBuf {
        let secrets: Api<Secret> = Api::namespaced(self.spoke.clone(), namespace);
        let mut secret = None;
        eventually("the cluster has the identity of the add-on's agent", async || {
            secret = secrets.get_opt(&format!("{}-hub-kubeconfig", self.addon)).await.unwrap();
            secret.is_some()
        })
        .await;
        mount(hub, &format!("{}-{}", self.addon, self.cluster), secret.unwrap())
    }

    /// Starts the agent of an example as its Deployment specifies.
    pub(super) async fn start_agent(&self, hub: &Hub, namespace: &str) -> Running {
        let identity = self.identity(hub, namespace).await;
        let spoke = hub.path(&format!("{}.kubeconfig", self.cluster));
        let args = self.deployment(hub)["spec"]["template"]["spec"]["containers"][0]["args"].clone();
        let args: Vec<&str> = args.as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()).collect();
        let more = ["--cluster-name", self.cluster, "--hub-kubeconfig", identity.to_str().unwrap()];
        let spoke = ["--spoke-kubeconfig", spoke.to_str().unwrap()];
        let name = format!("{}-agent-{}", self.addon, self.cluster);
        Running::start_program(
            &example(self.addon),
            &name,
            &hub.path(""),
            &[&args[..], &more, &spoke].concat(),
        )
    }

    /// Waits until the hub has no objects of the add-on, and the cluster no longer has its namespace.
    pub(super) async fn is_gone(&self, hub: &Hub, namespace: &str) {
        let namespaces: Api<Namespace> = Api::all(self.spoke.clone());
        let label = format!("open-cluster-management.io/addon-name={}", self.addon);
        eventually("nothing is left of the add-on", async || {
            let kinds = "managedclusteraddons,manifestworks,roles,rolebindings";
            let left = hub.get(&[kinds, "-n", self.cluster, "-l", &label]);
            self.on_hub(hub).is_null()
                && left["items"].as_array().is_none_or(Vec::is_empty)
                && namespaces.get_opt(namespace).await.unwrap().is_none()
        })
        .await;
    }
}

/// Writes a secret as a pod would mount it; returns the path of its kubeconfig.
pub(super) fn mount(hub: &Hub, name: &str, secret: Secret) -> PathBuf {
    let dir = hub.path(name);
    std::fs::create_dir(&dir).unwrap();
    for (name, bytes) in secret.data.unwrap() {
        std::fs::write(dir.join(name), bytes.0).unwrap();
    }
    dir.join("kubeconfig")
}

/// Starts the manager of an example as its Deployment on the hub specifies.
pub(super) fn start_manager(hub: &Hub, addon: &str) -> Running {
    let kubeconfig = hub.kubeconfig_of(addon, "manager");
    let deployment = hub.get(&["deployment", "manager", "-n", addon]);
    let args = deployment["spec"]["template"]["spec"]["containers"][0]["args"].clone();
    let args = args.as_array().unwrap().iter().map(|arg| arg.as_str().unwrap());
    let listen = format!("--listen=127.0.0.1:{}", crate::kube::free_port());
    let args: Vec<&str> = args.filter(|arg| !arg.starts_with("--listen")).collect();
    let more = [listen.as_str(), "--kubeconfig", kubeconfig.to_str().unwrap()];
    let name = format!("{addon}-manager");
    Running::start_program(&example(addon), &name, &hub.path(""), &[&args[..], &more].concat())
}
