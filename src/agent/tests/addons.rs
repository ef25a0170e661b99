use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::agent::life::tests::{client, refusal};
use crate::agent::spoke::tests::agent;
use crate::apiserver::{Server, ServerOptions};
use crate::pki::{Authority, Profile, Usage};
use api::names::KUBE_CLIENT_SIGNER;
use serde_json::json;

#[test]
fn a_repeatedly_denied_request_is_made_less_and_less_often() {
    let (mut attempts, mut at) = (RegistrationAttempts::default(), Timestamp::UNIX_EPOCH);
    let mut made = 0;
    while at.as_second() < 3600 {
        made += 1;
        attempts.ended(None, at);
        at = attempts.wait.unwrap().until;
        assert!(attempts.is_due(at) && !attempts.is_due(at - SignedDuration::from_secs(1)));
    }
    assert_eq!(made, 11, "with a flat wait, each cluster makes 360 an hour");

    attempts.ended(Some(at), at);
    assert_eq!(attempts.wait.unwrap().until, later(at, RETRY), "no clock makes it faster");
    attempts.ended(None, at);
    assert_eq!(attempts.wait.unwrap().until, later(at, RETRY), "a success ends the row of failures");
}

#[test]
fn credentials_are_checked_long_before_their_renewal() {
    let (mut attempts, now) = (RegistrationAttempts::default(), Timestamp::UNIX_EPOCH);
    for (renewal, look) in [(60, 60), (300, 300), (90 * 24 * 3600, 300)] {
        attempts.ended(Some(later(now, SignedDuration::from_secs(renewal))), now);
        let until = later(now, SignedDuration::from_secs(look));
        assert_eq!(attempts.wait.unwrap().until, until, "{renewal}");
    }
}

#[tokio::test]
async fn before_the_renewal_only_missing_credentials_are_recreated() {
    let spoke = Server::start(ServerOptions::new(now)).await.unwrap();
    let (options, hub, _) = agent(&spoke, "https://one:6443", "ns-one");
    let addons = AddOns { hub: &hub, client: &client(|_| refusal(503)), options: &options };
    let asked = json!({"registrations": [{"signerName": KUBE_CLIENT_SIGNER}]});
    let addon = json!({"metadata": {"name": "a", "namespace": "c1"}, "spec": {}, "status": asked});
    let registration = addons.registrations(&serde_json::from_value(addon).unwrap()).remove(0);
    assert!(addons.has_namespace(false, &registration.namespace).await.unwrap());
    let renewal = WallClockWait { since: now(), until: later(now(), SignedDuration::from_hours(1)) };
    let ensured = async || {
        let stop = CancellationToken::new();
        addons
            .ensure(registration.clone(), Known { renewal: Some(renewal), is_rotated: true }, stop)
            .await
            .1
            .ok()
    };
    assert_eq!(ensured().await, None, "it asks the hub, which does not respond");
    addons.store(&registration, &[("tls.crt", "of another agent")]).await.unwrap();
    assert_eq!(ensured().await, Some(renewal.until));
}

/// Returns a hub on which an add-on's certificate is not rotated, and the number of patches that it has
/// received. It answers the first patch with a conflict.
fn conflicting_hub() -> (kube::Client, Arc<AtomicU32>) {
    let patches = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&patches);
    let hub = client(move |request| {
        if request.method() == http::Method::PATCH && count.fetch_add(1, Ordering::Relaxed) == 0 {
            return refusal(409);
        }
        let condition = json!({"type": "ClusterCertificateRotated", "status": "False", "reason": "r", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let metadata = json!({"name": "a", "namespace": "c1", "resourceVersion": "1"});
        (200, json!({"metadata": metadata, "spec": {}, "status": {"conditions": [condition]}}))
    });
    (hub, patches)
}

#[tokio::test]
async fn a_report_that_meets_a_conflict_is_written_after_it() {
    let spoke = Server::start(ServerOptions::new(now)).await.unwrap();
    let (options, hub, _) = agent(&spoke, "https://one:6443", "ns-one");
    let (conflicting, patches) = conflicting_hub();
    let addons = AddOns { hub: &hub, client: &conflicting, options: &options };
    addons.report("a", addon_status::refreshed(now())).await.unwrap();
    assert_eq!(patches.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn fresh_credentials_are_reported_if_the_hub_has_none_on_record() {
    let spoke = Server::start(ServerOptions::new(now)).await.unwrap();
    let (options, hub, _) = agent(&spoke, "https://one:6443", "ns-one");
    let (conflicting, patches) = conflicting_hub();
    let addons = AddOns { hub: &hub, client: &conflicting, options: &options };
    let asked = json!({"registrations": [{"signerName": "example.com/proxy", "subject": {"user": "proxy"}}]});
    let addon = json!({"metadata": {"name": "a", "namespace": "c1"}, "spec": {}, "status": asked});
    let registration = addons.registrations(&serde_json::from_value(addon).unwrap()).remove(0);
    addons.has_namespace(false, &registration.namespace).await.unwrap();
    let groups: Vec<&str> = registration.groups.iter().map(String::as_str).collect();
    let mut subject = pki::Subject::new(registration.user.clone(), &groups);
    subject.organizational_units.clone_from(&registration.units);
    let profile = Profile { subject, names: &[], usage: Usage::Client, lifetime: Duration::from_hours(9) };
    let issued = Authority::create("proxy", now()).unwrap().issue(&profile, now()).unwrap();
    addons.store(&registration, &[("tls.crt", &issued.certificate), ("tls.key", &issued.key)]).await.unwrap();
    let ensured = async |is_rotated| {
        let known = Known { renewal: None, is_rotated };
        addons.ensure(registration.clone(), known, CancellationToken::new()).await.1.unwrap();
        patches.load(Ordering::Relaxed)
    };
    assert_eq!(ensured(true).await, 0, "there is nothing to report");
    assert_eq!(ensured(false).await, 2, "a conflict, and the report");
}
