//! The whole chain of a commit behind a proxy: operator, agent, a real hub, a real spoke, and clusters
//! without agent.

use std::collections::BTreeMap;
use std::path::PathBuf;
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
use crate::kube::{Cluster, Kubectl};
use crate::running::Running;
use crate::wait::eventually;

/// Clusters that have no agent.
const BARE: usize = 4;
/// Time without a write after which everything rests.
const REST: Duration = Duration::from_secs(2);

/// The fleet.
pub(super) struct Fleet {
    pub(super) hub: Cluster,
    pub(super) proxy: Proxy,
    pub(super) client: kube::Client,
    pub(super) dir: tempfile::TempDir,
    spoke_client: kube::Client,
    repository: PathBuf,
    _operator: Running,
    _agent: Running,
    _spoke: Cluster,
}

/// The objects that a commit leads to, with their uids and generations.
pub(super) type Standing = BTreeMap<String, (String, i64)>;

impl Fleet {
    /// Starts it, and returns when the first commit is everywhere.
    pub(super) async fn start() -> Self {
        let mut clusters = Cluster::start_all(&["faulty-hub", "faulty-spoke"]).await;
        let (spoke, hub) = (clusters.remove(1), clusters.remove(0));
        prepare_hub(&hub);
        let proxy = Proxy::start(&hub).await;
        let client = hub.client().await;
        let dir = tempfile::tempdir().unwrap();
        let repository = dir.path().join("fleet.git");
        let kubeconfig = proxy.kubeconfig_for(&hub, "operator", &["system:masters"]);
        let args = ["operator", "--local-repositories", "--kubeconfig", kubeconfig.to_str().unwrap()];
        let operator = Running::start("operator", dir.path(), &args);
        let bootstrap = proxy.kubeconfig_for(&hub, "bootstrap", &["system:bootstrappers:managedcluster"]);
        let spoke_kubeconfig = spoke.kubeconfig.to_str().unwrap();
        let args = ["agent", "--spoke-cluster-name", "c1", "--spoke-kubeconfig", spoke_kubeconfig];
        let args = [&args[..], &["--hub-kubeconfig", bootstrap.to_str().unwrap()]].concat();
        let agent = Running::start("agent", dir.path(), &args);
        let fleet = Self {
            client,
            spoke_client: spoke.client().await,
            repository,
            _operator: operator,
            _agent: agent,
            _spoke: spoke,
            hub,
            proxy,
            dir,
        };
        accept(&fleet.hub.kubectl(), "c1").await;
        for i in 0..BARE {
            fleet.add_cluster(&format!("bare-{i}")).await;
        }
        fleet.follow();
        fleet.commit("begin", &[]);
        fleet.arrives("begin", BARE + 1, "the first commit").await;
        fleet
    }

    pub(super) fn kubectl(&self) -> Kubectl {
        self.hub.kubectl()
    }

    /// Adds a cluster without agent.
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
        let repo = json!({
            "apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo",
            "metadata": { "name": "fleet", "namespace": "gitops" },
            "spec": {
                "url": self.repository.to_str().unwrap(),
                "report": { "branch": "status", "interval": "1s" },
            },
        });
        let objects = format!("{namespace}\n{repo}");
        self.kubectl().run_with(&["apply", "--server-side", "-f", "-"], &objects);
    }

    /// Commits a word for all clusters, and further objects of the hub.
    pub(super) fn commit(&self, word: &str, further: &[Value]) {
        fleet_commit::commit_with(&self.repository, word, further);
    }

    /// Waits until a word is everywhere and reported, and nothing is written any more.
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

    /// The words that the works hold. A hub that does not answer says nothing.
    async fn words(&self) -> Option<Vec<String>> {
        let works: Api<ManifestWork> = Api::all(self.client.clone());
        let works = works.list(&ListParams::default()).await.ok()?.items;
        let word = |work: &ManifestWork| {
            let spec = serde_json::to_value(&work.spec).unwrap();
            spec["workload"]["manifests"][0]["data"]["word"].as_str().unwrap_or_default().to_owned()
        };
        Some(works.iter().map(word).collect())
    }

    /// Whether the status branch names the last commit.
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

    /// Everything that commits lead to.
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
