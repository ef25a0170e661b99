//! A fleet behind a proxy: operator, agent, a real hub, a real spoke, and clusters without an agent.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use api::addon::v1alpha1::ManagedClusterAddOn;
use api::cluster::v1::ManagedCluster;
use api::cluster::v1beta1::{Placement, PlacementDecision};
use api::work::v1::ManifestWork;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, ListParams};
use object::{Kind, Object};
use serde_json::{Value, json};

use super::proxy::Proxy;
use crate::e2e::{accept, prepare_hub};
use crate::fleet_commit;
use crate::kube::{Cluster, Kubectl, free_port};
use crate::running::{Running, git_daemon};
use crate::wait::eventually;

/// Number of clusters without an agent.
const BARE: usize = 4;
/// The fleet counts as at rest after this time without a write.
const REST: Duration = Duration::from_secs(2);

pub(super) struct Fleet {
    pub(super) hub: Cluster,
    pub(super) proxy: Proxy,
    pub(super) client: kube::Client,
    pub(super) spoke: Cluster,
    spoke_client: kube::Client,
    repository: PathBuf,
    /// The arguments of the operator and the agent.
    args: [Vec<String>; 2],
    operator: Option<Running>,
    agent: Option<Running>,
    /// git's own daemon and its port, if it serves the repository.
    daemon: Option<(Child, u16)>,
    /// The logs of the operator and agent, which print them when dropped, so this is dropped last.
    pub(super) dir: tempfile::TempDir,
}

/// The objects that a commit causes, with their uids and generations.
pub(super) type Standing = BTreeMap<String, (String, i64)>;

impl Fleet {
    /// Starts a fleet with a local repository and returns once the first commit is everywhere.
    pub(super) async fn start() -> Self {
        Self::start_with(None).await
    }

    /// Starts a fleet whose repository is served by git's own daemon.
    pub(super) async fn start_with_git_server() -> Self {
        Self::start_with(Some(free_port())).await
    }

    async fn start_with(git: Option<u16>) -> Self {
        let mut clusters = Cluster::start_all(&["faulty-hub", "faulty-spoke"]).await;
        let (spoke, hub) = (clusters.remove(1), clusters.remove(0));
        prepare_hub(&hub);
        let proxy = Proxy::start(&hub).await;
        let dir = tempfile::tempdir().unwrap();
        let operator = proxy.kubeconfig_for(&hub, "operator", &["system:masters"]);
        let bootstrap = proxy.kubeconfig_for(&hub, "bootstrap", &["system:bootstrappers:managedcluster"]);
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        // Without leader election: a killed operator would keep the lease for 12 s, and an operator without an API
        // server would exit after 8 s.
        let operator_args = ["operator", "--leader-elect=false", "--local-repositories", "--kubeconfig"];
        let operator_args = operator_args.map(str::to_owned);
        let agent_args = ["agent", "--spoke-cluster-name", "c1", "--spoke-kubeconfig"].map(str::to_owned);
        let of_agent = [text(&spoke.kubeconfig), "--hub-kubeconfig".to_owned(), text(&bootstrap)];
        let mut fleet = Self {
            client: hub.client().await,
            spoke_client: spoke.client().await,
            repository: dir.path().join("fleet.git"),
            args: [[&operator_args[..], &[text(&operator)]].concat(), [&agent_args[..], &of_agent].concat()],
            operator: None,
            agent: None,
            daemon: None,
            spoke,
            hub,
            proxy,
            dir,
        };
        fleet.commit("begin", &[]);
        if let Some(port) = git {
            fleet.start_daemon(port);
        }
        fleet.restart_operator();
        fleet.restart_agent();
        accept(&fleet.hub.kubectl(), "c1").await;
        for i in 0..BARE {
            fleet.add_cluster(&format!("bare-{i}")).await;
        }
        fleet.follow();
        fleet.arrives("begin", BARE + 1, "the first commit").await;
        fleet
    }

    /// Kills the operator with `kill -9`.
    pub(super) fn stop_operator(&mut self) {
        drop(self.operator.take());
    }

    /// Kills the operator with `kill -9` and starts a new one.
    pub(super) fn restart_operator(&mut self) {
        self.stop_operator();
        self.operator = Some(self.run("operator", &self.args[0]));
    }

    /// Kills the agent with `kill -9` and starts a new one.
    pub(super) fn restart_agent(&mut self) {
        drop(self.agent.take());
        self.agent = Some(self.run("agent", &self.args[1]));
    }

    fn run(&self, name: &str, args: &[String]) -> Running {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        Running::start(name, self.dir.path(), &args)
    }

    /// Kills git's daemon with `kill -9` and starts a new one.
    pub(super) fn restart_daemon(&mut self) {
        let (mut daemon, port) = self.daemon.take().unwrap();
        daemon.kill().unwrap();
        daemon.wait().unwrap();
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "nothing serves while it is down");
        self.start_daemon(port);
    }

    fn start_daemon(&mut self, port: u16) {
        let mut command = git_daemon(self.dir.path(), port);
        command.arg("--enable=receive-pack");
        let daemon = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.daemon = Some((daemon.unwrap(), port));
    }

    pub(super) fn kubectl(&self) -> Kubectl {
        self.hub.kubectl()
    }

    /// Adds a cluster without an agent.
    pub(super) async fn add_cluster(&self, name: &str) {
        let clusters: Api<ManagedCluster> = Api::all(self.client.clone());
        let cluster = json!({
            "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": { "name": name }, "spec": { "hubAcceptsClient": true },
        });
        clusters.create(&Default::default(), &serde_json::from_value(cluster).unwrap()).await.unwrap();
    }

    fn follow(&self) {
        let labels = json!({ "gitops.wheelwright.dev/operator-identity": "allowed" });
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "gitops", "labels": labels },
        });
        let url = match &self.daemon {
            Some((_, port)) => format!("git://127.0.0.1:{port}/fleet.git"),
            None => self.repository.to_str().unwrap().to_owned(),
        };
        let repo = json!({
            "apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo",
            "metadata": { "name": "fleet", "namespace": "gitops" },
            "spec": {
                "url": url, "interval": "1s",
                "report": { "branch": "status", "path": "/", "interval": "1s" },
            },
        });
        let objects = format!("{namespace}\n{repo}");
        self.kubectl().run_with(&["apply", "--server-side", "-f", "-"], &objects);
    }

    /// Commits a value for all clusters, and additional objects for the hub.
    pub(super) fn commit(&self, word: &str, further: &[Value]) {
        fleet_commit::commit_with(&self.repository, word, further);
    }

    /// Waits until a value is everywhere and reported, and all clients have stopped writing.
    pub(super) async fn arrives(&self, word: &str, clusters: usize, when: &str) {
        eventually(&format!("{when}: {word:?} in the works of all clusters"), async || {
            self.words().await.is_some_and(|words| words == vec![word; clusters])
        })
        .await;
        let maps: Api<ConfigMap> = Api::namespaced(self.spoke_client.clone(), "default");
        eventually(&format!("{when}: {word:?} on the spoke"), async || {
            let map = maps.get_opt("bench").await.unwrap();
            map.is_some_and(|map| map.data.is_some_and(|data| data.get("word").is_some_and(|is| is == word)))
        })
        .await;
        eventually(&format!("{when}: a report of {word:?}"), async || self.is_reported()).await;
        eventually(&format!("{when}: nothing is written"), async || self.rests()).await;
    }

    /// Returns the values in the works; `None` while the hub does not respond.
    async fn words(&self) -> Option<Vec<String>> {
        let works: Api<ManifestWork> = Api::all(self.client.clone());
        let works = works.list(&ListParams::default()).await.ok()?.items;
        let word = |work: &ManifestWork| {
            let spec = serde_json::to_value(&work.spec).unwrap();
            spec["workload"]["manifests"][0]["data"]["word"].as_str().unwrap_or_default().to_owned()
        };
        Some(works.iter().map(word).collect())
    }

    /// Returns true if the status branch names the last commit.
    fn is_reported(&self) -> bool {
        let git = git2::Repository::open_bare(&self.repository).unwrap();
        let commit = git.refname_to_id("refs/heads/main").unwrap().to_string();
        let Ok(tip) = git.refname_to_id("refs/heads/status") else { return false };
        let tree = git.find_commit(tip).unwrap().tree().unwrap();
        let entry = tree.get_name("summary.json").unwrap();
        String::from_utf8_lossy(git.find_blob(entry.id()).unwrap().content()).contains(&commit)
    }

    fn rests(&self) -> bool {
        let since = Instant::now().checked_sub(REST).unwrap();
        let seen = self.proxy.seen();
        !seen.iter().any(|seen| seen.at > since && seen.call.is_write() && !seen.call.is_sign_of_life())
    }

    /// Returns all objects that commits cause.
    pub(super) async fn standing(&self) -> Standing {
        let mut standing = Standing::new();
        self.take::<ManifestWork>(&mut standing).await;
        self.take::<ManagedClusterAddOn>(&mut standing).await;
        self.take::<Placement>(&mut standing).await;
        self.take::<PlacementDecision>(&mut standing).await;
        self.take::<Namespace>(&mut standing).await;
        let maps: Api<ConfigMap> = Api::namespaced(self.spoke_client.clone(), "default");
        let map = Object::from_typed(&maps.get("bench").await.unwrap());
        standing.insert("the map of the spoke".into(), (map.uid().to_owned(), 0));
        standing
    }

    async fn take<K: Kind>(&self, standing: &mut Standing) {
        let api: Api<K> = Api::all(self.client.clone());
        for object in api.list(&ListParams::default()).await.unwrap().items {
            let object = Object::from_typed(&object);
            let id = format!("{} {}", object.kind(), object.key());
            standing.insert(id, (object.uid().to_owned(), object.generation()));
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if let Some((daemon, _)) = &mut self.daemon {
            // Killing a child that has already exited is harmless.
            drop(daemon.kill());
            drop(daemon.wait());
        }
    }
}
