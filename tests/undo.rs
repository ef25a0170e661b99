//! `wheelwright rollout undo` with an operator and two agents running on an embedded hub, for an add-on and a set,
//! with and without a hand-written RolloutPolicy.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use api::addon::v1alpha1::ManagedClusterAddOn;
use api::condition::{Conditions as _, find_condition};
use api::crds;
use api::gitops::v1alpha1::RolloutPolicy;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::DeleteParams;
use kube::{Api, Client};
use object::Object;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use wheelwright::agent::{self, AgentOptions, Bootstrap};
use wheelwright::apiserver::Server;
use wheelwright::operator::{self, OperatorOptions};

use crate::cli::{Cli, server};
use crate::e2e::run_nodes;
use crate::trace::{accept, apply, client};
use crate::wait::eventually;

const CLUSTERS: [&str; 2] = ["c1", "c2"];
const GOOD: &str = "tool:0.1.0";
/// Maximum time from the command until the first cluster has rolled back. Without a wake-up it would take the
/// ten-minute deadline.
const AT_ONCE: Duration = Duration::from_secs(30);

struct Fleet {
    hub: Server,
    client: Client,
    spokes: BTreeMap<&'static str, (Server, Client)>,
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

async fn fleet(cache: &std::path::Path) -> Fleet {
    let hub = server(crds::hub().iter().map(Object::from_typed).collect()).await;
    let admin = |server: &Server| server.kubeconfig("admin", &["system:masters"]).unwrap();
    let hub_client = client(&admin(&hub)).await;
    let stop = CancellationToken::new();
    let options = OperatorOptions::new(hub_client.clone(), cache);
    let mut tasks = vec![tokio::spawn(operator::run(options, stop.clone()))];
    let mut spokes = BTreeMap::new();
    for name in CLUSTERS {
        let server = server(crds::spoke().iter().map(Object::from_typed).collect()).await;
        let spoke = client(&admin(&server)).await;
        let options = AgentOptions::new(Bootstrap::Given(Box::new(admin(&hub))), spoke.clone(), name);
        tasks.push(tokio::spawn(agent::run(options, stop.clone())));
        tasks.push(run_nodes(spoke.clone(), [GOOD.to_owned()].into()));
        accept(&hub_client, name).await;
        spokes.insert(name, (server, spoke));
    }
    Fleet { hub, client: hub_client, spokes, stop, tasks }
}

async fn write(hub: &Client, objects: Vec<Value>) {
    for object in objects {
        apply(hub, &Object::from_value(object).unwrap()).await;
    }
}

/// Returns a placement that selects all clusters.
fn placement() -> Vec<Value> {
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}),
        json!({"apiVersion": "cluster.open-cluster-management.io/v1beta2", "kind": "ManagedClusterSetBinding",
            "metadata": {"name": "global", "namespace": "team"}, "spec": {"clusterSet": "global"}}),
        json!({"apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement",
            "metadata": {"name": "all", "namespace": "team"}, "spec": {"tolerations": [{"operator": "Exists"}]}}),
    ]
}

fn policy(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "RolloutPolicy", "metadata": {"name": name}, "spec": spec})
}

fn strategy() -> Value {
    json!({"type": "Progressive", "progressive": {"maxConcurrency": 1}})
}

fn set(value: &str, more: Option<Value>) -> Value {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "default"}, "data": {"v": value}});
    let manifests: Vec<Value> = [Some(map), more].into_iter().flatten().collect();
    json!({"apiVersion": "work.open-cluster-management.io/v1alpha1", "kind": "ManifestWorkReplicaSet",
        "metadata": {"name": "settings", "namespace": "team"}, "spec": {
            "placementRefs": [{"name": "all", "rolloutStrategy": strategy()}],
            "manifestWorkTemplate": {"workload": {"manifests": manifests}}}})
}

fn add_on(version: &str) -> Vec<Value> {
    let name = format!("tool-{version}");
    let container = json!({"name": "agent", "image": format!("tool:{version}")});
    let pod = json!({"metadata": {"labels": {"app": "tool"}}, "spec": {"containers": [container]}});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "tool", "namespace": "default"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "tool"}}, "template": pod},
    });
    vec![
        json!({
            "apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "AddOnTemplate", "metadata": {"name": name},
            "spec": {"addonName": "tool", "agentSpec": {"workload": {"manifests": [deployment]}}, "registration": []},
        }),
        json!({
            "apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ClusterManagementAddOn", "metadata": {"name": "tool"},
            "spec": {
                "supportedConfigs": [{"group": "addon.open-cluster-management.io", "resource": "addontemplates", "defaultConfig": {"name": name}}],
                "installStrategy": {"type": "Placements", "placements": [{"namespace": "team", "name": "all", "rolloutStrategy": strategy()}]},
            },
        }),
    ]
}

impl Fleet {
    async fn value(&self, cluster: &str) -> String {
        let maps: Api<ConfigMap> = Api::namespaced(self.spokes[cluster].1.clone(), "default");
        let map = maps.get_opt("m").await.unwrap();
        map.and_then(|map| map.data).and_then(|mut data| data.remove("v")).unwrap_or_default()
    }

    async fn image(&self, cluster: &str) -> String {
        let deployments: Api<Deployment> = Api::namespaced(self.spokes[cluster].1.clone(), "default");
        let deployment = deployments.get_opt("tool").await.unwrap().map(|found| Object::from_typed(&found));
        let pod = deployment.map(|found| found.at(&["spec", "template", "spec"]).cloned().unwrap());
        pod.and_then(|pod| pod["containers"][0]["image"].as_str().map(str::to_owned)).unwrap_or_default()
    }

    async fn progressing(&self, cluster: &str) -> String {
        let addons: Api<ManagedClusterAddOn> = Api::namespaced(self.client.clone(), cluster);
        let addon = addons.get_opt("tool").await.unwrap();
        let condition = addon.as_ref().and_then(|addon| addon.condition("Progressing"));
        condition.map(|condition| format!("{} {}", condition.status, condition.reason)).unwrap_or_default()
    }
}

async fn check(policy: Option<Value>) {
    let dir = tempfile::tempdir().unwrap();
    let fleet = fleet(&dir.path().join("cache")).await;
    let cli = Cli::new(dir.path(), "hub", &fleet.hub);
    let mut objects = placement();
    objects.push(set("1", None));
    objects.extend(policy);
    objects.extend(add_on("0.1.0"));
    write(&fleet.client, objects).await;
    for name in ["team/settings", "tool"] {
        let done = format!("{name}  2 of 2 clusters done");
        eventually("the first revision is everywhere", async || {
            cli.run(&format!("rollout status {name}")).contains(&done)
        })
        .await;
        let refused = cli.refused(&format!("rollout undo {name}"));
        assert!(refused.contains("is complete, so there is nothing to undo"), "{refused}");
    }

    // No cluster serves the kind, so the work does not succeed before its ten-minute deadline.
    let bogus = json!({"apiVersion": "example.com/v1", "kind": "Bogus", "metadata": {"name": "x"}});
    write(&fleet.client, vec![set("2", Some(bogus))]).await;
    write(&fleet.client, add_on("0.2.0")).await;
    eventually("the first cluster has the bad revisions", async || {
        fleet.value("c1").await == "2" && fleet.image("c1").await == "tool:0.2.0"
    })
    .await;

    let begun = Instant::now();
    for name in ["team/settings", "tool"] {
        let refused = cli.refused(&format!("rollout undo {name} --revision 01234567"));
        assert!(refused.contains("not 01234567"), "{refused}");
        let explained: Value =
            serde_json::from_str(&cli.run(&format!("explain rollout {name} -o json"))).unwrap();
        let revision = explained["placements"]["team/all"]["revision"].as_str().unwrap();
        let output = cli.run(&format!("rollout undo {name} --revision {revision}"));
        assert!(output.contains("  returning to ") && output.contains(": 1 cluster: c1\n"), "{output}");
        assert!(output.contains("  1 cluster never received it\n"), "{output}");
    }
    eventually("the first cluster returns", async || {
        fleet.value("c1").await == "1" && fleet.image("c1").await == GOOD
    })
    .await;
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    for (name, version) in [("team/settings", ""), ("tool", "0.1.0")] {
        eventually("the commands say that it has returned", async || {
            let status = cli.run(&format!("rollout status {name}"));
            status.contains(&format!("{name}  2 of 2 clusters are back on version {version}"))
        })
        .await;
        assert!(cli.refused(&format!("rollout undo {name}")).contains("has no rollout to undo"));
    }
    for cluster in CLUSTERS {
        eventually("the add-on has completed", async || {
            fleet.progressing(cluster).await == "False Completed"
        })
        .await;
    }
    assert_eq!((fleet.value("c2").await.as_str(), fleet.image("c2").await.as_str()), ("1", GOOD));
    fleet.stop.cancel();
    fleet.tasks.iter().for_each(JoinHandle::abort);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undone_rollout_returns_at_once_without_a_policy() {
    check(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undone_rollout_returns_at_once_next_to_a_policy_of_people() {
    let spec = json!({"addOns": ["tool"], "replicaSets": ["team/settings"], "soak": "1s"});
    check(Some(policy("ours", spec))).await;
}

/// A freeze of everything and a pause of one add-on both apply, and each policy reports it.
#[tokio::test(flavor = "multi_thread")]
async fn two_policies_hold_an_add_on_until_both_release_it() {
    let dir = tempfile::tempdir().unwrap();
    let fleet = fleet(&dir.path().join("cache")).await;
    let cli = Cli::new(dir.path(), "hub", &fleet.hub);
    let freeze = json!({"name": "always", "schedule": "0 0 * * *", "duration": "25h"});
    let mut objects = placement();
    objects.push(policy("night", json!({"freezeWindows": [freeze]})));
    objects.push(policy("ours", json!({"addOns": ["tool"], "soak": "1s", "paused": true})));
    objects.extend(add_on("0.1.0"));
    write(&fleet.client, objects).await;
    let status = || cli.run("rollout status tool");
    eventually("the pause of the one holds it", async || {
        status().contains("waits for the pause by RolloutPolicy ours to end")
    })
    .await;
    let answer = cli.run("resume tool");
    assert!(answer.contains("updated RolloutPolicy ours\ntool resumed."), "{answer}");
    eventually("the freeze of the other holds it", async || {
        status().contains("waits for the freeze always of RolloutPolicy night to end at ")
    })
    .await;
    let policies: Api<RolloutPolicy> = Api::all(fleet.client.clone());
    for name in ["night", "ours"] {
        eventually("the policy says what is in force", async || {
            let status = policies.get(name).await.unwrap().status.unwrap_or_default();
            find_condition(&status.conditions, "InForce").is_some_and(|condition| {
                condition.is_true()
                    && condition.message.contains("tool: soak of ours, freezeWindows of night")
            })
        })
        .await;
    }
    for cluster in CLUSTERS {
        assert_eq!(fleet.image(cluster).await, "", "{cluster}");
    }
    policies.delete("night", &DeleteParams::default()).await.unwrap();
    eventually("it goes on", async || status().contains("tool  2 of 2 clusters done")).await;
    fleet.stop.cancel();
    fleet.tasks.iter().for_each(JoinHandle::abort);
}
