//! Plays one rollout on three hubs and compares the traces: the simulator, the embedded hub, and real API servers.
//!
//! A canary and two more clusters get an add-on, then its second version, then a broken one. One cluster starts at
//! a time, so the order of events follows from the engine and not from timing. The traces must be equal.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::time::{Duration, Instant};

use api::addon::v1alpha1::{
    AddOnDeploymentConfig, AddOnTemplate, ClusterManagementAddOn, ManagedClusterAddOn,
};
use api::cluster::v1::ManagedCluster;
use api::cluster::v1beta1::{Placement, PlacementDecision};
use api::crds;
use api::gitops::v1alpha1::RolloutPolicy;
use controllers::hub::addon_config::explain;
use engine::report::version_of;
use engine::rollout::ClusterState;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use kube::config::Kubeconfig;
use kube::discovery::pinned_kind;
use object::{Gvk, Key, Kind, Object};
use reconcile::{Caches, Site, View};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sim::{World, workload};
use tokio_util::sync::CancellationToken;
use wheelwright::agent::{self, AgentOptions, Bootstrap};
use wheelwright::apiserver::{Server, ServerOptions};
use wheelwright::operator::{self, OperatorOptions};
use wheelwright::shell::now;

use crate::e2e::run_nodes;
use crate::golden;
use crate::kube::{self as real, client_of};
use crate::wait::eventually;

const CLUSTERS: [&str; 3] = ["c1", "c2", "c3"];
const GROUP: &str = "addon.open-cluster-management.io";

fn labels(cluster: &str) -> BTreeMap<&str, &str> {
    if cluster == "c1" { [("canary", "true")].into() } else { BTreeMap::new() }
}

/// Returns the hub's objects for a version.
fn objects(version: &str) -> Vec<Object> {
    let template = |version: &str, image: &str| {
        json!({"apiVersion": format!("{GROUP}/v1alpha1"), "kind": "AddOnTemplate", "metadata": {"name": format!("agent-{version}")},
        "spec": {"addonName": "agent", "agentSpec": {"workload": {"manifests": [{
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "agent", "namespace": "default"},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "agent"}}, "template": {
                "metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [{"name": "agent", "image": image}]}}},
        }]}}}})
    };
    let values = [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fleet", "labels": {"gitops.wheelwright.dev/operator-identity": "allowed"}}}),
        json!({"apiVersion": "cluster.open-cluster-management.io/v1beta2", "kind": "ManagedClusterSetBinding",
            "metadata": {"name": "global", "namespace": "fleet"}, "spec": {"clusterSet": "global"}}),
        json!({"apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement", "metadata": {"name": "all", "namespace": "fleet"},
            "spec": {"tolerations": [{"operator": "Exists"}], "decisionStrategy": {"groupStrategy": {"decisionGroups": [
                {"groupName": "canary", "groupClusterSelector": {"labelSelector": {"matchLabels": {"canary": "true"}}}}]}}}}),
        template("v1", "agent:1"),
        template("v2", "agent:2"),
        template("v3", "agent:missing"),
        json!({"apiVersion": format!("{GROUP}/v1alpha1"), "kind": "ClusterManagementAddOn", "metadata": {"name": "agent"}, "spec": {
            "supportedConfigs": [{"group": GROUP, "resource": "addontemplates", "defaultConfig": {"name": format!("agent-{version}")}}],
            "installStrategy": {"type": "Placements", "placements": [{"namespace": "fleet", "name": "all", "rolloutStrategy": {
                "type": "Progressive", "progressive": {
                    "mandatoryDecisionGroups": [{"groupName": "canary"}], "maxConcurrency": 1, "maxFailures": 0, "progressDeadline": "8s"}}}]},
        }}),
    ];
    values.map(|value| Object::from_value(value).unwrap()).to_vec()
}

fn images() -> BTreeSet<String> {
    ["agent:1", "agent:2"].map(str::to_owned).into()
}

/// The version that each cluster runs, and its state in a word.
type Standings = BTreeMap<String, (String, &'static str)>;

/// The objects of a hub that determine a rollout.
#[derive(Default)]
struct Snapshot(Caches);

impl Snapshot {
    fn add<K: Kind>(&mut self, objects: Vec<K>) {
        self.0.replace(Site::Hub, objects, "0");
    }

    fn add_observed<K: Kind>(&mut self, objects: &[K]) {
        self.0.replace_observed(&Gvk::of::<K>(), objects.iter().map(Object::from_typed).collect(), "0");
    }

    fn standings(&self, now: Timestamp) -> Standings {
        let states = explain("agent", &self.0, now).unwrap().map(|explained| explained.states);
        let standing = |(name, state): (String, ClusterState)| {
            let addon = self.0.get::<ManagedClusterAddOn>(&Key::namespaced(&name, "agent")).unwrap()?;
            let version = version_of(&addon);
            let version = version.split('@').next().filter(|version| !version.is_empty())?;
            Some((name, (version.trim_start_matches("agent-").to_owned(), word(&state))))
        };
        states.into_iter().flatten().filter_map(standing).collect()
    }
}

fn word(state: &ClusterState) -> &'static str {
    match state {
        ClusterState::Progressing { .. } | ClusterState::Soaking { .. } => "rolling out",
        ClusterState::Done | ClusterState::Waiting(_) | ClusterState::Starting => "available",
        ClusterState::Failed { .. } | ClusterState::TimedOut => "failed",
        ClusterState::Skipped
        | ClusterState::Unreachable { .. }
        | ClusterState::Returning { .. }
        | ClusterState::Returned { .. }
        | ClusterState::Quarantined => "out of it",
    }
}

/// Reads the objects that determine a rollout. This is a macro because one source is asynchronous and the other is
/// not.
macro_rules! snapshot {
    (|$kind:ident| $list:expr) => {{
        let mut snapshot = Snapshot::default();
        snapshot.add::<ClusterManagementAddOn>({
            type $kind = ClusterManagementAddOn;
            $list
        });
        snapshot.add::<ManagedClusterAddOn>({
            type $kind = ManagedClusterAddOn;
            $list
        });
        snapshot.add::<ManagedCluster>({
            type $kind = ManagedCluster;
            $list
        });
        snapshot.add::<Placement>({
            type $kind = Placement;
            $list
        });
        snapshot.add::<PlacementDecision>({
            type $kind = PlacementDecision;
            $list
        });
        snapshot.add::<RolloutPolicy>({
            type $kind = RolloutPolicy;
            $list
        });
        snapshot.add_observed::<AddOnTemplate>(&{
            type $kind = AddOnTemplate;
            $list
        });
        snapshot.add_observed::<AddOnDeploymentConfig>(&{
            type $kind = AddOnDeploymentConfig;
            $list
        });
        snapshot
    }};
}

/// The events, one per line.
#[derive(Default)]
struct Trace {
    lines: Vec<String>,
    now: Standings,
}

impl Trace {
    /// Compares the fleet with its last state. A late check may see one cluster complete and the next one start;
    /// it records them in this order.
    fn look(&mut self, now: Standings) {
        let changed = now.iter().filter(|(name, standing)| self.now.get(*name) != Some(*standing));
        let mut events: Vec<_> = changed
            .map(|(name, (version, word))| (*word == "rolling out", format!("{name}: {version} {word}")))
            .collect();
        events.sort();
        self.lines.extend(events.into_iter().map(|(_, line)| line));
        self.now = now;
    }

    fn all_run(&self, version: &str) -> bool {
        self.now.len() == CLUSTERS.len()
            && self.now.values().all(|standing| *standing == (version.to_owned(), "available"))
    }

    fn has_failed(&self) -> bool {
        self.now.values().any(|(_, word)| *word == "failed")
    }

    fn is_over(&self, version: &str) -> bool {
        if version == "v3" { self.has_failed() } else { self.all_run(version) }
    }
}

fn check(on: &str, trace: &Trace) {
    eprintln!("the trace on {on}");
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/three-hubs.trace");
    golden::check([(file.into(), format!("{}\n", trace.lines.join("\n")))]);
}

#[test]
fn the_simulator_gives_the_trace() {
    let start = Timestamp::from_second(1_700_000_000).unwrap();
    let mut world = World::new(7, start);
    for cluster in CLUSTERS {
        let workloads =
            workload::Environment { images: images(), ready_after: SignedDuration::from_secs(1), nodes: 1 };
        let labels: Vec<_> = labels(cluster).into_iter().collect();
        world.join(cluster, &labels, workloads).unwrap();
    }
    world.run_for(SignedDuration::from_secs(1)).unwrap();
    let mut trace = Trace::default();
    for version in ["v1", "v2", "v3"] {
        objects(version).into_iter().for_each(|object| world.apply(object).unwrap());
        let over = world.run_until(SignedDuration::from_secs(120), |world| {
            trace.look(snapshot!(|K| world.list::<K>()).standings(world.now));
            trace.is_over(version)
        });
        assert!(over.unwrap(), "{version} is not over:\n{}", trace.lines.join("\n"));
    }
    check("the simulator", &trace);
}

/// A hub and its clusters, with administrator clients.
struct Fleet {
    hub: ::kube::Client,
    bootstrap: Kubeconfig,
    spokes: Vec<(&'static str, ::kube::Client)>,
}

impl Fleet {
    async fn trace(self) -> Trace {
        let stop = CancellationToken::new();
        let cache = tempfile::tempdir().unwrap();
        let options = OperatorOptions::new(self.hub.clone(), cache.path());
        let mut tasks = vec![tokio::spawn(operator::run(options, stop.clone()))];
        for (name, spoke) in &self.spokes {
            let bootstrap = Bootstrap::Given(Box::new(self.bootstrap.clone()));
            let options = AgentOptions::new(bootstrap, spoke.clone(), *name);
            tasks.push(tokio::spawn(agent::run(options, stop.clone())));
            tasks.push(run_nodes(spoke.clone(), images()));
            accept(&self.hub, name).await;
        }
        let mut trace = Trace::default();
        for version in ["v1", "v2", "v3"] {
            for object in objects(version) {
                apply(&self.hub, &object).await;
            }
            let deadline = Instant::now() + Duration::from_secs(120);
            while !trace.is_over(version) {
                trace.look(self.standings().await);
                assert!(Instant::now() < deadline, "{version} is not over:\n{}", trace.lines.join("\n"));
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        stop.cancel();
        tasks.iter().for_each(tokio::task::JoinHandle::abort);
        trace
    }

    async fn standings(&self) -> Standings {
        snapshot!(|K| list::<K>(&self.hub).await).standings(wheelwright::shell::now())
    }
}

/// Lists all objects of a kind. Like other clients, it waits while an API server initializes the storage of a new
/// kind.
async fn list<K>(hub: &::kube::Client) -> Vec<K>
where
    K: ::kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let api: Api<K> = Api::all(hub.clone());
    let mut items = Vec::new();
    eventually("the API server lists a kind", async || match api.list(&ListParams::default()).await {
        Err(::kube::Error::Api(status)) if status.code == 429 => false,
        found => {
            items = found.unwrap().items;
            true
        }
    })
    .await;
    items
}

pub(crate) async fn apply(hub: &::kube::Client, object: &Object) {
    let Gvk { group, version, kind } = object.gvk();
    let (resource, _) =
        pinned_kind(hub, &::kube::core::GroupVersionKind::gvk(&group, &version, &kind)).await.unwrap();
    let api: Api<DynamicObject> = match object.namespace() {
        "" => Api::all_with(hub.clone(), &resource),
        namespace => Api::namespaced_with(hub.clone(), namespace, &resource),
    };
    api.patch(object.name(), &PatchParams::apply("user").force(), &Patch::Apply(object)).await.unwrap();
}

/// Labels and accepts a cluster once it has joined, and approves its signing request.
pub(crate) async fn accept(hub: &::kube::Client, cluster: &str) {
    let clusters: Api<ManagedCluster> = Api::all(hub.clone());
    eventually("the cluster asks to join", async || clusters.get_opt(cluster).await.unwrap().is_some()).await;
    let accepted = json!({"metadata": {"labels": labels(cluster)}, "spec": {"hubAcceptsClient": true}});
    clusters.patch(cluster, &PatchParams::default(), &Patch::Merge(accepted)).await.unwrap();
    let requests: Api<CertificateSigningRequest> = Api::all(hub.clone());
    let own = ListParams::default().labels(&format!("open-cluster-management.io/cluster-name={cluster}"));
    let mut name = String::new();
    eventually("it asks for a certificate", async || {
        let found = requests.list(&own).await.unwrap().items;
        name = found.first().and_then(|request| request.metadata.name.clone()).unwrap_or_default();
        !name.is_empty()
    })
    .await;
    let approval: Value = json!({"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "Test", "message": "approved"}]}});
    requests.patch_approval(&name, &PatchParams::default(), &Patch::Merge(approval)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_hub_gives_the_trace() {
    let admin = |server: &Server| server.kubeconfig("admin", &["system:masters"]).unwrap();
    let definitions = |definitions: Vec<_>| ServerOptions { objects: definitions, ..ServerOptions::new(now) };
    let hub = Server::start(definitions(crds::hub().iter().map(Object::from_typed).collect())).await.unwrap();
    let mut servers = Vec::new();
    let mut spokes = Vec::new();
    for name in CLUSTERS {
        let server =
            Server::start(definitions(crds::spoke().iter().map(Object::from_typed).collect())).await.unwrap();
        spokes.push((name, client(&admin(&server)).await));
        servers.push(server);
    }
    let fleet = Fleet { hub: client(&admin(&hub)).await, bootstrap: admin(&hub), spokes };
    check("the embedded hub", &fleet.trace().await);
}

pub(crate) async fn client(kubeconfig: &Kubeconfig) -> ::kube::Client {
    real::install_crypto();
    let config =
        ::kube::Config::from_custom_kubeconfig(kubeconfig.clone(), &Default::default()).await.unwrap();
    ::kube::Client::try_from(config).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn real_api_servers_give_the_trace() {
    let servers = real::Cluster::start_all(&["hub", "c1", "c2", "c3"]).await;
    let definitions: String = crds::all()
        .iter()
        .map(|crd| format!("---\n{}\n", serde_json::to_string(&Object::from_typed(crd)).unwrap()))
        .collect();
    servers[0].kubectl().run_with(&["apply", "--server-side", "-f", "-"], &definitions);
    let mut spokes = Vec::new();
    for (name, server) in CLUSTERS.iter().zip(&servers[1..]) {
        spokes.push((*name, client_of(&server.kubeconfig).await));
    }
    let bootstrap = Kubeconfig::read_from(&servers[0].kubeconfig).unwrap();
    let fleet = Fleet { hub: servers[0].client().await, bootstrap, spokes };
    check("real API servers", &fleet.trace().await);
}
