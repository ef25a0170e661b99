//! The API servers of the demo, and simulations of its administrator and nodes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::apiserver::{Server, ServerOptions};
use crate::shell::now;
use api::cluster::v1::ManagedCluster;
use api::{crds, names};
use object::{Key, Object};
use preview::workload;
use store::{ListOptions, Patch, ResourcePath, Store, WriteOptions};

/// The interval at which the administrator and the nodes act.
const TICK: Duration = Duration::from_millis(200);
/// The time until a pod is ready.
const READY_AFTER: SignedDuration = SignedDuration::from_millis(1500);
/// The images that exist. Pulls of other tags fail.
const IMAGES: [&str; 3] = [
    "quay.io/open-cluster-management/managed-serviceaccount:v0.9.0",
    "quay.io/open-cluster-management/managed-serviceaccount:v0.10.0",
    "registry.k8s.io/pause",
];

/// Starts the hub with the CRDs of a hub.
pub(super) async fn start_hub() -> Result<Server> {
    let options = ServerOptions { objects: definitions(crds::hub())?, ..ServerOptions::new(now) };
    Server::start(options).await.context("cannot start the hub")
}

/// Starts an API server with the CRDs of a spoke.
pub(super) async fn start_spoke(name: &str) -> Result<Server> {
    let options = ServerOptions { objects: definitions(crds::spoke())?, ..ServerOptions::new(now) };
    Server::start(options).await.with_context(|| format!("cannot start the cluster {name}"))
}

fn definitions<D: serde::Serialize>(definitions: Vec<D>) -> Result<Vec<Object>> {
    definitions.iter().map(|definition| Ok(Object::from_value(serde_json::to_value(definition)?)?)).collect()
}

/// Simulates the nodes of a spoke until `stop`: pods become ready if their image exists.
pub(super) fn run_nodes(spoke: Arc<Server>, tasks: &TaskTracker, stop: CancellationToken) {
    let images: BTreeSet<String> = IMAGES.iter().map(|image| (*image).to_owned()).collect();
    let workloads = workload::Environment { images, ready_after: READY_AFTER, nodes: 3 };
    tasks.spawn(async move {
        while stop.run_until_cancelled(tokio::time::sleep(TICK)).await.is_some() {
            spoke.with_store(|store, now| workload::run(store, &workloads, now));
        }
    });
}

/// Simulates the administrator of the hub until `stop`: labels, accepts and approves clusters that request to
/// join.
pub(super) fn run_administrator(hub: Arc<Server>, tasks: &TaskTracker, stop: CancellationToken) {
    tasks.spawn(async move {
        while stop.run_until_cancelled(tokio::time::sleep(TICK)).await.is_some() {
            hub.with_store(accept_clusters);
        }
    });
}

/// Labels, accepts and approves clusters, like `kubectl label`, `kubectl patch` and `kubectl certificate approve`.
fn accept_clusters(hub: &mut Store, now: Timestamp) {
    let options = WriteOptions::manager("demo");
    let clusters = ResourcePath::all::<ManagedCluster>();
    let waiting = hub.list(&clusters, &ListOptions::default()).map(|list| list.items).unwrap_or_default();
    for cluster in
        waiting.iter().filter(|cluster| cluster.at(&["spec", "hubAcceptsClient"]) != Some(&json!(true)))
    {
        let (cloud, number) = cluster.name().split_once('-').unwrap_or_default();
        let canary = (number == "1").then_some("true");
        let patch = json!({"metadata": {"labels": {"cloud": cloud, "canary": canary}}, "spec": {"hubAcceptsClient": true}});
        // After a conflict, the next round retries.
        let _ = hub.patch(&clusters.clone().named(cluster.name()), &Patch::Merge(patch), &options, now);
    }
    let requests = ResourcePath::resource("certificates.k8s.io", "v1", "certificatesigningrequests");
    let labeled = ListOptions { labels: names::CLUSTER_NAME_LABEL.into(), ..ListOptions::default() };
    let pending = hub.list(&requests, &labeled).map(|list| list.items).unwrap_or_default();
    for request in pending.iter().filter(|request| request.at(&["status", "conditions"]).is_none()) {
        let approval = json!({"status": {"conditions": [{
            "type": "Approved", "status": "True", "reason": "ApprovedByAdministrator", "message": "The administrator of the demo approves.",
        }]}});
        let target = requests.clone().at(&Key::cluster(request.name())).sub("approval");
        let _ = hub.patch(&target, &Patch::Merge(approval), &options, now);
    }
}
