//! One identity's share of the hub's requests, watches and connections.

use std::process::Command;
use std::sync::Arc;

use axum::body::Bytes;
use axum::http::{Request, StatusCode};
use futures::StreamExt as _;
use futures::future::join_all;
use futures::stream::FuturesUnordered;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Api;
use kube::api::{ListParams, PostParams, WatchEvent, WatchParams};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::json;
use wheelwright::apiserver::{Server, ServerOptions};
use wheelwright::shell::now;

use super::{Hub, config_map};
use crate::kube::client_of;

pub(super) type Body = BoxBody<Bytes, std::convert::Infallible>;

/// Number of response bytes that a peer accepts without reading them, the HTTP/2 minimum.
const WINDOW: u32 = 65_535;

/// Lets a user create and read config maps and events, through a role and a binding of this name.
async fn grant(admin: &kube::Client, name: &str, user: &str) {
    let role: ClusterRole = serde_json::from_value(json!({
        "metadata": { "name": name },
        "rules": [{ "apiGroups": [""], "resources": ["configmaps", "events"], "verbs": ["create", "get", "watch"] }],
    }))
    .unwrap();
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": { "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }],
    }))
    .unwrap();
    let post = PostParams::default();
    Api::all(admin.clone()).create(&post, &role).await.unwrap();
    Api::all(admin.clone()).create(&post, &binding).await.unwrap();
}

/// A peer with a bootstrap token that may create and read config maps and events.
pub(super) struct Peer {
    address: String,
    tls: tokio_rustls::TlsConnector,
    token: String,
}

impl Peer {
    /// Creates the token `id.id…`.
    pub(super) async fn new(hub: &Hub, address: &str, id: &str) -> Self {
        let client = client_of(&hub.data.join("admin.kubeconfig")).await;
        let secret = id.repeat(3)[..16].to_owned();
        let token: Secret = serde_json::from_value(json!({
            "metadata": { "name": format!("bootstrap-token-{id}") },
            "type": "bootstrap.kubernetes.io/token",
            "stringData": {
                "token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true",
            },
        }))
        .unwrap();
        let post = PostParams::default();
        Api::namespaced(client.clone(), "kube-system").create(&post, &token).await.unwrap();
        grant(&client, id, &format!("system:bootstrap:{id}")).await;
        let ca = CertificateDer::from_pem_file(hub.data.join("ca.crt")).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(ca).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = config.with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let tls = tokio_rustls::TlsConnector::from(Arc::new(config));
        Self { address: address.into(), tls, token: format!("{id}.{secret}") }
    }

    async fn connect(&self) -> SendRequest<Body> {
        let stream = tokio::net::TcpStream::connect(&self.address).await.unwrap();
        let stream = self.tls.connect("127.0.0.1".try_into().unwrap(), stream).await.unwrap();
        // Accept little of a response that is not read.
        let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(WINDOW).initial_connection_window_size(WINDOW);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender
    }

    /// Returns enough connections for this many concurrent requests.
    pub(super) async fn connections(&self, requests: usize) -> Vec<SendRequest<Body>> {
        join_all((0..requests.div_ceil(100)).map(|_| self.connect())).await
    }

    pub(super) fn request(&self, method: &str, path: &str, body: Body) -> Request<Body> {
        Request::builder()
            .method(method)
            .uri(format!("https://{}{path}", self.address))
            .header("authorization", format!("Bearer {}", self.token))
            .body(body)
            .unwrap()
    }

    fn watch(&self) -> Request<Body> {
        let path = "/api/v1/namespaces/default/configmaps?watch=true";
        self.request("GET", path, Full::default().boxed())
    }

    fn create(&self, body: Body) -> Request<Body> {
        self.request("POST", "/api/v1/namespaces/default/configmaps", body)
    }
}

/// The hub handles 600 requests and 8,192 watches at once, and with a limit of 1,024 files it has 384 connections.
#[tokio::test(flavor = "multi_thread")]
async fn one_identity_cannot_take_the_places_of_others() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new("prlimit");
    command.args(["--nofile=1024:1024", env!("CARGO_BIN_EXE_wheelwright")]);
    let (hub, address) = Hub::start_with(command, &dir.path().join("data"), "127.0.0.1:0");
    let (greedy, other) =
        (Peer::new(&hub, &address, "greedy").await, Peer::new(&hub, &address, "others").await);

    let connections = greedy.connections(700).await;
    let mut answers: FuturesUnordered<_> = (0..700)
        .map(|i| {
            let endless = StreamBody::new(futures::stream::pending::<Result<Frame<Bytes>, _>>());
            connections[i / 100].clone().send_request(greedy.create(http_body_util::BodyExt::boxed(endless)))
        })
        .collect();
    for _ in 0..100 {
        assert_eq!(answers.next().await.unwrap().unwrap().status(), StatusCode::TOO_MANY_REQUESTS);
    }
    let body = serde_json::to_vec(&config_map("made", "by another")).unwrap();
    let answer = other.connect().await.send_request(other.create(Full::from(body).boxed())).await.unwrap();
    assert_eq!(answer.status(), StatusCode::CREATED);
    drop((answers, connections));

    let connections = greedy.connections(8_300).await;
    let watches = join_all((0..8_300).map(|i| connections[i / 100].clone().send_request(greedy.watch())));
    let watches: Vec<_> = watches.await.into_iter().map(Result::unwrap).collect();
    assert_eq!(watches.iter().filter(|watch| watch.status() == StatusCode::OK).count(), 4_096);
    let watch = other.connect().await.send_request(other.watch()).await.unwrap();
    assert_eq!(watch.status(), StatusCode::OK);
    drop((watches, connections));

    let mut open = Vec::new();
    let refused = loop {
        let mut connection = greedy.connect().await;
        let answer = connection.send_request(greedy.watch()).await.unwrap();
        if answer.status() != StatusCode::OK {
            break answer.status();
        }
        open.push((connection, answer));
        assert!(open.len() <= 384, "one user has all connections");
    };
    assert_eq!(refused, StatusCode::TOO_MANY_REQUESTS);
    other.connect().await.send_request(other.watch()).await.unwrap();
    hub.config_maps().await.list(&ListParams::default()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_is_streamed_may_be_larger_than_the_share_of_its_user() {
    let server = Server::start(ServerOptions::new(now)).await.unwrap();
    let (admin, post) = (server.client(), PostParams::default());
    grant(&admin, "reader", "reader").await;
    let long = "x".repeat(900_000);
    for i in 0..50 {
        let large: ConfigMap = serde_json::from_value(
            json!({ "metadata": { "name": format!("large-{i}") }, "data": { "a": long } }),
        )
        .unwrap();
        Api::namespaced(admin.clone(), "default").create(&post, &large).await.unwrap();
    }

    let reader = crate::trace::client(&server.kubeconfig("reader", &[]).unwrap()).await;
    let maps: Api<ConfigMap> = Api::namespaced(reader, "default");
    let events = maps.watch(&WatchParams::default().initial_events(), "0").await.unwrap();
    let read = events.take_while(|event| {
        let goes_on = match event {
            Ok(WatchEvent::Added(_)) => true,
            Ok(WatchEvent::Bookmark(_)) => false,
            other => panic!("{other:?}"),
        };
        std::future::ready(goes_on)
    });
    assert!(read.count().await >= 50);
}
