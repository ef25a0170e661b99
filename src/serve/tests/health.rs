use std::pin::pin;
use std::time::Duration;

use axum::body::Body;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use tokio::sync::watch;
use tokio::time::{advance, timeout};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::*;
use crate::serve::metrics;
use crate::shell::{Shell, ShellOptions};

async fn asked(path: &str, running: Running) -> (StatusCode, String) {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let routes = HealthRoutes::new(running, metrics::of_operator);
    let answer = health(Router::new()).with_state(routes).oneshot(request).await.unwrap();
    let status = answer.status();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_process_whose_loop_is_stuck_for_a_minute_is_not_alive() {
    let hub = tower::service_fn(async |_| Ok::<_, std::io::Error>(Response::new(Body::empty())));
    let options = ShellOptions::new(kube::Client::new(hub, "default"));
    let shell = Shell::new(options, |_| ());
    let (_, running) = watch::channel(Ok(shell.handle()));
    let mut run = pin!(shell.run(CancellationToken::new()));
    assert!(timeout(Duration::from_secs(1), &mut run).await.is_err());
    assert_eq!(asked("/livez", running.clone()).await.0, StatusCode::OK);
    // The loop is not polled.
    advance(Duration::from_secs(61)).await;
    let (status, reason) = asked("/livez", running).await;
    assert_eq!(
        (status, reason.contains("for a minute")),
        (StatusCode::SERVICE_UNAVAILABLE, true),
        "{reason}"
    );

    let (_, joining) = watch::channel(Err("the agent has not joined the hub yet".to_owned()));
    assert_eq!(asked("/livez", joining.clone()).await.0, StatusCode::OK);
    assert_eq!(asked("/readyz", joining).await.0, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn an_agent_does_not_say_that_the_hub_has_a_leader() {
    let hub = tower::service_fn(async |_| Ok::<_, std::io::Error>(Response::new(Body::empty())));
    let handle = Shell::new(ShellOptions::new(kube::Client::new(hub, "default")), |_| ()).handle();
    let (agent, operator) = (metrics::of_agent(&handle).unwrap(), metrics::of_operator(&handle).unwrap());
    assert!(
        !agent.contains("wheelwright_leader") && agent.contains("wheelwright_fetch_duration_seconds"),
        "{agent}"
    );
    // With `--leader-elect=false`, it has no election either, but writes.
    assert!(operator.contains("wheelwright_leader 1"), "{operator}");
}

#[tokio::test(start_paused = true)]
async fn one_request_at_a_time_reads_the_fleet_and_few_wait_for_it() {
    let (place, (entered, mut inside), (leave, left)) =
        (ReadQueue::new(), tokio::sync::mpsc::unbounded_channel(), std::sync::mpsc::channel::<()>());
    let slow = {
        let place = place.clone();
        tokio::spawn(async move {
            alone(&place, move || {
                entered.send(()).unwrap();
                left.recv().unwrap();
                "first".into_response()
            })
            .await
        })
    };
    inside.recv().await.unwrap();
    let mut waiting: Vec<_> =
        (1..QUEUE).map(|_| Box::pin(alone(&place, || "one that waits".into_response()))).collect();
    for one in &mut waiting {
        assert!(futures::poll!(one).is_pending());
    }
    let refused = alone(&place, || "one too many".into_response()).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    advance(WAIT).await;
    for one in waiting {
        assert_eq!(one.await.status(), StatusCode::SERVICE_UNAVAILABLE, "it has waited long enough");
    }
    let mut next = Box::pin(alone(&place, || "one that waits".into_response()));
    assert!(futures::poll!(&mut next).is_pending());
    leave.send(()).unwrap();
    assert_eq!(slow.await.unwrap().status(), StatusCode::OK);
    assert_eq!(next.await.status(), StatusCode::OK);
}
