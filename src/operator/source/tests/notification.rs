use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::super::fetch_places::MAX_NAMESPACE_FETCHES;
use super::super::mirrors::SourceOptions;
use super::*;
use crate::git::tests::recorder::Recorder;
use api::gitops::v1alpha1::NotifiedState;
use reconcile::FailureKind;

/// Starts a hub that returns a Secret with these addresses, one per request.
fn hub(addresses: &[String]) -> Recorder {
    let answer = |address: &String| {
        let data = json!({"address": STANDARD.encode(address)});
        let secret =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "chat"}, "data": data});
        format!("200 OK\nContent-Type: application/json\n\n{secret}")
    };
    let answers: Vec<String> = addresses.iter().map(answer).collect();
    Recorder::start(&answers.iter().map(String::as_str).collect::<Vec<_>>())
}

fn notifications(hub: &Recorder, local_repositories: bool) -> Notifications {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = kube::Config::new(format!("http://{}", hub.address).parse().unwrap());
    let options = SourceOptions { cache: "/nonexistent".into(), local_repositories, hosts: Vec::new() };
    Notifications::new(Arc::new(Mirrors::new(kube::Client::try_from(config).unwrap(), options)))
}

fn notification(id: &str) -> Notification {
    Notification {
        repo: Key::namespaced("config", "fleet"),
        receiver: "chat".into(),
        format: NotificationType::Slack,
        secret: Key::namespaced("config", "chat"),
        id: id.into(),
        state: NotifiedState::Stalled,
        digest: "d".into(),
        body: json!({"text": id}).to_string(),
    }
}

fn time() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

#[tokio::test]
async fn a_message_that_the_receiver_has_accepted_is_not_sent_again_and_a_refused_one_is() {
    let receiver = Recorder::start(&["500 No\n\n", "200 OK\n\nok", "200 OK\n\nok"]);
    let address = format!("http://{}/services/T0/secret", receiver.address);
    let hub = hub(&[address.clone(), address.clone(), address]);
    let notifications = notifications(&hub, true);
    let refused = notifications.send_once(notification("1"), time()).await.unwrap_err();
    assert_eq!(refused.kind, FailureKind::Unavailable);
    assert!(!refused.message.contains("services"), "{}", refused.message);
    for id in ["1", "1", "2", "2"] {
        notifications.send_once(notification(id), time()).await.unwrap();
    }
    let bodies: Vec<String> = receiver.requests().into_iter().map(|request| request.body).collect();
    assert_eq!(bodies, [r#"{"text":"1"}"#, r#"{"text":"1"}"#, r#"{"text":"2"}"#]);
    assert_eq!(hub.requests()[0].line, "GET /api/v1/namespaces/config/secrets/chat HTTP/1.1");
}

#[tokio::test]
async fn a_message_waits_for_a_place_of_its_namespace_and_delays_no_other_namespace() {
    let receiver = Recorder::start(&["200 OK\n\nok", "200 OK\n\nok"]);
    let address = format!("http://{}/services/T0/secret", receiver.address);
    let notifications = notifications(&hub(&[address.clone(), address]), true);
    let mut places = Vec::new();
    for _ in 0..MAX_NAMESPACE_FETCHES {
        places.push(notifications.mirrors.places.take("config").await);
    }
    let mut waiting = Box::pin(notifications.send_once(notification("1"), time()));
    let other = Notification { repo: Key::namespaced("other", "fleet"), ..notification("2") };
    tokio::select! {
        biased;
        sent = &mut waiting => panic!("sent without a place: {sent:?}"),
        sent = notifications.send_once(other, time()) => sent.unwrap(),
    }
    drop(places);
    waiting.await.unwrap();
    let bodies: Vec<String> = receiver.requests().into_iter().map(|request| request.body).collect();
    assert_eq!(bodies, [r#"{"text":"2"}"#, r#"{"text":"1"}"#]);
}

#[tokio::test]
async fn an_address_inside_is_refused_by_the_name_of_its_secret() {
    let inside = ["http://127.0.0.1:1/s3cret", "https://10.0.0.1/s3cret", "https://169.254.169.254/s3cret"];
    let hub = hub(&inside.map(str::to_owned));
    let notifications = notifications(&hub, false);
    for address in inside {
        let refused = notifications.send_once(notification("1"), time()).await.unwrap_err();
        assert_eq!(refused.kind, FailureKind::Invalid, "{address}");
        let message = refused.message;
        assert!(message.starts_with("the address in the Secret config/chat is refused: "), "{message}");
        assert!(!message.contains("s3cret"), "{message}");
    }
}

#[tokio::test]
async fn a_format_that_is_not_known_is_refused_before_the_secret_is_read() {
    let hub = hub(&[]);
    let format = NotificationType::Other("Pager".into());
    let unknown = Notification { format, ..notification("1") };
    let refused = notifications(&hub, true).send_once(unknown, time()).await.unwrap_err();
    assert_eq!((refused.kind, hub.requests().len()), (FailureKind::Invalid, 0));
}
