//! The same rollouts by OCM's controllers, and by ours with the profile `ocm`, which keeps OCM's defaults.

use api::crds;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use object::Object;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use wheelwright::apiserver::Server;

use super::fleet::{Fleet, OurOperator, addon, bootstrap};
use super::programs::{CONTROLLERS, OcmHub};
use crate::cli::server;
use crate::e2e::run_nodes;
use crate::running::Running;
use crate::trace::client;
use crate::wait::eventually;

/// The first one is the canary.
const CLUSTERS: [&str; 3] = ["c1", "c2", "c3"];
const SOAK: SignedDuration = SignedDuration::from_secs(2);
const SET: &str = "manifestworkreplicaset/settings";

fn strategy() -> Value {
    json!({"type": "Progressive", "progressive": {
        "mandatoryDecisionGroups": [{"groupName": "canary"}], "maxConcurrency": 1, "minSuccessTime": format!("{SOAK:#}")}})
}

/// Returns a set with condition rules of its author, without which OCM's rollouts of sets do not continue.
fn set(version: &str, state: &str) -> String {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "default"},
        "data": {"version": version, "state": state}});
    let identifier =
        json!({"group": "", "resource": "configmaps", "name": "settings", "namespace": "default"});
    let rule = |condition: &str, expression: &str| json!({"type": "CEL", "condition": condition, "celExpressions": [expression]});
    let rules =
        [rule("Progressing", "object.data.state != 'done'"), rule("Degraded", "object.data.state == 'bad'")];
    let config = json!({"resourceIdentifier": identifier, "conditionRules": rules});
    let template = json!({"workload": {"manifests": [map]}, "manifestConfigs": [config]});
    let placement = json!({"name": "all", "rolloutStrategy": strategy()});
    json!({"apiVersion": "work.open-cluster-management.io/v1alpha1", "kind": "ManifestWorkReplicaSet",
        "metadata": {"name": "settings", "namespace": "fleet"},
        "spec": {"placementRefs": [placement], "manifestWorkTemplate": template}})
    .to_string()
}

fn condition<'a>(object: &'a Value, type_: &str) -> &'a Value {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.find(|one| one["type"] == type_).unwrap_or(&Value::Null)
}

/// A cluster with our agent.
struct Spoke {
    client: kube::Client,
    nodes: JoinHandle<()>,
    _agent: Running,
    _server: Server,
}

impl Spoke {
    /// Starts the cluster, and waits until its agent has joined the hub.
    async fn start(name: &str, hub: &OcmHub, fleet: &Fleet) -> Self {
        let server = server(crds::spoke().iter().map(Object::from_typed).collect()).await;
        let admin = server.kubeconfig("admin", &["system:masters"]).unwrap();
        let kubeconfig = hub.dir.path(name);
        std::fs::write(&kubeconfig, serde_json::to_string(&admin).unwrap()).unwrap();
        let [bootstrap, kubeconfig] =
            [bootstrap(fleet, &hub.dir), kubeconfig].map(|path| path.display().to_string());
        let options = ["--bootstrap-kubeconfig", &bootstrap, "--spoke-kubeconfig", &kubeconfig];
        let args = [&["agent", "--spoke-cluster-name", name], &options[..]].concat();
        let agent = Running::start(&format!("agent-{name}"), &hub.dir.path(""), &args);
        let client = client(&admin).await;
        let nodes = run_nodes(client.clone(), ["hello:1", "hello:2"].map(str::to_owned).into());
        fleet.accept(name);
        Self { client, nodes, _agent: agent, _server: server }
    }

    /// Returns true if a pod of the add-on does not run.
    async fn crashes(&self) -> bool {
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), "default");
        let status = deployments.get("hello").await.unwrap().status.unwrap_or_default();
        status.replicas.unwrap_or_default() > status.available_replicas.unwrap_or_default()
    }

    async fn has_addon(&self) -> bool {
        Api::<ConfigMap>::namespaced(self.client.clone(), "default").get_opt("hello").await.unwrap().is_some()
    }
}

/// Returns since when a version of the add-on is done on a cluster.
fn done_since(fleet: &Fleet, cluster: &str) -> Timestamp {
    let addon = fleet.get("managedclusteraddon/hello", cluster);
    condition(&addon, "Progressing")["lastTransitionTime"].as_str().unwrap().parse().unwrap()
}

/// Waits until a version is done on all clusters. No other cluster may have it before the canary.
async fn has_rolled_the_add_on_out(fleet: &Fleet, version: &str) {
    let name = format!("hello-{version}");
    eventually(&format!("all clusters run {version}"), async || {
        let list = fleet.kubectl.run(&["get", "managedclusteraddons", "-A", "-o", "json"]);
        let mut list: Value = serde_json::from_str(&list).unwrap();
        let mut addons = list["items"].take().as_array().cloned().unwrap();
        addons.retain(|addon| addon["status"]["configReferences"][0]["desiredConfig"]["name"] == name);
        let clusters: Vec<_> = addons.iter().map(|addon| &addon["metadata"]["namespace"]).collect();
        // A new add-on is installed on all clusters at once.
        let is_canary_first =
            version == "1" || clusters.is_empty() || clusters.contains(&&json!(CLUSTERS[0]));
        assert!(is_canary_first, "{version}: the canary is first: {clusters:?}");
        let has = |addon: &Value| {
            addon["status"]["configReferences"][0]["lastAppliedConfig"]["name"] == name
                && condition(addon, "Progressing")["reason"] == "Completed"
        };
        addons.iter().filter(|addon| has(addon)).count() == CLUSTERS.len()
    })
    .await;
}

/// Rolls the add-on out, also with a version that crashes, and removes it. A version is done when it is applied.
async fn rolls_an_add_on_out(fleet: &Fleet, spokes: &[Spoke], is_ours: bool) {
    for version in ["1", "missing", "2"] {
        fleet.apply(&addon(version, strategy()));
        has_rolled_the_add_on_out(fleet, version).await;
        // A new add-on has the time of its creation. OCM's controllers keep the time of the last version if they see a
        // new one only when it is done.
        if version != "1" && is_ours {
            let mut times = CLUSTERS.map(|cluster| done_since(fleet, cluster));
            times.sort();
            let is_apart = |before: &Timestamp, after: &Timestamp| *before + SOAK <= *after;
            assert!(times.is_sorted_by(is_apart), "{version}: one by one: {times:?}");
        }
        for spoke in spokes {
            let is_bad = version == "missing";
            eventually("the pods run unless the version crashes", async || spoke.crashes().await == is_bad)
                .await;
        }
    }
    fleet.kubectl.run(&["delete", "clustermanagementaddon", "hello", "--timeout=120s"]);
    for spoke in spokes {
        eventually("the add-on leaves every cluster at once", async || !spoke.has_addon().await).await;
    }
}

/// Returns the set's work on a cluster, whose name is not the same with OCM's controller and ours.
fn work(fleet: &Fleet, cluster: &str) -> Value {
    let of_the_set = "work.open-cluster-management.io/manifestworkreplicaset=fleet.settings";
    let list = fleet.kubectl.run(&["get", "manifestworks", "-n", cluster, "-l", of_the_set, "-o", "json"]);
    let mut list: Value = serde_json::from_str(&list).unwrap();
    list.pointer_mut("/items/0").map(Value::take).unwrap_or_default()
}

/// Returns how often the hub has written the set's work on each cluster.
fn generations(fleet: &Fleet) -> [u64; 3] {
    CLUSTERS.map(|cluster| work(fleet, cluster)["metadata"]["generation"].as_u64().unwrap())
}

/// Waits until a version of the set is done on all clusters.
async fn has_rolled_the_set_out(fleet: &Fleet, version: &str) {
    for cluster in CLUSTERS {
        eventually(&format!("the set is done on {cluster}"), async || {
            let work = work(fleet, cluster);
            let progressing = condition(&work, "Progressing");
            work["spec"]["workload"]["manifests"][0]["data"]["version"] == version
                && progressing["status"] == "False"
                && progressing["observedGeneration"] == work["metadata"]["generation"]
        })
        .await;
    }
    fleet.becomes(SET, "fleet", "PlacementRolledOut", "Complete").await;
}

/// Rolls the set out, also with a version that fails on the canary, and removes it.
async fn rolls_a_set_out(fleet: &Fleet) {
    fleet.apply(&set("1", "done"));
    has_rolled_the_set_out(fleet, "1").await;
    let before = generations(fleet);
    fleet.apply(&set("2", "bad"));
    eventually("the set counts its failed canary", async || {
        fleet.get(SET, "fleet")["status"]["summary"]["degraded"] == 1
    })
    .await;
    fleet.apply(&set("3", "done"));
    has_rolled_the_set_out(fleet, "3").await;
    let [canary, others @ ..] = generations(fleet);
    assert_eq!(
        (canary, others),
        (before[0] + 2, [before[1] + 1, before[2] + 1]),
        "only the canary got version 2"
    );
    fleet.kubectl.run(&["delete", SET, "-n", "fleet", "--timeout=120s"]);
    eventually("the works are gone", async || CLUSTERS.iter().all(|cluster| work(fleet, cluster).is_null()))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rollouts_under_the_profile_of_ocm_are_those_of_ocms_controllers() {
    let mut hub = OcmHub::start("interop-profile").await;
    let fleet = Fleet::new(&hub.cluster);
    let mut spokes = Vec::new();
    for name in CLUSTERS {
        spokes.push(Spoke::start(name, &hub, &fleet).await);
    }
    fleet.kubectl.run(&["label", "managedcluster", CLUSTERS[0], "canary=true"]);
    fleet.allow_templates();
    rolls_an_add_on_out(&fleet, &spokes, false).await;
    rolls_a_set_out(&fleet).await;

    CONTROLLERS.into_iter().for_each(|name| hub.stop_controller(name));
    let _ours = OurOperator::install(&hub.cluster, &hub.dir, "*").await;
    fleet.wheelwright("upgrade --wait 0 --profile ocm");
    let looser = "the profile ocm leaves rules looser than the defaults";
    let all = format!("{looser}: success, defaultDeadline, unreachableBudget, removalBudget\n");
    assert!(fleet.output("doctor").contains(&all));
    rolls_an_add_on_out(&fleet, &spokes, true).await;
    rolls_a_set_out(&fleet).await;

    fleet.apply(
        "apiVersion: gitops.wheelwright.dev/v1alpha1\n\
         kind: RolloutPolicy\n\
         metadata: {name: tighter}\n\
         spec: {success: Available}\n",
    );
    let rest = format!("{looser}: defaultDeadline, unreachableBudget, removalBudget\n");
    assert!(fleet.output("doctor").contains(&rest));
    fleet.apply(&addon("1", strategy()));
    fleet.runs("c3", "1").await;
    fleet.apply(&addon("missing", strategy()));
    eventually("the canary is not done, because its pods do not run", async || {
        let addon = fleet.get("managedclusteraddon/hello", "c1");
        condition(&addon, "Progressing")["message"].to_string().contains("old replica left")
    })
    .await;
    let others = ["c2", "c3"].map(|cluster| fleet.version(cluster));
    assert_eq!(others, ["hello-1"; 2], "the canary holds the others");
    spokes.iter().for_each(|spoke| spoke.nodes.abort());
}
