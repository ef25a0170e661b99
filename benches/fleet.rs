//! Measures the time from a push to the last ManifestWork, with the operator as a process and 200 clusters on a
//! real API server. The baseline, in the same run, is a loop of as many writes.
//!
//! `cargo bench --bench fleet [-- CLUSTERS]`
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a bench fails by panicking, and measures by the real clock"
)]
#![allow(dead_code, reason = "of the harness, only part is needed here")]

#[path = "../tests/fleet_commit.rs"]
mod fleet_commit;
mod hub;
#[path = "../tests/kube/mod.rs"]
mod kube;

use std::time::{Duration, Instant};

use ::kube::api::{Api, ListParams, Patch, PatchParams};
use api::work::v1::ManifestWork;
use fleet_commit::commit;
use futures::{StreamExt as _, stream};
use hub::{AT_ONCE, Operator, Requests, install, join, requests, usage, wait_for};
use kube::Cluster;
use serde_json::{Value, json};

const MANAGER: PatchParams =
    PatchParams { dry_run: false, force: false, field_manager: None, field_validation: None };

#[tokio::main]
async fn main() {
    let clusters = std::env::args().filter_map(|word| word.parse().ok()).next().unwrap_or(200);
    let hub = Cluster::start("bench").await;
    install(&hub);
    let client = hub.client().await;
    let dir = tempfile::tempdir().unwrap();
    let repository = dir.path().join("fleet.git");

    commit(&repository, "one");
    join(&client, clusters).await;
    let operator = Operator::start(&hub.kubeconfig, &repository, dir.path(), &[]);
    let works: Api<ManifestWork> = Api::all(client.clone());
    let begin = Instant::now();
    wait_for(&works, clusters, "one").await;
    let install = begin.elapsed();
    let before = (usage(operator.0.id()), requests(&client).await);

    let begin = Instant::now();
    commit(&repository, "two");
    wait_for(&works, clusters, "two").await;
    let update = begin.elapsed();
    let (used, wrote) = (usage(operator.0.id()), requests(&client).await);
    // Status writes after the last work are part of the update.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let settled = (usage(operator.0.id()), requests(&client).await);
    let bare = bare_loop(&client, &works).await;

    println!("clusters: {clusters}");
    println!("first install, operator start included: {:.2} s", install.as_secs_f64());
    println!("push to last ManifestWork: {:.2} s", update.as_secs_f64());
    println!("bare loop of {clusters} patches, {AT_ONCE} at once: {:.2} s", bare.as_secs_f64());
    println!("ratio: {:.2}", update.as_secs_f64() / bare.as_secs_f64());
    println!(
        "API writes per cluster: {:.2} until the last work, {:.2} when all is quiet",
        per(&wrote.since(&before.1), clusters),
        per(&settled.1.since(&before.1), clusters)
    );
    println!(
        "operator CPU: {:.2} s until the last work, {:.2} s when all is quiet",
        used.0 - before.0.0,
        settled.0.0 - before.0.0
    );
    println!("operator peak memory: {:.0} MB", settled.0.1);
}

fn per(sent: &Requests, clusters: usize) -> f64 {
    sent.writes().total() / clusters as f64
}

/// Writes one patch of the same size for each work.
async fn bare_loop(client: &::kube::Client, works: &Api<ManifestWork>) -> Duration {
    let list = works.list(&ListParams::default()).await.unwrap();
    let begin = Instant::now();
    let patch = |work: ManifestWork| {
        let api: Api<ManifestWork> =
            Api::namespaced(client.clone(), work.metadata.namespace.as_deref().unwrap());
        let mut spec = serde_json::to_value(&work.spec).unwrap();
        spec["workload"]["manifests"][0]["data"]["word"] = Value::from("three");
        async move {
            api.patch(work.metadata.name.as_deref().unwrap(), &MANAGER, &Patch::Merge(json!({"spec": spec})))
                .await
                .unwrap()
        }
    };
    stream::iter(list.items).map(patch).buffer_unordered(AT_ONCE).collect::<Vec<_>>().await;
    begin.elapsed()
}
