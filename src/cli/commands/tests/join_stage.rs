//! Waits for a cluster that joins, on a paused clock.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::http::{Request, Response};
use kube::client::Body;
use serde_json::{Value, json};

use super::*;

/// Returns a cluster on which the first `held` conditions are true.
fn cluster(count: usize) -> Value {
    let condition = |type_: &&str| {
        let time = "2026-01-01T00:00:00Z";
        json!({"type": type_, "status": "True", "reason": "R", "message": "", "lastTransitionTime": time})
    };
    let conditions: Vec<Value> = [HUB_ACCEPTED, JOINED, AVAILABLE][..count].iter().map(condition).collect();
    json!({"metadata": {"name": "c1"}, "spec": {}, "status": {"conditions": conditions}})
}

fn refusal(code: u16) -> Value {
    let reason = if code == 404 { "NotFound" } else { "No" };
    json!({"kind": "Status", "status": "Failure", "reason": reason, "code": code, "message": "no"})
}

/// Waits for a cluster on a hub that gives these answers in order and repeats the last one. An answer is the
/// number of true conditions, or the status code of an error.
async fn waited(answers: &[Result<usize, u16>]) -> Result<(), CommandError> {
    let (answers, reads) = (answers.to_vec(), Arc::new(AtomicUsize::new(0)));
    let service = tower::service_fn(move |_: Request<Body>| {
        let read = reads.fetch_add(1, Ordering::Relaxed).min(answers.len() - 1);
        let (code, body) = match answers[read] {
            Ok(count) => (200, cluster(count)),
            Err(code) => (code, refusal(code)),
        };
        let answer = Response::builder().status(code).body(Body::from(body.to_string().into_bytes()));
        async move { Ok::<_, Infallible>(answer.unwrap()) }
    });
    let hub = kube::Client::new(service, "default");
    let awaited =
        AwaitedCluster { cluster: "c1", namespace: "agent", wait: crate::cli::duration::wait("60").unwrap() };
    until_available(&hub, awaited, &mut Ui::stdio()).await
}

#[tokio::test(start_paused = true)]
async fn a_join_waits_until_the_hub_says_that_the_cluster_is_available() {
    waited(&[Err(404), Ok(0), Err(503), Ok(1), Ok(2), Ok(3)]).await.unwrap();
    for (answers, message, hint) in [
        (&[Err(404)][..], "cluster c1 has not asked the hub to join after 1m", "kubectl logs -n agent"),
        (&[Err(404), Ok(0)][..], "cluster c1 has asked to join", "wheelwright accept --clusters c1"),
        (&[Ok(1)][..], "cluster c1 is accepted, and has not joined", "wheelwright accept --clusters c1"),
        (&[Ok(2), Err(503)][..], "cluster c1 has joined, and is not available", "get clusters c1"),
        (&[Err(403)][..], "cannot read cluster c1 on its hub: no", "ask an administrator for it"),
    ] {
        let CommandError { error, hint: found } = waited(answers).await.unwrap_err();
        assert!(error.to_string().starts_with(message), "{error}");
        assert!(found.unwrap().contains(hint), "{message}");
    }
}
