//! Real API servers for tests: etcd, kube-apiserver and kube-controller-manager as processes on free loopback
//! ports.
//!
//! `tests/kube/build` finds or builds the programs. Each [`Cluster`] has its own directory, certificates and
//! ports, so several can run at once. It stops when dropped. If the test fails, its directory is kept so that the
//! logs can be read.

mod certificates;
pub(crate) mod helm;
mod kubectl;
mod process;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Once, OnceLock};
use std::time::{Duration, Instant};

use kube::config::{KubeConfigOptions, Kubeconfig};
use wheelwright::apiserver::{Credential, kubeconfig_yaml};
use wheelwright::pki::Authority;

use certificates::{client_certificate, write_authority};
pub(crate) use kubectl::Kubectl;
pub(crate) use process::{Process, built, free_port};

/// kube-apiserver is ready 3 s after its start on an idle machine; a busy one takes longer.
const READY_WITHIN: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(100);
/// The kube-controller-manager controllers that run in tests. No pods run here.
const CONTROLLERS: &str = "garbage-collector-controller,namespace-controller,certificatesigningrequest-signing-controller,\
    certificatesigningrequest-cleaner-controller,serviceaccount-controller,serviceaccount-token-controller,\
    root-ca-certificate-publisher-controller,clusterrole-aggregation-controller";

/// Returns the directory of the programs, building them if they do not exist.
pub(crate) fn assets() -> &'static Path {
    static ASSETS: OnceLock<PathBuf> = OnceLock::new();
    ASSETS.get_or_init(|| built("tests/kube/build"))
}

/// The Kubernetes version of a control plane.
#[derive(Clone)]
pub(crate) enum Version {
    /// The pinned version.
    Pinned,
    /// The pinned programs serve the APIs and feature gates of this minor version, such as `1.33`.
    Emulated(&'static str),
    /// A directory that contains kube-apiserver and kube-controller-manager.
    Built(PathBuf),
}

impl Version {
    fn command(&self, program: &str) -> Command {
        let directory = if let Self::Built(directory) = self { directory } else { assets() };
        let mut command = Command::new(directory.join(program));
        if let Self::Emulated(version) = self {
            command.arg(format!("--emulated-version={version}"));
        }
        command
    }
}

/// A running control plane.
pub(crate) struct Cluster {
    /// URL of the API server.
    pub(crate) url: String,
    /// The kubeconfig file of a cluster administrator.
    pub(crate) kubeconfig: PathBuf,
    version: Version,
    /// Additional flags of the API server.
    flags: Vec<String>,
    authority: Authority,
    ports: Ports,
    etcd: Process,
    apiserver: Process,
    /// kube-controller-manager; absent until the API server serves for the first time.
    controllers: Option<Process>,
    // The last field, so that the processes above stop before their files are removed.
    dir: Directory,
}

#[derive(Clone, Copy)]
struct Ports {
    etcd: u16,
    etcd_peer: u16,
    apiserver: u16,
}

impl Ports {
    /// Returns etcd's URLs for clients and for peers.
    fn etcd_urls(self) -> [String; 2] {
        [self.etcd, self.etcd_peer].map(|port| format!("http://127.0.0.1:{port}"))
    }
}

impl Cluster {
    /// Starts a control plane and waits until it serves.
    pub(crate) async fn start(name: &str) -> Self {
        Self::start_with(name, &[]).await
    }

    /// Starts a control plane whose API server has additional flags, and waits until it serves.
    pub(crate) async fn start_with(name: &str, flags: &[String]) -> Self {
        install_crypto();
        let mut cluster = Self::spawn(name, Version::Pinned, flags);
        cluster.ready().await;
        cluster
    }

    /// Starts several control planes at once.
    pub(crate) async fn start_all(names: &[&str]) -> Vec<Self> {
        Self::start_all_of(names, &Version::Pinned).await
    }

    /// Starts several control planes of one version at once.
    pub(crate) async fn start_all_of(names: &[&str], version: &Version) -> Vec<Self> {
        install_crypto();
        let mut clusters: Vec<Self> =
            names.iter().map(|name| Self::spawn(name, version.clone(), &[])).collect();
        for cluster in &mut clusters {
            cluster.ready().await;
        }
        clusters
    }

    fn spawn(name: &str, version: Version, flags: &[String]) -> Self {
        let dir = Directory::new(name);
        let ports = Ports { etcd: free_port(), etcd_peer: free_port(), apiserver: free_port() };
        let url = format!("https://127.0.0.1:{}", ports.apiserver);
        Self {
            authority: write_authority(&dir, &url),
            etcd: start_etcd(&dir, ports),
            apiserver: start_apiserver(&version, &dir, ports, flags),
            flags: flags.to_vec(),
            version,
            controllers: None,
            url,
            kubeconfig: dir.path("admin.kubeconfig"),
            ports,
            dir,
        }
    }

    async fn ready(&mut self) {
        let client = self.client().await;
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            for process in [&mut self.etcd, &mut self.apiserver] {
                process.assert_running();
            }
            let request = axum::http::Request::get("/readyz").body(Vec::new()).unwrap();
            let ready = client.request_text(request).await;
            match ready {
                Ok(_) => break,
                Err(error) => assert!(
                    Instant::now() < deadline,
                    "{} not ready: {error}\n{}",
                    self.url,
                    self.apiserver.log_tail()
                ),
            }
            tokio::time::sleep(POLL).await;
        }
        // kube-controller-manager exits if its API server does not serve within 10 s, which is too short for a
        // busy machine.
        if !self.controllers.as_mut().is_some_and(Process::is_running) {
            self.controllers = Some(start_controllers(&self.version, &self.dir));
        }
    }

    /// Returns an administrator's client that does not retry requests.
    pub(crate) async fn client(&self) -> kube::Client {
        client_of(&self.kubeconfig).await
    }

    /// Returns the authority's certificate in PEM.
    pub(crate) fn ca_pem(&self) -> String {
        self.authority.certificate_pem()
    }

    /// Returns etcd's URLs for clients and for peers.
    pub(crate) fn etcd_urls(&self) -> [String; 2] {
        self.ports.etcd_urls()
    }

    /// Returns kubectl as the administrator.
    pub(crate) fn kubectl(&self) -> Kubectl {
        Kubectl::new(&self.kubeconfig, self.dir.path("kubectl-home"))
    }

    /// Writes the kubeconfig file of another user with a client certificate.
    pub(crate) fn kubeconfig_for(&self, user: &str, groups: &[&str]) -> PathBuf {
        self.kubeconfig_at(&self.url, user, groups)
    }

    /// Writes the kubeconfig file for another URL, such as a proxy in front of this API server.
    pub(crate) fn kubeconfig_at(&self, url: &str, user: &str, groups: &[&str]) -> PathBuf {
        let identity = client_certificate(&self.authority, user, groups);
        let of = format!("{user}-{}", url.rsplit(':').next().unwrap());
        let file = self.dir.path(&format!("{}.kubeconfig", of.replace([':', '/'], "-")));
        let text =
            kubeconfig_yaml(url, &self.authority.certificate_pem(), &Credential::Certificate(identity));
        std::fs::write(&file, text).unwrap();
        file
    }

    /// Returns the path of one of the control plane's files, such as `ca.crt`.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path(name)
    }

    /// Stops the API server and etcd, copies etcd's data to the directory `to`, and restarts both.
    pub(crate) async fn back_up(&mut self, to: &Path) {
        self.kill_apiserver();
        self.etcd.kill();
        copy(&self.dir.path("etcd"), to);
        self.restart().await;
    }

    /// Replaces etcd's data with a copy; the resource versions go back.
    pub(crate) async fn restore(&mut self, from: &Path) {
        self.clear();
        copy(from, &self.dir.path("etcd"));
        self.restart().await;
    }

    /// Rebuilds the control plane at its address without objects and, if requested, with another authority.
    pub(crate) async fn rebuild(&mut self, with_authority: bool) {
        self.clear();
        if with_authority {
            self.authority = write_authority(&self.dir, &self.url);
        }
        self.restart().await;
    }

    /// Kills the control plane and removes etcd's data.
    fn clear(&mut self) {
        self.kill_apiserver();
        self.etcd.kill();
        // Programs that cache the API must be restarted, as the Kubernetes documentation about restoring etcd
        // says.
        self.controllers.as_mut().unwrap().kill();
        std::fs::remove_dir_all(self.dir.path("etcd")).unwrap();
    }

    /// Restarts etcd and the API server.
    async fn restart(&mut self) {
        self.etcd = start_etcd(&self.dir, self.ports);
        self.restart_apiserver().await;
    }

    /// Kills the API server with `kill -9`; etcd keeps its data.
    pub(crate) fn kill_apiserver(&mut self) {
        self.apiserver.kill();
    }

    /// Restarts a killed API server on the same port and waits until it serves.
    pub(crate) async fn restart_apiserver(&mut self) {
        self.apiserver = start_apiserver(&self.version, &self.dir, self.ports, &self.flags);
        self.ready().await;
    }
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(copied.success());
}

/// Returns a client for a kubeconfig file that does not retry requests.
pub(crate) async fn client_of(kubeconfig: &Path) -> kube::Client {
    install_crypto();
    let file = Kubeconfig::read_from(kubeconfig).unwrap();
    let mut config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.unwrap();
    config.default_retry = false;
    kube::Client::try_from(config).unwrap()
}

/// Installs the cryptography provider of rustls once.
pub(crate) fn install_crypto() {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| drop(rustls::crypto::ring::default_provider().install_default()));
}

fn start_etcd(dir: &Directory, ports: Ports) -> Process {
    let [client, peer] = ports.etcd_urls();
    let mut command = Command::new(assets().join("etcd"));
    command.arg("--data-dir").arg(dir.path("etcd")).args([
        "--unsafe-no-fsync",
        "--log-level=warn",
        "--name=default",
    ]);
    command.arg(format!("--listen-client-urls={client}")).arg(format!("--advertise-client-urls={client}"));
    command.arg(format!("--listen-peer-urls={peer}")).arg(format!("--initial-advertise-peer-urls={peer}"));
    command.arg(format!("--initial-cluster=default={peer}"));
    Process::start("etcd", command, dir)
}

fn start_apiserver(version: &Version, dir: &Directory, ports: Ports, flags: &[String]) -> Process {
    let mut command = version.command("kube-apiserver");
    let mut file = |flag: &str, name: &str| {
        command.arg(format!("--{flag}={}", dir.path(name).display()));
    };
    file("cert-dir", "apiserver");
    file("tls-cert-file", "serving.crt");
    file("tls-private-key-file", "serving.key");
    file("client-ca-file", "ca.crt");
    file("requestheader-client-ca-file", "ca.crt");
    file("service-account-key-file", "service-accounts.crt");
    file("service-account-signing-key-file", "service-accounts.key");
    command
        .arg(format!("--etcd-servers=http://127.0.0.1:{}", ports.etcd))
        .arg(format!("--secure-port={}", ports.apiserver));
    command.args([
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        "--service-cluster-ip-range=10.0.0.0/16",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--authorization-mode=RBAC",
        "--enable-bootstrap-token-auth",
        "--requestheader-allowed-names=front-proxy",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--profiling=false",
        "--shutdown-delay-duration=0s",
    ]);
    command.args(flags);
    Process::start("kube-apiserver", command, dir)
}

fn start_controllers(version: &Version, dir: &Directory) -> Process {
    let mut command = version.command("kube-controller-manager");
    let mut file = |flag: &str, name: &str| {
        command.arg(format!("--{flag}={}", dir.path(name).display()));
    };
    file("kubeconfig", "admin.kubeconfig");
    file("cluster-signing-cert-file", "ca.crt");
    file("cluster-signing-key-file", "ca.key");
    file("root-ca-file", "ca.crt");
    file("service-account-private-key-file", "service-accounts.key");
    command.arg(format!("--controllers={CONTROLLERS}"));
    command.args(["--leader-elect=false", "--secure-port=0", "--kube-api-qps=1000", "--kube-api-burst=1000"]);
    Process::start("kube-controller-manager", command, dir)
}

/// A temporary directory that is kept if the test fails.
pub(crate) struct Directory(Option<tempfile::TempDir>);

/// Prefix of these directories' names, followed by the process id.
const PREFIX: &str = "wheelwright-test-";
/// A file that marks a directory to keep.
const KEPT: &str = "kept";

impl Directory {
    pub(crate) fn new(name: &str) -> Self {
        static SWEPT: Once = Once::new();
        SWEPT.call_once(sweep);
        let prefix = format!("{PREFIX}{}-{name}-", std::process::id());
        Self(Some(tempfile::Builder::new().prefix(&prefix).tempdir().unwrap()))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.as_ref().expect("taken only by drop").path().join(name)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if let Some(dir) = self.0.take()
            && std::thread::panicking()
        {
            // The logs are useful, but the 130 MB that etcd preallocates are not.
            drop(std::fs::remove_dir_all(dir.path().join("etcd")));
            drop(std::fs::write(dir.path().join(KEPT), ""));
            eprintln!("logs are kept in {}", dir.keep().display());
        }
    }
}

/// Removes the directories of test processes that were killed before they could do so.
fn sweep() {
    if !Path::new("/proc/self").exists() {
        return;
    }
    for entry in std::fs::read_dir(std::env::temp_dir()).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap_or_default();
        let process = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        let Some(process) = process.and_then(|id| id.parse::<u32>().ok()) else { continue };
        if !Path::new(&format!("/proc/{process}")).exists() && !entry.path().join(KEPT).exists() {
            // Another test process may remove it at the same time.
            drop(std::fs::remove_dir_all(entry.path()));
        }
    }
}

#[test]
fn directories_of_killed_tests_are_removed_by_the_next_run() {
    let mut ended = Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    let make = |process: u32| {
        let prefix = format!("{PREFIX}{process}-sweep-");
        tempfile::Builder::new().prefix(&prefix).tempdir().unwrap()
    };
    let (killed, kept, running) = (make(ended.id()), make(ended.id()), make(std::process::id()));
    std::fs::write(kept.path().join(KEPT), "").unwrap();
    sweep();
    assert_eq!([&killed, &kept, &running].map(|dir| dir.path().exists()), [false, true, true]);
}

#[tokio::test]
async fn a_real_api_server_serves_collects_garbage_and_authorizes() {
    let cluster = Cluster::start("harness").await;
    let kubectl = cluster.kubectl();
    let version = kubectl.run(&["version", "-o", "json"]);
    assert!(version.contains("\"gitVersion\": \"v1.36"), "{version}");
    kubectl.run(&["create", "namespace", "harness"]);
    kubectl.run(&["delete", "namespace", "harness", "--timeout=60s"]);
    let stranger =
        Kubectl::new(&cluster.kubeconfig_for("nobody", &["none"]), cluster.dir.path("kubectl-home"));
    assert!(stranger.fails(&["get", "secrets"]).contains("Forbidden"));
}

#[tokio::test]
async fn real_api_servers_run_next_to_each_other_and_survive_a_kill() {
    let mut clusters = Cluster::start_all(&["one", "two"]).await;
    let document =
        r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept", "namespace": "default"}}"#;
    clusters[0].kubectl().run_with(&["create", "-f", "-"], document);
    assert!(clusters[1].kubectl().fails(&["get", "configmap", "kept"]).contains("NotFound"));
    clusters[0].kill_apiserver();
    clusters[0].kubectl().fails(&["get", "configmap", "kept"]);
    clusters[0].restart_apiserver().await;
    clusters[0].kubectl().run(&["get", "configmap", "kept"]);
}
