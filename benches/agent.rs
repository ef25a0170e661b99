//! Measures an agent as a process, with its cluster on a real API server and an embedded hub: at rest with 50
//! works of 2 objects, applying works of 5 objects, starting with nothing to do, and propagating a status change
//! from the cluster to the hub. The baseline, in the same run, is a loop of as many writes.
//!
//! `cargo bench --profile agent --bench agent [-- WORKS [IDLE_SECONDS]]`
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a bench fails by panicking, and measures by the real clock"
)]
#![allow(dead_code, reason = "of the harness, only part is needed here")]

mod hub;
#[path = "../tests/kube/mod.rs"]
mod kube;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ::kube::api::{Api, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use ::kube::{Client, Resource};
use api::condition::Conditions as _;
use api::crds;
use api::work::v1::{AppliedManifestWork, ManifestWork};
use futures::{StreamExt as _, stream};
use hub::{AT_ONCE, Requests, memory, requests, usage};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Cluster;
use object::Object;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use wheelwright::apiserver::{Server, ServerOptions};
use wheelwright::operator::{self, OperatorOptions};
use wheelwright::shell::now;

const PROGRAM: &str = env!("CARGO_BIN_EXE_wheelwright-agent");
/// Number of objects in each work.
const OBJECTS: usize = 5;
/// Number of two-object works that the agent has at rest.
const AT_REST: usize = 50;
/// Number of status changes; the bench reports the median.
const CHANGES: usize = 21;
const POLL: Duration = Duration::from_millis(5);
const WITHIN: Duration = Duration::from_secs(600);
/// Time after which the agent has finished all work for a change.
const SETTLES: Duration = Duration::from_secs(10);

/// The agent process; killed when the bench ends.
struct Agent(Child);

impl Agent {
    fn start(dir: &Path, spoke: &Path) -> Self {
        let log = std::fs::File::options().append(true).create(true).open(dir.join("agent.log")).unwrap();
        let mut command = Command::new(PROGRAM);
        command.args(["--spoke-cluster-name", "c1", "--bootstrap-kubeconfig"]);
        command.arg(dir.join("hub")).arg("--spoke-kubeconfig").arg(spoke);
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap())
    }

    fn cpu(&self) -> f64 {
        usage(self.0.id()).0
    }

    /// Formats the resident memory and the share of the program file.
    fn memory(&self) -> String {
        let megabytes = |field: &str| memory(self.0.id(), field);
        format!("{:.1} MB resident, {:.1} of them the program", megabytes("VmRSS:"), megabytes("RssFile:"))
    }

    /// Waits until the agent has nothing more to do.
    async fn rests(&self) {
        let mut before = self.cpu();
        loop {
            tokio::time::sleep(SETTLES).await;
            let now = self.cpu();
            if now - before < 0.1 {
                return;
            }
            before = now;
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::main]
async fn main() {
    let mut numbers = std::env::args().filter_map(|word| word.parse::<usize>().ok());
    let (works, idle) = (numbers.next().unwrap_or(1000), numbers.next().unwrap_or(60));
    let dir = tempfile::tempdir().unwrap();
    let spoke = Cluster::start("agent").await;
    let (server, on_hub) = embedded_hub(dir.path()).await;
    let on_spoke = spoke.client().await;
    let agent = joined(dir.path(), &spoke.kubeconfig, &on_hub).await;

    for n in 0..AT_REST {
        create_work(&on_hub, &format!("rest-{n}"), vec![map("default", &format!("rest-{n}")), account(n)])
            .await;
    }
    all_applied(&on_hub, AT_REST).await;
    agent.rests().await;
    let (cpu, sent) = (agent.cpu(), requests(&on_spoke).await);
    tokio::time::sleep(Duration::from_secs(idle as u64)).await;
    let size = std::fs::metadata(PROGRAM).unwrap().len();
    println!("program file: {:.1} MB", size as f64 / 1e6);
    println!("at rest with {AT_REST} works of 2 objects: {}", agent.memory());
    println!("at rest for {idle} s: {:.3} CPU-s", agent.cpu() - cpu);
    print_requests(&on_spoke, &sent).await;
    drop(agent);

    println!("works: {works} of {OBJECTS} objects");
    let bare = bare_loop(&on_spoke, works * OBJECTS).await;
    println!("bare loop of as many writes, {AT_ONCE} at once: {:.1} s", bare.as_secs_f64());
    namespace(&on_spoke, "works").await;
    let create = |n: usize| {
        let objects = (0..OBJECTS).map(|object| map("works", &format!("work-{n}-{object}"))).collect();
        let on_hub = &on_hub;
        async move { create_work(on_hub, &format!("work-{n}"), objects).await }
    };
    stream::iter(0..works).map(create).buffer_unordered(AT_ONCE).collect::<Vec<_>>().await;
    let sent = requests(&on_spoke).await;
    let begin = Instant::now();
    let agent = Agent::start(dir.path(), &spoke.kubeconfig);
    let maps: Api<ConfigMap> = Api::namespaced(on_spoke.clone(), "works");
    all_there(&maps, works * OBJECTS).await;
    let applied = begin.elapsed();
    let ratio = applied.as_secs_f64() / bare.as_secs_f64();
    println!(
        "start of the agent to the last object: {:.1} s, {ratio:.2} times the bare loop",
        applied.as_secs_f64()
    );
    all_applied(&on_hub, works + AT_REST).await;
    println!("start of the agent to the last condition on the hub: {:.1} s", begin.elapsed().as_secs_f64());
    agent.rests().await;
    let (cpu, peak) = usage(agent.0.id());
    println!("agent when all is quiet: {cpu:.2} CPU-s, at most {peak:.1} MB, now {}", agent.memory());
    print_requests(&on_spoke, &sent).await;
    drop(agent);

    let (before, sent) = (versions(&on_spoke, &on_hub).await, requests(&on_spoke).await);
    let agent = Agent::start(dir.path(), &spoke.kubeconfig);
    agent.rests().await;
    assert!(versions(&on_spoke, &on_hub).await == before, "a start with nothing to do wrote something");
    println!("start with nothing to do: no object, AppliedManifestWork or work is written");
    println!("the same: {:.2} CPU-s, {}", agent.cpu(), agent.memory());
    print_requests(&on_spoke, &sent).await;

    latency(&on_spoke, &on_hub).await;
    server.stop().await;
}

/// Starts an embedded hub in this process.
async fn embedded_hub(dir: &Path) -> (Server, Client) {
    let objects = crds::hub().iter().map(Object::from_typed).collect();
    let server = Server::start(ServerOptions { objects, ..ServerOptions::new(now) }).await.unwrap();
    let kubeconfig = server.kubeconfig("admin", &["system:masters"]).unwrap();
    std::fs::write(dir.join("hub"), serde_json::to_string(&kubeconfig).unwrap()).unwrap();
    let client = kube::client_of(&dir.join("hub")).await;
    (server, client)
}

/// Starts an agent, and an operator that runs until the cluster has joined.
async fn joined(dir: &Path, spoke: &Path, hub: &Client) -> Agent {
    let stop = CancellationToken::new();
    let options = OperatorOptions::new(hub.clone(), dir.join("cache"));
    let operator = tokio::spawn(operator::run(options, stop.clone()));
    let agent = Agent::start(dir, spoke);
    let mut accept = tokio::process::Command::new(env!("CARGO_BIN_EXE_wheelwright"));
    accept.args(["accept", "--clusters", "c1", "--wait", "300", "--kubeconfig"]).arg(dir.join("hub"));
    assert!(accept.status().await.unwrap().success());
    let clusters: Api<api::cluster::v1::ManagedCluster> = Api::all(hub.clone());
    until("the cluster joins", async || {
        clusters.get("c1").await.unwrap().holds("ManagedClusterConditionAvailable")
    })
    .await;
    stop.cancel();
    operator.await.unwrap();
    agent
}

async fn until(state: &str, mut holds: impl AsyncFnMut() -> bool) {
    let begin = Instant::now();
    while !holds().await {
        assert!(begin.elapsed() < WITHIN, "waited in vain until {state}");
        tokio::time::sleep(POLL * 10).await;
    }
}

fn map(namespace: &str, name: &str) -> Value {
    let data = json!({"mode": "production", "level": "info", "script": "#!/bin/sh\nexec server --config /etc/server\n"});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data})
}

fn account(n: usize) -> Value {
    let metadata = json!({"name": format!("rest-{n}"), "namespace": "default"});
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
}

async fn namespace(client: &Client, name: &str) {
    let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
}

async fn create_work(hub: &Client, name: &str, manifests: Vec<Value>) {
    let work = json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {"name": name, "namespace": "c1"}, "spec": {"workload": {"manifests": manifests}},
    });
    let works: Api<ManifestWork> = Api::namespaced(hub.clone(), "c1");
    works.create(&PostParams::default(), &serde_json::from_value(work).unwrap()).await.unwrap();
}

async fn all_applied(hub: &Client, number: usize) {
    let works: Api<ManifestWork> = Api::namespaced(hub.clone(), "c1");
    until("the works are applied", async || {
        let all = works.list(&ListParams::default()).await.unwrap().items;
        all.iter().filter(|work| work.holds("Applied") && work.holds("Available")).count() == number
    })
    .await;
}

/// Waits until the objects of the works exist. Uses a watch, because lists would keep the API server busy and
/// count as requests.
async fn all_there(maps: &Api<ConfigMap>, number: usize) {
    let mut there = BTreeSet::new();
    let followed = async {
        while there.len() < number {
            let mut events = maps.watch_metadata(&WatchParams::default(), "0").await.unwrap().boxed();
            while there.len() < number
                && let Some(Ok(event)) = events.next().await
            {
                if let WatchEvent::Added(map) | WatchEvent::Modified(map) = event {
                    // The namespace also contains a built-in ConfigMap with the certificate authorities.
                    there.extend(map.metadata.name.filter(|name| name.starts_with("work-")));
                }
            }
        }
    };
    let is_in_time = tokio::time::timeout(WITHIN, followed).await.is_ok();
    assert!(is_in_time, "only {} of {number} objects are there", there.len());
}

/// Applies the same number of objects of the same size in a separate namespace.
async fn bare_loop(client: &Client, number: usize) -> Duration {
    namespace(client, "bare").await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "bare");
    let begin = Instant::now();
    let apply = |n: usize| {
        let (maps, name) = (maps.clone(), format!("work-{n}"));
        let object = map("bare", &name);
        async move { maps.patch(&name, &PatchParams::apply("bare"), &Patch::Apply(&object)).await.unwrap() }
    };
    stream::iter(0..number).map(apply).buffer_unordered(AT_ONCE).collect::<Vec<_>>().await;
    begin.elapsed()
}

/// Returns the versions of the objects that the agent may write, on its cluster and on the hub.
async fn versions(spoke: &Client, hub: &Client) -> BTreeMap<String, String> {
    async fn of<K>(api: Api<K>) -> Vec<(String, String)>
    where
        K: Clone + Debug + DeserializeOwned + Resource,
    {
        let all = api.list_metadata(&ListParams::default()).await.unwrap().items;
        let entry = |metadata: ::kube::core::ObjectMeta| {
            let names = (metadata.namespace.unwrap_or_default(), metadata.name.unwrap_or_default());
            (format!("{} {}", names.0, names.1), metadata.resource_version.unwrap_or_default())
        };
        all.into_iter().map(|object| entry(object.metadata)).collect()
    }
    let maps = of(Api::<ConfigMap>::namespaced(spoke.clone(), "works")).await;
    let applied = of(Api::<AppliedManifestWork>::all(spoke.clone())).await;
    let works = of(Api::<ManifestWork>::namespaced(hub.clone(), "c1")).await;
    let kinds = [("map", maps), ("applied", applied), ("work", works)];
    let all = kinds.into_iter().flat_map(|(kind, all)| {
        all.into_iter().map(move |(name, version)| (format!("{kind} {name}"), version))
    });
    all.collect()
}

/// Prints the requests since an earlier count.
async fn print_requests(client: &Client, before: &Requests) {
    let meanwhile = requests(client).await.since(before);
    println!("requests to its API server meanwhile, of all clients: {meanwhile:?}");
}

/// Measures how long a status takes to get from the cluster to the hub.
async fn latency(spoke: &Client, hub: &Client) {
    let template =
        json!({"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [{"name": "d", "image": "d"}]}});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "d"}}, "template": template},
    });
    let work = json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {"name": "deployment", "namespace": "c1"},
        "spec": {
            "workload": {"manifests": [deployment]},
            "manifestConfigs": [{
                "resourceIdentifier": {"group": "apps", "resource": "deployments", "name": "d", "namespace": "default"},
                "feedbackRules": [{"type": "WellKnownStatus"}],
            }],
        },
    });
    let works: Api<ManifestWork> = Api::namespaced(hub.clone(), "c1");
    works.create(&PostParams::default(), &serde_json::from_value(work).unwrap()).await.unwrap();
    let deployments: Api<Deployment> = Api::namespaced(spoke.clone(), "default");
    until("the Deployment is there", async || deployments.get_opt("d").await.unwrap().is_some()).await;
    tokio::time::sleep(SETTLES).await;
    let mut times = Vec::new();
    for replicas in 1..=CHANGES {
        let status = Patch::Merge(json!({"status": {"replicas": replicas, "readyReplicas": replicas}}));
        let begin = Instant::now();
        deployments.patch_status("d", &PatchParams::default(), &status).await.unwrap();
        loop {
            let work = works.get("deployment").await.unwrap();
            if ready_replicas(&work) == Some(replicas as i64) {
                break;
            }
            assert!(begin.elapsed() < WITHIN, "the hub does not know the status");
            tokio::time::sleep(POLL).await;
        }
        times.push(begin.elapsed().as_secs_f64());
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    times.sort_by(f64::total_cmp);
    let (best, worst) = (times[0], times[CHANGES - 1]);
    println!("a status from the cluster to the hub: {:.3} s ({best:.3} to {worst:.3})", times[CHANGES / 2]);
}

fn ready_replicas(work: &ManifestWork) -> Option<i64> {
    let values = &work.status.as_ref()?.resource_status.manifests.first()?.status_feedback.values;
    values.iter().find(|value| value.name == "ReadyReplicas")?.field_value.integer
}
