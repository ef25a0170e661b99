//! Argo CD's processes on a cluster, as configured by its installation.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::json;

use super::NAMESPACE;
use crate::klusterlet::pod::account_kubeconfig;
use crate::kube::{Cluster, Kubectl, built, free_port};
use crate::running::Running;

/// The account of the ApplicationSet controller, to which Wheelwright's chart grants a Role.
const GENERATOR: &str = "argocd-applicationset-controller";
const CONTROLLER: &str = "argocd-application-controller";

/// Returns the directory of the programs, building them if they do not exist.
fn assets() -> &'static Path {
    static ASSETS: OnceLock<PathBuf> = OnceLock::new();
    ASSETS.get_or_init(|| built("tests/argocd/build"))
}

/// Installs Argo CD's prerequisites on a cluster, with Wheelwright's health checks and support for charts in
/// kustomizations as in docs/argocd.md.
pub(super) fn install(kubectl: &Kubectl) {
    kubectl.run(&["create", "namespace", NAMESPACE]);
    for kind in ["application", "applicationset", "appproject"] {
        let file = assets().join(format!("crds/{kind}-crd.yaml"));
        kubectl.run(&["apply", "--server-side", "-f", file.to_str().unwrap()]);
    }
    kubectl.establishes();
    for part in ["config", "generator", "generator-cluster"] {
        let directory = assets().join(part);
        kubectl.run(&["apply", "-n", NAMESPACE, "-k", directory.to_str().unwrap()]);
    }
    let settings = ["patch", "configmap", "argocd-cm", "-n", NAMESPACE];
    let checks = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/argocd/argocd-cm.yaml");
    kubectl.run(&[&settings[..], &["--patch-file", checks]].concat());
    let charts = json!({"data": {"kustomize.buildOptions": "--enable-helm"}}).to_string();
    kubectl.run(&[&settings[..], &["-p", &charts]].concat());
    let key = json!({"stringData": {"server.secretkey": "a key of the tests"}}).to_string();
    kubectl.run(&["patch", "secret", "argocd-secret", "-n", NAMESPACE, "-p", &key]);
    kubectl.run(&["create", "secret", "generic", "argocd-redis", "-n", NAMESPACE, "--from-literal=auth="]);
    let anything = json!({"group": "*", "kind": "*"});
    let project = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject",
        "metadata": {"name": "default", "namespace": NAMESPACE},
        "spec": {"sourceRepos": ["*"], "destinations": [{"namespace": "*", "server": "*"}], "clusterResourceWhitelist": [anything]}});
    kubectl.run_with(&["apply", "-f", "-"], &project.to_string());
}

/// A running Argo CD.
pub(super) struct ArgoCd {
    dir: PathBuf,
    repo_server: String,
    redis: String,
    /// The additional namespace whose Applications it manages.
    teams: Option<&'static str>,
    /// The proxy to hosts other than this machine.
    proxy: Option<String>,
    /// Application controller, ApplicationSet controller, repo-server and redis.
    processes: Vec<Running>,
}

impl ArgoCd {
    /// Starts Argo CD as an administrator on a cluster where it is installed; the ApplicationSet controller uses
    /// its own account.
    pub(super) fn start(cluster: &Cluster, dir: &Path) -> Self {
        let admin = fs::read_to_string(&cluster.kubeconfig).unwrap();
        Self::start_as(&admin, &account_kubeconfig(cluster, GENERATOR, NAMESPACE), dir)
    }

    /// Starts Argo CD with the kubeconfigs of an administrator and of the ApplicationSet controller.
    pub(super) fn start_as(admin: &str, generator: &str, dir: &Path) -> Self {
        for part in ["tls", "ssh", "gpg/keys", "gpg/source", "plugins"] {
            fs::create_dir_all(dir.join(part)).unwrap();
        }
        fs::write(dir.join("ssh/ssh_known_hosts"), "").unwrap();
        fs::write(dir.join(CONTROLLER), in_namespace(admin)).unwrap();
        fs::write(dir.join(GENERATOR), in_namespace(generator)).unwrap();
        let [redis, repo_server] = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
        let mut argo_cd =
            Self { dir: dir.to_owned(), repo_server, redis, teams: None, proxy: None, processes: Vec::new() };
        argo_cd.start_all();
        argo_cd
    }

    /// Restarts Argo CD with its server, and also manages the Applications of another namespace. Returns the
    /// address of the server.
    pub(super) fn serve(&mut self, teams: &'static str) -> String {
        self.teams = Some(teams);
        self.restart();
        let (port, metrics) = (free_port().to_string(), free_port().to_string());
        let listen = ["--insecure", "--address", "127.0.0.1", "--port", &port, "--metrics-port", &metrics];
        let peers = ["--redis", &self.redis, "--repo-server", &self.repo_server];
        let args =
            [&listen[..], &peers, &["--namespace", NAMESPACE, "--application-namespaces", teams]].concat();
        self.processes.push(self.component("argocd-server", CONTROLLER, &args));
        format!("127.0.0.1:{port}")
    }

    /// Starts it again behind a proxy.
    pub(super) fn use_proxy(&mut self, proxy: String) {
        self.proxy = Some(proxy);
        self.restart();
    }

    /// Returns Argo CD's own command line.
    pub(super) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(assets().join("argocd"));
        command.args(args).env("HOME", &self.dir).env_remove("XDG_CONFIG_HOME");
        command
    }

    /// Kills every process with `kill -9` and restarts them.
    pub(super) fn restart(&mut self) {
        self.processes.drain(..).for_each(Running::kill_9);
        self.start_all();
    }

    fn start_all(&mut self) {
        let redis = Running::start_program(
            assets().join("redis").to_str().unwrap(),
            "redis",
            &self.dir,
            &[&self.redis],
        );
        let repo_port = self.repo_server.rsplit(':').next().unwrap();
        let metrics = free_port().to_string();
        let repo_server = [
            "--address",
            "127.0.0.1",
            "--port",
            repo_port,
            "--metrics-port",
            &metrics,
            "--redis",
            &self.redis,
        ];
        let metrics = free_port().to_string();
        // Write each object's health to the status of its Application, where tests read it.
        let controller =
            ["--namespace", NAMESPACE, "--redis", &self.redis, "--repo-server", &self.repo_server];
        let mut controller =
            [&controller[..], &["--metrics-port", &metrics, "--persist-resource-health"]].concat();
        controller.extend(self.teams.iter().flat_map(|teams| ["--application-namespaces", teams]));
        let [metrics, probes, webhooks] = [(); 3].map(|()| format!("127.0.0.1:{}", free_port()));
        let generator = ["--namespace", NAMESPACE, "--argocd-repo-server", &self.repo_server];
        let listen = ["--metrics-addr", &metrics, "--probe-addr", &probes, "--webhook-addr", &webhooks];
        let generator = [&generator[..], &listen].concat();
        self.processes = vec![
            self.component(CONTROLLER, CONTROLLER, &controller),
            self.component(GENERATOR, GENERATOR, &generator),
            self.component("argocd-repo-server", CONTROLLER, &repo_server),
            redis,
        ];
    }

    /// Starts the program under the name that selects a component.
    fn component(&self, name: &str, kubeconfig: &str, args: &[&str]) -> Running {
        let mut command = Command::new(assets().join("argocd"));
        let path = std::env::var("PATH").unwrap();
        // repo-server calls kustomize and helm.
        let tools = built("tests/kustomize/build");
        command.args(args).env("PATH", format!("{}:{}:{path}", assets().display(), tools.display()));
        command.env("ARGOCD_BINARY_NAME", name).env("KUBECONFIG", self.dir.join(kubeconfig));
        command.env("ARGOCD_FAKE_IN_CLUSTER", "true").env("ARGOCD_GPG_ENABLED", "false");
        // If a refresh is lost (`Hub::refresh`), Argo CD compares again after this time. The default is longer than the
        // tests wait.
        command.env("ARGOCD_RECONCILIATION_TIMEOUT", "10s").env("ARGOCD_RECONCILIATION_JITTER", "0s");
        command.envs(self.proxy.iter().map(|proxy| ("HTTPS_PROXY", proxy)));
        for (variable, part) in [
            ("ARGOCD_TLS_DATA_PATH", "tls"),
            ("ARGOCD_SSH_DATA_PATH", "ssh"),
            ("ARGOCD_GNUPGHOME", "gpg/keys"),
            ("ARGOCD_GPG_DATA_PATH", "gpg/source"),
            ("ARGOCD_PLUGINSOCKFILEPATH", "plugins"),
        ] {
            command.env(variable, self.dir.join(part));
        }
        Running::spawn(&mut command, name, &self.dir, &self.dir)
    }
}

/// Returns a kubeconfig whose context selects Argo CD's namespace.
fn in_namespace(kubeconfig: &str) -> String {
    let mut kubeconfig: serde_json::Value = serde_saphyr::from_str(kubeconfig).unwrap();
    kubeconfig["contexts"][0]["context"]["namespace"] = NAMESPACE.into();
    kubeconfig.to_string()
}
