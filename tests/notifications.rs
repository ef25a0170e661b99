//! Notifications from the outside: a rejected commit and its repair arrive signed at a receiver.

use std::path::Path;
use std::sync::{Arc, Mutex};

use api::condition::Conditions as _;
use api::gitops::v1alpha1::ConfigRepo;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::sources::{Hub, NAMESPACE, run};
use crate::wait::eventually;

const KEY: &[u8] = b"a key of at least 24 bytes";

/// The messages that arrived, with the ID of each.
type Arrived = Arc<Mutex<Vec<(String, Value)>>>;

/// Receives messages on a loopback address. Any answer but 2xx is for a wrong signature.
async fn receive() -> (String, Arrived) {
    let arrived = Arrived::default();
    let router = Router::new().route("/s3cret/fleet", post(take)).with_state(Arc::clone(&arrived));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/s3cret/fleet", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, arrived)
}

async fn take(State(arrived): State<Arrived>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let header = |name: &str| headers[name].to_str().unwrap().to_owned();
    let (id, time) = (header("webhook-id"), header("webhook-timestamp"));
    let tag = STANDARD.decode(header("webhook-signature").trim_start_matches("v1,")).unwrap();
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, KEY);
    let signed = [id.as_bytes(), b".", time.as_bytes(), b".", &body].concat();
    if ring::hmac::verify(&key, &signed, &tag).is_err() {
        return StatusCode::UNAUTHORIZED;
    }
    arrived.lock().unwrap().push((id, serde_json::from_slice(&body).unwrap()));
    StatusCode::NO_CONTENT
}

/// Commits a file and pushes it. Returns the commit.
fn commit(work: &Path, file: &str, text: &str) -> String {
    std::fs::write(work.join(file), text).unwrap();
    run(work, "git", &["add", "."]);
    let me = ["-c", "user.name=A User", "-c", "user.email=user@example.org"];
    run(work, "git", &[&me[..], &["commit", "-q", "-m", file]].concat());
    run(work, "git", &["push", "-q", "origin", "main"]);
    run(work, "git", &["rev-parse", "HEAD"])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rejected_commit_and_its_repair_arrive_signed_and_the_address_is_nowhere_else() {
    let hub = Hub::start().await;
    let (url, dir) = (hub.repository("a"), hub.dir.path());
    run(dir, "git", &["clone", "-q", "-b", "main", &url, "work"]);
    let (address, arrived) = receive().await;
    let count = || arrived.lock().unwrap().len();
    let event = |index: usize| arrived.lock().unwrap()[index].1.clone();
    let _operator = hub.operator(&url);
    eventually("the first commit is applied", async || hub.exists("a").await).await;
    let secrets: Api<Secret> = Api::namespaced(hub.server.client(), NAMESPACE);
    let repos: Api<ConfigRepo> = Api::namespaced(hub.server.client(), NAMESPACE);
    let wrong = format!("whsec_{}", STANDARD.encode([7; 32]));
    let secret = json!({"metadata": {"name": "oncall"}, "stringData": {"address": address, "key": wrong}});
    secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    let receiver = json!({"name": "oncall", "type": "CloudEvents", "secretRef": {"name": "oncall"}});
    let edit = |spec: Value| Patch::Merge(json!({"spec": spec}));
    repos.patch("a", &PatchParams::default(), &edit(json!({"notifications": [receiver]}))).await.unwrap();

    // The receiver refuses a wrong signature, and the condition says so without the path of the address.
    let rejected = commit(&dir.join("work"), "map.yaml", "kind: ConfigMap\n");
    let notified = async || {
        let repo = repos.get("a").await.unwrap();
        repo.condition("Notified").map(|condition| condition.message.clone())
    };
    eventually("the refusal is in the condition", async || {
        notified().await.is_some_and(|message| message.contains("refuses the notification: HTTP status 401"))
    })
    .await;
    assert!(!notified().await.unwrap().contains("s3cret"));
    let key = json!({"stringData": {"key": format!("whsec_{}", STANDARD.encode(KEY))}});
    secrets.patch("oncall", &PatchParams::default(), &Patch::Merge(key)).await.unwrap();
    repos.patch("a", &PatchParams::default(), &edit(json!({"interval": "2s"}))).await.unwrap();
    eventually("the rejection arrives", async || count() >= 1).await;
    let data = &event(0)["data"];
    assert_eq!(
        (&event(0)["type"], &data["commit"]),
        (&json!("dev.wheelwright.configrepo.Stalled"), &json!(rejected))
    );
    assert!(data["cause"].as_str().unwrap().contains("map.yaml"), "{data}");
    assert_eq!(data["command"], "wheelwright status");

    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}});
    let repaired = commit(&dir.join("work"), "map.yaml", &map.to_string());
    eventually("the recovery arrives", async || count() == 2).await;
    assert_eq!((&event(1)["data"]["state"], &event(1)["subject"]), (&json!("Recovered"), &json!(repaired)));
    eventually("the condition is true", async || repos.get("a").await.unwrap().holds("Notified")).await;
    let log = std::fs::read_to_string(dir.join("operator.log")).unwrap();
    let object = serde_json::to_string(&repos.get("a").await.unwrap()).unwrap();
    assert!(!log.contains("s3cret") && !object.contains("s3cret"), "{log}{object}");
}
