//! An identity in use: pending renewals, rejections, and changing bootstrap kubeconfigs; all on a paused clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Bytes;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::*;
use crate::agent::hub::Bootstrap;
use crate::pki::{Authority, Profile, Subject, Usage};

#[path = "lost.rs"]
mod lost;

const KUBECONFIG: &str = "apiVersion: v1
kind: Config
current-context: bootstrap
contexts: [{name: bootstrap, context: {cluster: hub, user: bootstrap}}]
clusters: [{name: hub, cluster: {server: 'https://hub:6443', certificate-authority-data: QUJD}}]
users: [{name: bootstrap, user: {token: first}}]
";

/// A kubeconfig as OCM's agent writes it, with another order, other names and more fields.
const KEPT: &str = "apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: QUJD
    insecure-skip-tls-verify: false
    server: https://hub:6443
  name: hub
contexts:
- context:
    cluster: hub
    namespace: configuration
    user: default-auth
  name: default-context
current-context: default-context
kind: Config
preferences: {}
users:
- name: default-auth
  user:
    client-certificate: tls.crt
    client-key: tls.key
";

fn hub(kubeconfig: &str) -> BootstrapHub {
    let kubeconfig = kube::config::Kubeconfig::from_yaml(kubeconfig).unwrap();
    BootstrapHub::read(&Bootstrap::Given(Box::new(kubeconfig))).unwrap()
}

/// Returns a client of an API server that answers with a status and a body.
pub(in crate::agent) fn client(
    answer: impl Fn(&Request<Body>) -> (u16, Value) + Clone + Send + Sync + 'static,
) -> kube::Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let (code, body) = answer(&request);
        let bytes = Full::new(Bytes::from(body.to_string()));
        let response = Response::builder().status(code).body(bytes).unwrap();
        async move { Ok::<_, std::convert::Infallible>(response) }
    });
    kube::Client::new(service, "default")
}

pub(in crate::agent) fn refusal(code: u16) -> (u16, Value) {
    let reason = if code == 404 { "NotFound" } else { "No" };
    (
        code,
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": "no", "reason": reason}),
    )
}

/// Returns an identity that has been due for renewal for a while.
fn due(hub: &BootstrapHub) -> Credentials {
    let made = now().checked_sub(jiff::SignedDuration::from_hours(90)).unwrap();
    let subject = Subject::new("system:open-cluster-management:c1:agent1", &[]);
    let lifetime = Duration::from_hours(100);
    let profile = Profile { subject, names: &[], usage: Usage::Client, lifetime };
    let identity = Authority::create("hub", made).unwrap().issue(&profile, made).unwrap();
    Credentials::read(identity.certificate, identity.key, hub.stored_kubeconfig().unwrap()).unwrap()
}

fn options(spoke: kube::Client) -> AgentOptions {
    let kubeconfig = kube::config::Kubeconfig::from_yaml(KUBECONFIG).unwrap();
    AgentOptions::new(Bootstrap::Given(Box::new(kubeconfig)), spoke, "c1")
}

/// Returns the use of an identity by an agent without a claim.
fn unclaimed<'a>(
    options: &'a AgentOptions,
    hub: &'a BootstrapHub,
    client: &'a kube::Client,
    credentials: &'a Credentials,
) -> IdentityUse<'a> {
    IdentityUse { options, hub, client, credentials, claim: None, shell: None }
}

/// Returns how the use of an identity that is due for renewal ends within an hour, with these answers of the
/// hub.
async fn within_an_hour(answer: fn(&Request<Body>) -> (u16, Value)) -> Option<End> {
    let (hub, client) = (hub(KUBECONFIG), client(answer));
    let (credentials, options) = (due(&hub), options(client.clone()));
    assert!(credentials.renew_at() < now());
    let life = unclaimed(&options, &hub, &client, &credentials);
    timeout(Duration::from_hours(1), life.end(&CancellationToken::new())).await.ok()
}

/// Answers as a hub on which nobody approves a request. Every second read of the request fails.
fn pending(request: &Request<Body>) -> (u16, Value) {
    static READS: AtomicU32 = AtomicU32::new(0);
    let name = request.uri().path().rsplit('/').next().unwrap_or_default();
    let csr = json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "r"},
        "spec": {"request": "", "signerName": "x"}});
    match (request.method().as_str(), name) {
        ("POST", _) => (201, csr),
        ("GET", "certificatesigningrequests") => (200, json!({"metadata": {}, "items": []})),
        ("GET", "r") if READS.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) => refusal(503),
        ("GET", _) => (200, csr),
        _ => refusal(500),
    }
}

/// Joins a hub that rejects the cluster `refusals` times. It grants the request when `is_granted` returns true
/// for the number of attempts to create the cluster. Returns the final number of attempts.
async fn join_after(refusals: u32, is_granted: fn(u32) -> bool) -> u32 {
    let attempts = Arc::new(AtomicU32::new(0));
    let attempted = Arc::clone(&attempts);
    let certificate = BASE64_STANDARD.encode(due(&hub(KUBECONFIG)).certificate);
    let hub = client(move |request| match (request.method().as_str(), request.uri().path()) {
        ("POST", path) if path.ends_with("/managedclusters") => {
            match attempted.fetch_add(1, Ordering::Relaxed) < refusals {
                true => refusal(403),
                false => (201, json!({"metadata": {"name": "c1"}, "spec": {}})),
            }
        }
        ("GET", path) if path.ends_with("/r") => {
            let granted = is_granted(attempted.load(Ordering::Relaxed)).then(|| certificate.clone());
            let spec = json!({"request": "", "signerName": "x"});
            (200, json!({"metadata": {"name": "r"}, "spec": spec, "status": {"certificate": granted}}))
        }
        _ => pending(request),
    });
    let (options, name) =
        (options(hub.clone()), join::AgentName { cluster: "c1", agent: None, seconds: None });
    let stop = CancellationToken::new();
    let joined = join::join(&hub, &options, name, &stop);
    timeout(Duration::from_mins(10), joined).await.unwrap().unwrap();
    attempts.load(Ordering::Relaxed)
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_was_refused_is_created_once_the_agent_may() {
    // The request is granted at once, or only after the cluster was created.
    assert_eq!(join_after(1, |_| true).await, 2);
    assert_eq!(join_after(3, |attempts| attempts > 3).await, 4);
    // If only people create clusters, the agent joins too.
    assert!(join_after(u32::MAX, |attempts| attempts > 5).await > 5);
    assert_eq!(join_after(0, |_| true).await, 1);
}

/// Returns true if the agent creates a request when a user already has ten requests with these conditions.
async fn requests_beside_ten_of(user: &'static str, conditions: Value) -> bool {
    let certificate = BASE64_STANDARD.encode(due(&hub(KUBECONFIG)).certificate);
    let hub = client(move |request| match (request.method().as_str(), request.uri().path()) {
        ("POST", path) if path.ends_with("/selfsubjectreviews") => {
            let (api, kind) = ("authentication.k8s.io/v1", "SelfSubjectReview");
            let status = json!({"userInfo": {"username": "me"}});
            (201, json!({"apiVersion": api, "kind": kind, "metadata": {}, "status": status}))
        }
        ("GET", path) if path.ends_with("/certificatesigningrequests") => {
            let spec = json!({"request": "", "signerName": "x", "username": user});
            let one = json!({"metadata": {"name": "o"}, "spec": spec, "status": {"conditions": conditions}});
            (200, json!({"metadata": {}, "items": vec![one; 10]}))
        }
        ("GET", path) if path.ends_with("/r") => {
            let spec = json!({"request": "", "signerName": "x"});
            (200, json!({"metadata": {"name": "r"}, "spec": spec, "status": {"certificate": certificate}}))
        }
        _ => pending(request),
    });
    let name = join::AgentName { cluster: "c1", agent: Some("agent1"), seconds: None };
    match join::request(&hub, name, &CancellationToken::new()).await {
        Ok(_) => true,
        Err(JoinError::TooManyRequests(10)) => false,
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test(start_paused = true)]
async fn only_its_undecided_requests_keep_an_agent_from_making_another() {
    let approved = json!([{"type": "Approved", "status": "True"}]);
    assert!(requests_beside_ten_of("other", json!([])).await, "anybody may use the label of the cluster");
    assert!(requests_beside_ten_of("me", approved).await);
    assert!(!requests_beside_ten_of("me", json!([])).await);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_nobody_approves_does_not_end_the_use_of_the_identity() {
    assert!(within_an_hour(pending).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn an_expiring_identity_is_replaced_while_the_controllers_run() {
    let (hub, client) = (hub(KUBECONFIG), client(pending));
    let (mut credentials, options) = (due(&hub), options(client.clone()));
    credentials.until = now().checked_sub(jiff::SignedDuration::from_hours(1)).unwrap();
    let life = unclaimed(&options, &hub, &client, &credentials);
    let ended = timeout(Duration::from_secs(5), life.end(&CancellationToken::new())).await;
    assert!(ended.is_err(), "a hub that cannot be reached ends no life");
}

#[test]
fn an_identity_outlives_the_ca_of_the_hub_and_the_proxy_before_it() {
    let hub = hub(KUBECONFIG);
    let is_kept = |from: &str, to: &str| {
        let mut credentials = due(&hub);
        credentials.kubeconfig = KEPT.replace(from, to);
        hub.has_issued(&credentials, "c1")
    };
    let server = "server: https://hub:6443";
    assert!(is_kept("QUJD", "QUJE"));
    assert!(is_kept(server, &format!("{server}\n    proxy-url: http://proxy")));
    assert!(!is_kept("hub:6443", "other:6443"));
    assert!(!is_kept(": hub\n", ": rebuilt\n"));
    assert!(!hub.has_issued(&due(&hub), "c2"));
}

#[tokio::test(start_paused = true)]
async fn one_failed_read_does_not_cost_a_request_and_its_key() {
    let made = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&made);
    let client = client(move |request| {
        if request.method() == "POST" && request.uri().path().ends_with("/certificatesigningrequests") {
            counted.fetch_add(1, Ordering::Relaxed);
        }
        pending(request)
    });
    let hub = hub(KUBECONFIG);
    let (credentials, options) = (due(&hub), options(client.clone()));
    let life = unclaimed(&options, &hub, &client, &credentials);
    assert!(timeout(Duration::from_hours(1), life.end(&CancellationToken::new())).await.is_err());
    assert_eq!(made.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn an_identity_that_the_hub_refuses_is_abandoned() {
    assert!(matches!(within_an_hour(|_| refusal(401)).await, Some(End::Refused(_))));
    assert!(within_an_hour(|_| refusal(503)).await.is_none(), "a hub that is away refuses nobody");
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_refuses_an_expired_identity_does_not_end_the_attempt_to_join_again() {
    let (hub, client) = (hub(KUBECONFIG), client(|_| refusal(401)));
    let (mut credentials, options) = (due(&hub), options(client.clone()));
    credentials.until = now().checked_sub(jiff::SignedDuration::from_hours(1)).unwrap();
    let life = unclaimed(&options, &hub, &client, &credentials);
    assert!(timeout(Duration::from_hours(1), life.refused()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn an_identity_has_expired_when_the_hub_refuses_it_and_not_by_the_clock_of_the_agent_alone() {
    let expires = async |answer: fn(&Request<Body>) -> (u16, Value)| {
        let (hub, client) = (hub(KUBECONFIG), client(answer));
        let (mut credentials, options) = (due(&hub), options(client.clone()));
        credentials.until = now().checked_sub(jiff::SignedDuration::from_hours(1)).unwrap();
        let life = unclaimed(&options, &hub, &client, &credentials);
        timeout(Duration::from_hours(1), life.expired()).await.is_ok()
    };
    assert!(expires(|_| refusal(401)).await);
    assert!(!expires(|_| refusal(403)).await, "the clock is ahead");
    assert!(!expires(|_| refusal(503)).await, "a hub that is away refuses nobody");
}

#[tokio::test(start_paused = true)]
async fn a_time_that_has_passed_is_not_waited_for() {
    let started = tokio::time::Instant::now();
    until(now().checked_sub(jiff::SignedDuration::from_hours(1)).unwrap()).await;
    assert!(started.elapsed() < Duration::from_secs(1));
}

#[test]
fn an_identity_that_ocm_stored_is_taken_over() {
    let hub = hub(KUBECONFIG);
    assert!(hub.is_named_by(KEPT));
    assert!(hub.is_named_by(&hub.stored_kubeconfig().unwrap()));
    let proxy = ["server: https://hub:6443", "server: https://hub:6443\n    proxy-url: http://proxy"];
    let moved = ["hub:6443", "other:6443"];
    for [from, to] in [moved, ["QUJD", "QUJE"], [": hub\n", ": rebuilt\n"], proxy] {
        assert!(!hub.is_named_by(&KEPT.replace(from, to)), "{to}");
    }
    assert!(!hub.is_named_by("not a kubeconfig"));
}

#[tokio::test(start_paused = true)]
async fn a_bootstrap_kubeconfig_that_changes_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kubeconfig");
    std::fs::write(&path, KUBECONFIG).unwrap();
    let bootstrap = Bootstrap::File(path.clone());
    let hub = BootstrapHub::read(&bootstrap).unwrap();
    let hour = Duration::from_hours(1);
    assert!(timeout(hour, bootstrap_changes(&bootstrap, &hub)).await.is_err());
    std::fs::write(&path, "").unwrap();
    assert!(
        timeout(hour, bootstrap_changes(&bootstrap, &hub)).await.is_err(),
        "a file that is being written says nothing"
    );
    for [from, to] in [["first", "second"], ["QUJD", "QUJE"], ["hub:6443", "other:6443"]] {
        std::fs::write(&path, KUBECONFIG.replace(from, to)).unwrap();
        timeout(hour, bootstrap_changes(&bootstrap, &hub)).await.expect(to);
    }
}

/// Certificates expire by the machine's clock, which may be adjusted while the agent waits for the renewal.
#[tokio::test(start_paused = true)]
async fn a_jump_of_the_clock_by_an_hour_delays_no_renewal() {
    const HOUR: i64 = 3600;
    for (jump, expected) in [(0, 2 * HOUR), (HOUR, HOUR), (3 * HOUR, HOUR / 2), (-HOUR, 3 * HOUR)] {
        let began = Instant::now();
        // The clock jumps after half an hour.
        let clock = || {
            let passed = i64::try_from(began.elapsed().as_secs()).unwrap();
            Timestamp::from_second(passed + if passed >= HOUR / 2 { jump } else { 0 }).unwrap()
        };
        until_by(clock, Timestamp::from_second(2 * HOUR).unwrap()).await;
        let late = i64::try_from(began.elapsed().as_secs()).unwrap() - expected;
        assert!((0..=60).contains(&late), "{jump}: {late} s late");
    }
}

/// Returns why an agent with two hubs leaves the hub that answers a pending request like this.
async fn lost_in_an_hour(code: u16, body: Value) -> Option<String> {
    let client = client(move |_| (code, body.clone()));
    let mut options = options(client.clone());
    options.other_hubs.push(options.bootstrap.clone());
    timeout(Duration::from_hours(1), switch::lost_in_join(&options, &client)).await.ok()
}

#[tokio::test(start_paused = true)]
async fn an_agent_leaves_a_hub_that_dies_or_denies_it_before_the_certificate_and_no_other() {
    let refused = |code| async move {
        let (code, body) = refusal(code);
        lost_in_an_hour(code, body).await
    };
    assert_eq!(refused(503).await.as_deref(), Some("the hub did not respond for 600 s"));
    assert_eq!(refused(403).await, None, "a bootstrap token that may not read clusters");
    let cluster = |conditions: Value| {
        json!({
            "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": {"name": "c1"}, "spec": {"hubAcceptsClient": false},
            "status": {"conditions": conditions},
        })
    };
    let denied = json!([{
        "type": "HubAcceptedManagedCluster", "status": "False", "reason": "R", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]);
    let reason = lost_in_an_hour(200, cluster(denied)).await;
    assert_eq!(reason.as_deref(), Some("the hub has denied the cluster"));
    assert_eq!(lost_in_an_hour(200, cluster(json!([]))).await, None, "nobody has approved the cluster yet");
}

/// Returns the first hub of an agent with two hubs, if its cluster answers like this.
async fn begins_with((code, body): (u16, Value)) -> Result<String, JoinError> {
    let mut options = options(client(move |_| (code, body.clone())));
    let other = kube::config::Kubeconfig::from_yaml(&KUBECONFIG.replace("hub:6443", "other:6443")).unwrap();
    options.other_hubs.push(Bootstrap::Given(Box::new(other)));
    switch::to_stored(&mut options).await?;
    Ok(BootstrapHub::read(&options.bootstrap).unwrap().server)
}

#[tokio::test]
async fn an_agent_begins_with_the_hub_of_its_identity_once_that_can_be_read() {
    let credentials = due(&hub(&KUBECONFIG.replace("hub:6443", "other:6443")));
    let [certificate, key, kubeconfig] = [credentials.certificate, credentials.key, credentials.kubeconfig]
        .map(|text| BASE64_STANDARD.encode(text));
    let data = json!({"tls.crt": certificate, "tls.key": key, "kubeconfig": kubeconfig});
    let secret = json!({"metadata": {"name": "identity"}, "data": data});
    assert_eq!(begins_with((200, secret)).await.unwrap(), "https://other:6443");
    assert_eq!(begins_with(refusal(404)).await.unwrap(), "https://hub:6443");
    assert!(begins_with(refusal(503)).await.is_err());
}
