//! Tests the liveness of a shell, with a paused clock.

use std::pin::pin;

use http::{Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::client::Body;
use reconcile::{Plan, Read, View, Watches};
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::{advance, timeout};

use super::*;

/// A controller whose plan never ends.
struct Slow;

static BEGAN: Notify = Notify::const_new();

impl Controller for Slow {
    const NAME: &'static str = "slow";
    type Primary = ConfigMap;

    fn watches<W: Watches>(_: &mut W) {}

    fn plan(_: &Key, _: &impl View, _: jiff::Timestamp) -> Read<Plan> {
        BEGAN.notify_one();
        loop {
            std::thread::park();
        }
    }
}

/// Returns a shell on a hub with one ConfigMap.
fn shell() -> Shell {
    let hub = tower::service_fn(async |request: Request<Body>| {
        let resource = json!({"name": "configmaps", "singularName": "", "namespaced": true, "kind": "ConfigMap", "verbs": []});
        let map = json!({"metadata": {"name": "m", "namespace": "n", "uid": "u", "resourceVersion": "1"}});
        let answer = match (request.uri().path(), request.uri().query()) {
            ("/api/v1", _) => json!({"groupVersion": "v1", "resources": [resource]}),
            (_, Some(query)) if query.contains("watch=true") => std::future::pending().await,
            _ => json!({"metadata": {"resourceVersion": "1"}, "items": [map]}),
        };
        Response::builder().body(Body::from(answer.to_string().into_bytes()))
    });
    let options = ShellOptions::new(Client::new(hub, "default"));
    Shell::new(options, |registrar| registrar.add::<Slow>())
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_loop_that_rests_or_has_a_long_plan_is_alive() {
    let shell = shell();
    let (handle, stop) = (shell.handle(), CancellationToken::new());
    advance(600 * SECOND).await;
    assert!(handle.is_live(), "a candidate waits for its election");
    let running = tokio::spawn(shell.run(stop.clone()));
    BEGAN.notified().await;
    for _ in 0..600 {
        sleep(SECOND).await;
        assert!(handle.is_live(), "a plan runs for minutes, and nothing else happens");
    }
    stop.cancel();
    running.await.unwrap();
    advance(600 * SECOND).await;
    assert!(handle.is_live(), "an agent joins again");
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_has_not_run_for_a_minute_is_not_alive() {
    let shell = shell();
    let handle = shell.handle();
    let mut running = pin!(shell.run(CancellationToken::new()));
    assert!(timeout(SECOND, &mut running).await.is_err());
    advance(58 * SECOND).await;
    assert!(handle.is_live());
    advance(2 * SECOND).await;
    assert!(!handle.is_live(), "nobody polls the loop");
    assert!(timeout(SECOND, &mut running).await.is_err());
    assert!(handle.is_live(), "it goes on");
}
