//! The embedded hub within the memory that the chart gives a process.

use axum::http::StatusCode;
use futures::StreamExt as _;
use futures::stream::{self, FuturesUnordered};
use http_body_util::{BodyExt as _, Full};
use kube::api::{ListParams, PostParams};
use serde_json::json;

use super::shares::{Body, Peer};
use super::{Hub, config_map, state};
use crate::memory::MemoryGroup;

/// Returns a 1.3 MB event as JSON.
fn event(i: usize) -> Vec<u8> {
    serde_json::to_vec(&json!({
        "metadata": { "name": format!("large-{i}") },
        "involvedObject": { "kind": "ConfigMap", "namespace": "default", "name": "a" },
        "message": "large",
        "related": { "kind": "ConfigMap", "name": "x".repeat(1_300_000) },
    }))
    .unwrap()
}

/// Returns a body that takes thirty times its 3 MB when parsed.
fn dense() -> Vec<u8> {
    let items = vec!["0"; 1_550_000].join(",");
    format!(r#"{{"metadata":{{"name":"dense"}},"data":[{items}]}}"#).into_bytes()
}

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const EVENTS: &str = "/api/v1/namespaces/default/events";

fn body(bytes: Vec<u8>) -> Body {
    Full::from(bytes).boxed()
}

/// Sends requests that fill the memory of a server without budgets, each kind exceeding the limit.
async fn send_everything(hub: &Hub, greedy: &Peer) {
    let connections = greedy.connections(400).await;
    // Data that is stored and survives a restart.
    let made = stream::iter(0..420).map(|i| {
        let request = greedy.request("POST", EVENTS, body(event(i)));
        connections[i % 4].clone().send_request(request)
    });
    let answers: Vec<_> = made.buffer_unordered(4).map(|answer| answer.unwrap().status()).collect().await;
    let refused = answers.iter().filter(|status| **status == StatusCode::INTERNAL_SERVER_ERROR).count();
    let created = answers.iter().filter(|status| **status == StatusCode::CREATED).count();
    assert!(created > 5 && refused > 300 && created + refused == answers.len(), "{created} {refused}");

    // Bodies that arrive at once and are parsed.
    let dense = dense();
    let mut answers: FuturesUnordered<_> = (0..60)
        .map(|i| {
            let request = greedy.request("POST", CONFIG_MAPS, body(dense.clone()));
            connections[i % 4].clone().send_request(request)
        })
        .collect();
    let mut busy = 0;
    while let Some(answer) = answers.next().await {
        let status = answer.unwrap().status();
        assert!(status.is_client_error(), "{status}");
        busy += usize::from(status == StatusCode::TOO_MANY_REQUESTS);
    }
    assert!(busy > 0, "60 bodies of 3 MB were held at once");

    // Responses and events that nobody reads.
    hub.config_maps()
        .await
        .create(&PostParams::default(), &config_map("large", &"x".repeat(1_300_000)))
        .await
        .unwrap();
    for path in [format!("{CONFIG_MAPS}/large"), format!("{CONFIG_MAPS}?watch=true")] {
        let connections = greedy.connections(600).await;
        let answers = (0..600).map(|i| {
            connections[i / 100].clone().send_request(greedy.request("GET", &path, Full::default().boxed()))
        });
        let answers: Vec<_> =
            futures::future::join_all(answers).await.into_iter().map(Result::unwrap).collect();
        let shown = answers.iter().filter(|answer| answer.status() == StatusCode::OK).count();
        assert!(shown > 10, "{path}: {shown}");
        hub.config_maps().await.list(&ListParams::default()).await.unwrap();
    }
}

/// Opens watches that begin with large objects, and replaces the objects before opening the next one. Nobody reads
/// what the watches send.
async fn watch_what_is_replaced(hub: &Hub, greedy: &Peer) {
    let (maps, post) = (hub.config_maps().await, PostParams::default());
    let connection = greedy.connections(100).await.remove(0);
    let (mut watches, mut refused) = (Vec::new(), 0);
    for round in 0..40 {
        let text = format!("{round:02}").repeat(650_000);
        for name in (0..8).map(|i| format!("replaced-{i}")) {
            let object = config_map(&name, &text);
            let written = match maps.replace(&name, &post, &object).await {
                Err(kube::Error::Api(status)) if status.code == 404 => maps.create(&post, &object).await,
                written => written,
            };
            written.unwrap();
        }
        let path = format!("{CONFIG_MAPS}?watch=true");
        let watch =
            connection.clone().send_request(greedy.request("GET", &path, Full::default().boxed())).await;
        let watch = watch.unwrap();
        refused += usize::from(watch.status() == StatusCode::TOO_MANY_REQUESTS);
        watches.push(watch);
    }
    assert!((1..40).contains(&refused), "{refused} watches were refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hub_stays_within_its_memory_limit_whatever_a_tenant_sends() {
    let dir = tempfile::tempdir().unwrap();
    let group = MemoryGroup::new("hub", 512);
    let (mut hub, address) = Hub::start_with(
        group.command(env!("CARGO_BIN_EXE_wheelwright")),
        &dir.path().join("data"),
        "127.0.0.1:0",
    );
    let greedy = Peer::new(&hub, &address, "greedy").await;
    send_everything(&hub, &greedy).await;
    watch_what_is_replaced(&hub, &greedy).await;
    let other = Peer::new(&hub, &address, "others").await;
    let request =
        other.request("POST", CONFIG_MAPS, body(serde_json::to_vec(&config_map("made", "")).unwrap()));
    let answer = other.connections(1).await[0].send_request(request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::CREATED);
    let before = state(&hub.config_maps().await).await;
    println!("the hub took at most {} MiB", group.peak());
    hub.kill();
    let (mut hub, _) = Hub::start_with(
        group.command(env!("CARGO_BIN_EXE_wheelwright")),
        &dir.path().join("data"),
        "127.0.0.1:0",
    );
    assert_eq!(state(&hub.config_maps().await).await, before);
    hub.kill();
}
