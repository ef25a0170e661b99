//! One leader at a time: the election by Lease, and what a leader does last.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::crds;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube::api::Api;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use wheelwright::apiserver::{Options, Server};
use wheelwright::operator::source::SourceOptions;
use wheelwright::operator::{self, OperatorOptions};
use wheelwright::shell::{Election, ElectionOptions, Selection, now};

use crate::kube::Cluster;

/// A third of the times of a real election: short, and still longer than a busy machine keeps a process waiting.
fn options(identity: &str) -> ElectionOptions {
    ElectionOptions {
        lease: Duration::from_secs(5),
        renew_deadline: Duration::from_secs(4),
        retry: Duration::from_millis(100),
        ..ElectionOptions::new("default", "leader", identity)
    }
}

async fn holder(client: &Client) -> Option<String> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), "default");
    leases.get_opt("leader").await.unwrap().and_then(|lease| lease.spec?.holder_identity)
}

#[tokio::test]
async fn the_lease_is_taken_when_it_is_given_back_or_has_expired_and_never_before() {
    let hub = Server::start(Options::new(now)).await.unwrap();
    let client = hub.client();
    let never = CancellationToken::new();
    let mut first = Election::new(client.clone(), options("first"));
    assert!(first.win(&never).await);

    let mut second = Election::new(client.clone(), options("second"));
    let stop = CancellationToken::new();
    let (leading, ()) = tokio::join!(timeout(Duration::from_secs(7), second.win(&never)), async {
        let _ = timeout(Duration::from_secs(7), first.keep(&stop)).await;
    });
    assert!(leading.is_err(), "the first renewed it all the time");
    first.release().await;
    assert_eq!(holder(&client).await, None);
    assert!(second.win(&never).await);

    // The second falls silent; its lease says 5 s.
    let mut third = Election::new(client.clone(), options("third"));
    assert!(third.win(&never).await);
    second.keep(&stop).await;
    second.release().await;
    assert_eq!(
        holder(&client).await.as_deref(),
        Some("third"),
        "a leader of the past frees nobody else's lease"
    );
}

/// The next leader reads the hub once it is elected: what the last one writes after that, it may not see.
#[tokio::test]
async fn a_leader_that_stops_gives_the_lease_back_after_its_last_write() {
    let cluster = Cluster::start("handover").await;
    cluster.kubectl().install(crds::hub().into_iter());
    let client = cluster.client().await;

    // A hub that takes its time for every write but those of the lease.
    let (begun, written) = (Arc::new(Notify::new()), Arc::new(Mutex::new(Vec::new())));
    let slow = tower::service_fn({
        let (client, begun, written) = (client.clone(), Arc::clone(&begun), Arc::clone(&written));
        move |request: http::Request<kube::client::Body>| {
            let (client, begun, written) = (client.clone(), Arc::clone(&begun), Arc::clone(&written));
            async move {
                let path = (request.method() != http::Method::GET).then(|| request.uri().path().to_owned());
                if path.as_ref().is_some_and(|path| !path.contains("/leases")) {
                    begun.notify_one();
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
                let response = client.send(request).await;
                written.lock().unwrap().extend(path);
                response
            }
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let stop = CancellationToken::new();
    let running = tokio::spawn(operator::run(
        OperatorOptions {
            hub: Client::new(slow, "default"),
            controllers: Selection::parse("clusterset", &operator::controller_names()).unwrap(),
            election: Some(options("first")),
            listen: None,
            sources: SourceOptions { cache: dir.path().to_owned(), local_repositories: false },
        },
        stop.clone(),
    ));
    begun.notified().await;
    stop.cancel();
    running.await.unwrap();
    let written = written.lock().unwrap().clone();
    assert!(written.iter().any(|path| !path.contains("/leases")), "{written:?}");
    assert!(written.last().unwrap().ends_with("/leases/leader"), "{written:?}");
    assert_eq!(holder(&client).await, None);
}
