//! The choice of an identity when the stored one has expired according to the agent's clock.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::SignedDuration;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::*;
use crate::agent::hub::Bootstrap;
use crate::agent::life::tests::{client, refusal};
use crate::git::tests::recorder::Recorder;
use crate::pki::{Authority, Identity, Profile, Subject, Usage};

/// Returns an identity that was issued `hours` hours ago, valid for a hundred hours.
fn issued(authority: &Authority, hours: i64) -> Identity {
    let subject = Subject::new("system:open-cluster-management:c1:agent1", &[]);
    let profile = Profile { subject, names: &[], usage: Usage::Client, lifetime: Duration::from_hours(100) };
    authority.issue(&profile, now().checked_sub(SignedDuration::from_hours(hours)).unwrap()).unwrap()
}

/// Returns true if an agent uses an expired identity on a hub that answers it with `code` and grants a new one.
async fn is_used(code: u16) -> bool {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let authority = Authority::create("hub", now()).unwrap();
    let (stored, new) = (issued(&authority, 101), issued(&authority, 1));
    let answer = |code: u16, body: &Value| format!("{code} X\nContent-Type: application/json\n\n{body}");
    let cluster = json!({"metadata": {"name": "c1"}, "spec": {}});
    let first = if code == 200 { cluster.clone() } else { refusal(code).1 };
    let certificate = json!({"certificate": STANDARD.encode(new.certificate)});
    let spec = json!({"request": "", "signerName": "x"});
    let request = json!({"metadata": {"name": "r"}, "spec": spec, "status": certificate});
    // The agent creates its cluster, requests its user name, lists its requests, creates a request and reads
    // it.
    let answers = [
        answer(code, &first),
        answer(201, &cluster),
        answer(403, &refusal(403).1),
        answer(200, &json!({"metadata": {}, "items": []})),
        answer(201, &request),
        answer(200, &request),
    ];
    let server = Recorder::start(&answers.each_ref().map(String::as_str));
    let address = json!({"server": format!("http://{}", server.address),
        "certificate-authority-data": STANDARD.encode(authority.certificate_pem())});
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "h", "cluster": address}], "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "h", "user": "u"}}],
    });
    let bootstrap = Bootstrap::Given(Box::new(serde_json::from_value(kubeconfig).unwrap()));
    let hub = BootstrapHub::read(&bootstrap).unwrap();
    let parts = [
        ("kubeconfig", hub.stored_kubeconfig().unwrap()),
        ("tls.crt", stored.certificate.clone()),
        ("tls.key", stored.key),
    ];
    let data = parts.map(|(name, text)| (name, json!(STANDARD.encode(text))));
    let data: Value = data.into_iter().collect();
    let spoke = client(move |_| (200, json!({"metadata": {"name": "identity"}, "data": data.clone()})));
    let options = AgentOptions::new(bootstrap, spoke, "c1");
    let stop = CancellationToken::new();
    let used = timeout(Duration::from_secs(60), obtain(&options, &hub, "", &stop)).await;
    used.unwrap().unwrap().certificate == stored.certificate
}

#[tokio::test]
async fn an_identity_that_has_expired_by_the_clock_of_the_agent_is_used_unless_the_hub_refuses_it() {
    for (code, expected) in [(200, true), (403, true), (404, true), (503, true), (401, false)] {
        assert_eq!(is_used(code).await, expected, "{code}");
    }
}
