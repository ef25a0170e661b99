//! Tests elections against API servers that misbehave, with a paused clock.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use http::{Method, Request, Response, StatusCode};
use jiff::SignedDuration;
use kube::client::Body;
use tokio::time::timeout;

use super::super::lead;
use super::*;
use crate::lines::Lines;

/// An API server with one Lease.
#[derive(Default)]
struct Api {
    lease: Option<serde_json::Value>,
    version: u64,
    behavior: Behavior,
}

/// The behavior of the server from now on.
#[derive(Clone, Copy, Default)]
enum Behavior {
    #[default]
    Well,
    /// Every response takes this long; writes are stored at once.
    After(Duration),
    /// This many requests fail at once; later ones are never answered.
    FailsAndHangs(u32),
}

#[derive(Clone, Default)]
struct Server(Arc<Mutex<Api>>);

impl Server {
    fn client(&self) -> Client {
        let server = self.clone();
        Client::new(tower::service_fn(move |request| server.clone().answer(request)), "default")
    }

    /// Returns a client for a process whose wall clock, and thus the times it writes, is off by `seconds`.
    fn client_of_wrong_clock(&self, seconds: Arc<AtomicI64>) -> Client {
        let service = move |server: Self, seconds: i64, request: Request<Body>| async move {
            let (head, body) = request.into_parts();
            let mut bytes = body.collect_bytes().await.unwrap().to_vec();
            if let Ok(mut lease) = serde_json::from_slice::<Lease>(&bytes) {
                let spec = lease.spec.as_mut().unwrap();
                for time in [&mut spec.renew_time, &mut spec.acquire_time].into_iter().flatten() {
                    time.0 += SignedDuration::from_secs(seconds);
                }
                bytes = serde_json::to_vec(&lease).unwrap();
            }
            server.answer(Request::from_parts(head, Body::from(bytes))).await
        };
        let server = self.clone();
        Client::new(
            tower::service_fn(move |request| service(server.clone(), seconds.load(Relaxed), request)),
            "default",
        )
    }

    /// Returns true if the lease's last renewal time is off by about an hour.
    fn has_wrong_time(&self) -> bool {
        let lease = self.0.lock().unwrap().lease.clone().unwrap();
        let lease: Lease = serde_json::from_value(lease).unwrap();
        let renewed = lease.spec.unwrap().renew_time.unwrap().0;
        renewed.duration_since(now()).abs() > SignedDuration::from_mins(50)
    }

    fn behave(&self, behavior: Behavior) {
        self.0.lock().unwrap().behavior = behavior;
    }

    fn holder(&self) -> Option<String> {
        let server = self.0.lock().unwrap();
        Some(server.lease.as_ref()?.get("spec")?.get("holderIdentity")?.as_str()?.to_owned())
    }

    async fn answer(self, request: Request<Body>) -> Result<Response<Body>, std::convert::Infallible> {
        let method = request.method().clone();
        let body = request.into_body().collect_bytes().await.unwrap();
        let mut behavior = self.0.lock().unwrap().behavior;
        match &mut behavior {
            Behavior::Well | Behavior::After(_) => {}
            Behavior::FailsAndHangs(0) => std::future::pending().await,
            Behavior::FailsAndHangs(left) => {
                *left -= 1;
                self.behave(behavior);
                return Ok(status(StatusCode::INTERNAL_SERVER_ERROR));
            }
        }
        let answer = self.0.lock().unwrap().take(&method, &body);
        if let Behavior::After(delay) = behavior {
            sleep(delay).await;
        }
        Ok(answer)
    }
}

impl Api {
    fn take(&mut self, method: &Method, body: &[u8]) -> Response<Body> {
        if method == Method::GET {
            return self.lease.as_ref().map_or_else(|| status(StatusCode::NOT_FOUND), json);
        }
        let mut new: serde_json::Value = serde_json::from_slice(body).unwrap();
        let version = |lease: &serde_json::Value| lease["metadata"]["resourceVersion"].clone();
        if method == Method::PUT && version(&new).is_null() {
            // Kubernetes rejects an update of a Lease without a version.
            return status(StatusCode::UNPROCESSABLE_ENTITY);
        }
        if self.lease.as_ref().map(version).unwrap_or_default() != version(&new) {
            return status(StatusCode::CONFLICT);
        }
        self.version += 1;
        new["metadata"]["resourceVersion"] = self.version.to_string().into();
        json(self.lease.insert(new))
    }
}

fn json(value: &serde_json::Value) -> Response<Body> {
    Response::new(Body::from(serde_json::to_vec(value).unwrap()))
}

fn status(code: StatusCode) -> Response<Body> {
    let reason = match code {
        StatusCode::NOT_FOUND => "NotFound",
        StatusCode::CONFLICT => "Conflict",
        _ => "InternalError",
    };
    let body =
        serde_json::json!({"kind": "Status", "code": code.as_u16(), "reason": reason, "message": "no"});
    Response::builder().status(code).body(Body::from(serde_json::to_vec(&body).unwrap())).unwrap()
}

fn candidate(server: &Server, host: &str) -> Election {
    Election::new(server.client(), ElectionOptions::new("default", "leader", host))
}

/// Returns how long a leader keeps its leadership if the API server behaves like this right after a renewal.
async fn led_for(behavior: Behavior) -> Duration {
    let (server, stop) = (Server::default(), CancellationToken::new());
    let mut election = candidate(&server, "a");
    assert!(election.acquire(&stop).await);
    let (renewed, leadership) = (Instant::now(), election.leadership());
    server.behave(behavior);
    assert!(leadership.holds());
    timeout(Duration::from_secs(600), election.renew(&stop)).await.expect("it ends");
    assert!(!leadership.holds());
    renewed.elapsed()
}

#[tokio::test(start_paused = true)]
async fn the_deadline_of_a_renewal_holds_while_a_request_hangs() {
    let deadline = ElectionOptions::new("", "", "").renew_deadline;
    for failures in 0..=4 {
        assert_eq!(led_for(Behavior::FailsAndHangs(failures)).await, deadline, "{failures} failures first");
    }
}

/// The leadership counts from when a renewal was sent, because the server may have stored it at once, and other
/// candidates count from then.
#[tokio::test(start_paused = true)]
async fn a_late_response_prolongs_nothing() {
    let deadline = ElectionOptions::new("", "", "").renew_deadline;
    assert_eq!(led_for(Behavior::After(Duration::from_secs(9))).await, deadline);

    let server = Server::default();
    server.behave(Behavior::After(deadline * 3 / 5));
    let mut election = candidate(&server, "a");
    let won = timeout(Duration::from_secs(120), election.acquire(&CancellationToken::new())).await;
    assert!(won.is_err(), "an answer to the read and one to the write take longer than the deadline");
}

#[tokio::test(start_paused = true)]
async fn a_slow_server_keeps_its_leader() {
    let (server, stop) = (Server::default(), CancellationToken::new());
    let mut election = candidate(&server, "a");
    assert!(election.acquire(&stop).await);
    server.behave(Behavior::After(Duration::from_secs(1)));
    assert!(timeout(Duration::from_secs(600), election.renew(&stop)).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_dies_is_replaced_within_fifteen_seconds_and_after_its_deadline() {
    for later in 0..20 {
        let (server, stop) = (Server::default(), CancellationToken::new());
        let (mut first, mut second) = (candidate(&server, "a"), candidate(&server, "b"));
        assert!(first.acquire(&stop).await);
        let leadership = first.leadership();
        let lives = Duration::from_millis(20_000 + 100 * later);
        let (_, waited) =
            tokio::join!(timeout(lives, first.renew(&stop)), timeout(lives, second.acquire(&stop)));
        assert!(waited.is_err(), "the first renewed it all the time");
        let died = Instant::now();
        assert!(second.acquire(&stop).await);
        assert!(died.elapsed() <= Duration::from_secs(15), "{:?}", died.elapsed());
        assert!(!leadership.holds(), "never two at one time");
    }
}

/// Somebody deletes the lease or its namespace, or etcd is restored to a time before it.
#[tokio::test(start_paused = true)]
async fn a_lease_that_disappears_is_respected_as_one_that_is_not_renewed() {
    let (server, stop) = (Server::default(), CancellationToken::new());
    let (mut first, mut second) = (candidate(&server, "a"), candidate(&server, "b"));
    assert!(first.acquire(&stop).await);
    let leadership = first.leadership();
    let lives = Duration::from_secs(5);
    let (_, waited) = tokio::join!(timeout(lives, first.renew(&stop)), timeout(lives, second.acquire(&stop)));
    assert!(waited.is_err() && leadership.holds());
    server.0.lock().unwrap().lease = None;
    let gone = Instant::now();
    assert!(second.acquire(&stop).await);
    assert!(!leadership.holds(), "never two at one time");
    assert!(gone.elapsed() <= Duration::from_secs(15), "{:?}", gone.elapsed());

    server.0.lock().unwrap().lease = None;
    let of_itself = Instant::now();
    assert!(second.acquire(&stop).await);
    assert_eq!(of_itself.elapsed(), Duration::ZERO, "its own lease is made again at once");
}

/// A candidate whose wall clock jumps by an hour in either direction keeps its lease like others, and neither
/// takes nor loses one early.
#[tokio::test(start_paused = true)]
async fn a_wall_clock_that_jumps_gives_nobody_the_lease_early() {
    for (hours, leader_jumps) in [(1, true), (-1, true), (1, false), (-1, false)] {
        let (server, stop) = (Server::default(), CancellationToken::new());
        let wrong = Arc::new(AtomicI64::new(0));
        let jumping = Election::new(
            server.client_of_wrong_clock(Arc::clone(&wrong)),
            ElectionOptions::new("default", "leader", "jumping"),
        );
        let steady = candidate(&server, "steady");
        let (mut first, mut second) = if leader_jumps { (jumping, steady) } else { (steady, jumping) };
        assert!(first.acquire(&stop).await);
        let leadership = first.leadership();
        let jumps = async {
            sleep(Duration::from_secs(5)).await;
            wrong.store(hours * 3600, Relaxed);
        };
        let lives = Duration::from_secs(60);
        let (_, waited, ()) =
            tokio::join!(timeout(lives, first.renew(&stop)), timeout(lives, second.acquire(&stop)), jumps);
        assert!(waited.is_err() && leadership.holds(), "the first renewed it all the time");
        assert_eq!(server.has_wrong_time(), leader_jumps);
        let died = Instant::now();
        assert!(second.acquire(&stop).await);
        assert!(died.elapsed() <= Duration::from_secs(15), "{:?}", died.elapsed());
        assert!(!leadership.holds(), "never two at one time");
        assert_eq!(server.has_wrong_time(), !leader_jumps);
    }
}

#[tokio::test(start_paused = true)]
async fn giving_the_lease_back_takes_two_seconds_at_most() {
    let (server, stop) = (Server::default(), CancellationToken::new());
    let mut election = candidate(&server, "a");
    assert!(election.acquire(&stop).await);
    server.behave(Behavior::FailsAndHangs(0));
    let since = Instant::now();
    election.release().await;
    assert_eq!(since.elapsed(), RELEASE_WITHIN);
    assert!(server.holder().is_some());
}

/// Runs a candidate until `ends`; returns its log.
async fn log_of(server: &Server, identity: &str, ends: Duration) -> Vec<String> {
    let (lines, stop) = (Lines::record(), CancellationToken::new());
    let options =
        ElectionOptions { identity: identity.into(), ..ElectionOptions::new("default", "leader", "") };
    let election = Election::new(server.client(), options);
    let ended = async {
        sleep(ends).await;
        stop.cancel();
    };
    tokio::join!(lead(Some(election), stop.clone(), stop.cancelled()), ended);
    lines.all()
}

#[tokio::test(start_paused = true)]
async fn an_orderly_end_is_logged_and_only_a_lost_lease_warns() {
    let server = Server::default();
    let waits = "INFO waiting to be elected lease=leader identity=\"a\"";
    let ends = [waits, "INFO elected", "INFO released the lease"];
    assert_eq!(log_of(&server, "a", Duration::from_secs(5)).await, ends);

    let mut first = candidate(&server, "b");
    assert!(first.acquire(&CancellationToken::new()).await);
    let holder = server.holder().unwrap();
    let other = format!(
        "INFO another process leads; waiting for its lease to be released or to expire holder=\"{holder}\""
    );
    assert_eq!(log_of(&server, "a", Duration::from_secs(10)).await, [waits, &other], "once");

    let lines = Lines::record();
    server.behave(Behavior::FailsAndHangs(0));
    first.renew(&CancellationToken::new()).await;
    assert_eq!(lines.all().last().unwrap(), "WARN no longer the leader");
}

#[test]
fn candidates_of_one_host_differ() {
    let identity = || ElectionOptions::new("default", "leader", "host").identity;
    assert!(identity().starts_with("host_"));
    assert_ne!(identity(), identity());
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_last_renewal_was_cut_off_releases_the_lease_too() {
    let (server, stop) = (Server::default(), CancellationToken::new());
    let mut election = candidate(&server, "a");
    assert!(election.acquire(&stop).await);
    server.behave(Behavior::After(Duration::from_secs(1)));
    // The server stores the renewal 3 s from now, and would respond 4 s from now.
    let stopped = async {
        sleep(Duration::from_millis(3_500)).await;
        stop.cancel();
    };
    tokio::join!(election.renew(&stop), stopped);
    server.behave(Behavior::Well);
    election.release().await;
    assert_eq!(server.holder(), None);
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_disappeared_releases_the_recreated_one() {
    let (server, stop) = (Server::default(), CancellationToken::new());
    let mut election = candidate(&server, "a");
    assert!(election.acquire(&stop).await);
    server.0.lock().unwrap().lease = None;
    server.behave(Behavior::After(Duration::from_secs(1)));
    // The server stores the new lease 3 s from now, and would respond 4 s from now.
    let stopped = async {
        sleep(Duration::from_millis(3_500)).await;
        stop.cancel();
    };
    tokio::join!(election.renew(&stop), stopped);
    assert!(server.holder().is_some(), "it is stored");
    server.behave(Behavior::Well);
    election.release().await;
    assert_eq!(server.holder(), None);
}
