use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::SignedDuration;
use serde_json::json;

use super::super::mirrors::SourceOptions;
use super::*;
use crate::git::tests::forge::Forge;
use crate::git::tests::recorder::Recorder;
use api::gitops::v1alpha1::CommitState;
use reconcile::FailureKind;

/// Starts a hub that returns a Secret with these tokens, one per request.
fn hub(tokens: &[&str]) -> Recorder {
    let answer = |token: &&str| {
        let data = json!({"token": STANDARD.encode(token)});
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "t"}, "data": data});
        format!("200 OK\nContent-Type: application/json\n\n{secret}")
    };
    let answers: Vec<String> = tokens.iter().map(answer).collect();
    Recorder::start(&answers.iter().map(String::as_str).collect::<Vec<_>>())
}

fn statuses(hub: &Recorder, local_repositories: bool) -> CommitStatuses {
    statuses_with(hub, local_repositories, Path::new("/nonexistent"))
}

fn statuses_with(hub: &Recorder, local_repositories: bool, cache: &Path) -> CommitStatuses {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = kube::Config::new(format!("http://{}", hub.address).parse().unwrap());
    let options = SourceOptions { cache: cache.into(), local_repositories, hosts: Vec::new() };
    CommitStatuses::new(Arc::new(Mirrors::new(kube::Client::try_from(config).unwrap(), options)))
}

fn status(address: &str) -> CommitStatus {
    CommitStatus {
        repo: Key::namespaced("config", "fleet"),
        provider: ProviderType::Gitea,
        address: address.into(),
        url: "https://git.example/acme/fleet".into(),
        secret: Key::namespaced("config", "t"),
        commit: "1".repeat(40),
        context: "wheelwright/1/config/fleet".into(),
        state: CommitState::Pending,
        description: "not ready: Rendering".into(),
    }
}

fn time() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

#[tokio::test]
async fn the_token_is_read_again_for_each_status() {
    let hub = hub(&["first", "second"]);
    let service = Recorder::start(&["201 Created\n\n{}", "201 Created\n\n{}"]);
    let statuses = statuses(&hub, true);
    let address = format!("http://{}/api/v1", service.address);
    for _ in 0..2 {
        statuses.try_set(status(&address), time()).await.unwrap();
    }
    let logins = service.requests().into_iter().map(|request| request.headers["authorization"].clone());
    assert_eq!(logins.collect::<Vec<_>>(), ["token first", "token second"]);
    assert_eq!(hub.requests()[0].line, "GET /api/v1/namespaces/config/secrets/t HTTP/1.1");
}

#[tokio::test]
async fn a_state_that_the_service_has_taken_is_not_sent_again() {
    let hub = hub(&["token", "token"]);
    let service = Recorder::start(&["201 Created\n\n{}", "201 Created\n\n{}"]);
    let statuses = statuses(&hub, true);
    let pending = status(&format!("http://{}/api/v1", service.address));
    let again = CommitStatus { description: "in other words".into(), ..pending.clone() };
    let success = CommitStatus { state: CommitState::Success, ..pending.clone() };
    for status in [pending, again, success.clone(), success] {
        statuses.set_once(status, time()).await.unwrap();
    }
    let bodies = service.requests().into_iter().map(|request| request.body.contains("success"));
    assert_eq!(bodies.collect::<Vec<_>>(), [false, true]);
}

#[tokio::test]
async fn a_service_that_refuses_requests_gets_none_until_its_time_ends() {
    let hub = hub(&["token", "token"]);
    let service = Recorder::start(&["429 Too Many Requests\nRetry-After: 300\n\n", "201 Created\n\n{}"]);
    let statuses = statuses(&hub, true);
    let address = format!("http://{}/api/v1", service.address);
    let set =
        async |seconds| statuses.try_set(status(&address), time() + SignedDuration::from_secs(seconds)).await;
    for seconds in [0, 1, 299] {
        let refused = failure(&set(seconds).await.unwrap_err());
        assert_eq!(refused.kind, FailureKind::Unavailable);
        assert!(refused.message.contains("rate limiting until 2026-01-02T03:09:05Z"), "{}", refused.message);
        assert_eq!(service.requests().len(), 1);
    }
    set(301).await.unwrap();
    assert_eq!(service.requests().len(), 2);
}

#[tokio::test]
async fn an_address_inside_is_refused_before_the_token_is_read() {
    let hub = hub(&[]);
    let statuses = statuses(&hub, false);
    for address in ["http://127.0.0.1:1/api", "https://user:pw@git.example/api", "file:///api"] {
        let error = statuses.try_set(status(address), time()).await.unwrap_err();
        assert_eq!(error.reason(), "InvalidURL", "{address}: {error}");
    }
    assert!(hub.requests().is_empty());
}

#[tokio::test]
async fn a_status_of_the_type_notes_is_a_note_of_the_repository() {
    let (hub, forge) = (hub(&["token", "token"]), Forge::new());
    let server = forge.serve();
    let statuses = statuses_with(&hub, true, &forge.root());
    let commit = forge.commit("main", &[("a", "1")]);
    let note = |address: &str| CommitStatus {
        provider: ProviderType::Notes,
        url: server.url.clone(),
        commit: commit.clone(),
        ..status(address)
    };
    let error = statuses.set_once(note("https://git.example/api"), time()).await.unwrap_err();
    assert_eq!(failure(&error).kind, FailureKind::Invalid, "{error}");
    statuses.set_once(note(""), time()).await.unwrap();
    let repo = forge.repo();
    let found = repo.find_note(Some("refs/notes/wheelwright"), commit.parse().unwrap()).unwrap();
    let line = "wheelwright/1/config/fleet: pending: not ready: Rendering\n";
    assert_eq!(found.message().unwrap(), line);
}
