//! A proxy that authenticates clients as kube-apiserver does, and forwards their requests unless a rule says
//! otherwise.
//!
//! It speaks HTTP/1 and HTTP/2 over TLS. Clients present their certificates for the API server; the proxy passes
//! the names to the server (`--requestheader-username-headers`).

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{HeaderValue, Request, Response, Uri, header};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use wheelwright::pki::{Certificate, Identity, Subject};

use super::call::Call;
use super::stream::{Marks, pass};
use crate::kube::Cluster;

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The server rejects the request.
    Refuse { code: u16, reason: &'static str, retry_after: Option<u32> },
    /// The server executes the request, and the proxy responds with 500.
    ErrorAfterCommit,
    /// The server executes the request, and the connection closes before the response.
    ResetAfterCommit,
    /// The watch starts, and its first event is the error that its version is too old.
    Expired,
    /// The proxy accepts the request and does not respond.
    Hold,
}

/// The requests that a fault affects, and how many of them.
#[derive(Clone, Copy)]
pub(super) struct Rule {
    pub(super) on: fn(&Call) -> bool,
    pub(super) fault: Fault,
    pub(super) times: usize,
}

/// A request and its outcome.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) at: Instant,
    pub(super) user: String,
    pub(super) call: Call,
    pub(super) fault: Option<Fault>,
    /// The status of the response; `None` until it arrives.
    pub(super) status: Option<u16>,
}

/// A running proxy.
pub(super) struct Proxy {
    pub(super) url: String,
    state: Arc<State>,
    stop: CancellationToken,
}

struct State {
    server: Client<hyper_rustls::HttpsConnector<HttpConnector>, Body>,
    authority: String,
    rules: Mutex<Vec<Rule>>,
    seen: Mutex<Vec<Seen>>,
    answers: AtomicU64,
    marks: watch::Sender<Marks>,
}

/// Closes the connection without a response.
#[derive(Debug, thiserror::Error)]
#[error("the proxy ends the connection")]
struct Reset;

impl Proxy {
    pub(super) async fn start(cluster: &Cluster) -> Self {
        let serving = identity(cluster, "serving");
        let acceptor = acceptor(cluster, &serving);
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let authority = cluster.url.trim_start_matches("https://").to_owned();
        let state = Arc::new(State {
            server: server(cluster),
            authority,
            rules: Mutex::default(),
            seen: Mutex::default(),
            answers: AtomicU64::new(0),
            marks: watch::Sender::default(),
        });
        let stop = CancellationToken::new();
        let (accepting, over) = (Arc::clone(&state), stop.clone());
        tokio::spawn(over.run_until_cancelled_owned(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, acceptor.clone(), Arc::clone(&accepting)));
            }
        }));
        Self { url, state, stop }
    }

    /// Returns the kubeconfig file of a user who connects through the proxy.
    pub(super) fn kubeconfig_for(&self, cluster: &Cluster, user: &str, groups: &[&str]) -> PathBuf {
        cluster.kubeconfig_at(&self.url, user, groups)
    }

    pub(super) fn set(&self, rules: &[Rule]) {
        *self.state.rules.lock().unwrap() = rules.to_vec();
    }

    /// Closes the connections of all open responses.
    pub(super) fn tear(&self) {
        let until = self.state.answers.load(Ordering::SeqCst);
        self.state.marks.send_modify(|marks| marks.torn = until);
    }

    /// Stops the data of all open responses; their connections stay open.
    pub(super) fn silence(&self) {
        let until = self.state.answers.load(Ordering::SeqCst);
        self.state.marks.send_modify(|marks| marks.silent = until);
    }

    /// Returns the requests so far, in order of arrival.
    pub(super) fn seen(&self) -> Vec<Seen> {
        self.state.seen.lock().unwrap().clone()
    }

    /// Returns the number of requests so far.
    pub(super) fn count(&self) -> usize {
        self.state.seen.lock().unwrap().len()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn identity(cluster: &Cluster, name: &str) -> Identity {
    let read = |kind: &str| std::fs::read_to_string(cluster.path(&format!("{name}.{kind}"))).unwrap();
    Identity { certificate: read("crt"), key: read("key") }
}

fn chain_and_key(identity: &Identity) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let chain = CertificateDer::pem_slice_iter(identity.certificate.as_bytes());
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
    (chain.collect::<Result<_, _>>().unwrap(), key)
}

fn roots(cluster: &Cluster) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(cluster.ca_pem().as_bytes()).unwrap()).unwrap();
    roots
}

fn acceptor(cluster: &Cluster, serving: &Identity) -> TlsAcceptor {
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots(cluster)));
    let verifier = verifier.allow_unauthenticated().build().unwrap();
    let (chain, key) = chain_and_key(serving);
    let config = ServerConfig::builder().with_client_cert_verifier(verifier);
    let mut config = config.with_single_cert(chain, key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

/// Returns a client of the API server that may impersonate other users.
fn server(cluster: &Cluster) -> Client<hyper_rustls::HttpsConnector<HttpConnector>, Body> {
    let (chain, key) = chain_and_key(&identity(cluster, "front-proxy"));
    let config = ClientConfig::builder().with_root_certificates(roots(cluster));
    let config = config.with_client_auth_cert(chain, key).unwrap();
    let builder = hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(config);
    // The API server limits HTTP/2 streams; the proxy should not.
    Client::builder(TokioExecutor::new()).build(builder.https_only().enable_http1().build())
}

async fn serve(stream: TcpStream, acceptor: TlsAcceptor, state: Arc<State>) {
    stream.set_nodelay(true).unwrap();
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let leaf = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let user = leaf.map(|leaf| Certificate::from_der(leaf).unwrap().subject);
    let over = CancellationToken::new();
    let end = over.clone();
    let service = tower::service_fn(move |request| {
        let (state, user, end) = (Arc::clone(&state), user.clone(), end.clone());
        async move { state.handle(request, user.as_ref()).await.inspect_err(|Reset| end.cancel()) }
    });
    let builder = Builder::new(TokioExecutor::new());
    let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    // The client handles broken connections.
    drop(over.run_until_cancelled(connection).await);
}

impl State {
    async fn handle(
        &self,
        request: Request<Incoming>,
        user: Option<&Subject>,
    ) -> Result<Response<Body>, Reset> {
        let call = Call::new(request.method(), request.uri());
        let fault = self.fault(&call);
        let number = {
            let mut seen = self.seen.lock().unwrap();
            let user = user.map(|user| user.common_name.clone()).unwrap_or_default();
            seen.push(Seen { at: Instant::now(), user, call, fault, status: None });
            seen.len() - 1
        };
        let answer = match fault {
            None => self.forward(request, user).await,
            Some(Fault::Refuse { code, reason, retry_after }) => Ok(refusal(code, reason, retry_after)),
            Some(Fault::ErrorAfterCommit) => {
                self.forward(request, user).await.map(|_| refusal(500, "InternalError", None))
            }
            Some(Fault::ResetAfterCommit) => self.forward(request, user).await.and(Err(Reset)),
            Some(Fault::Expired) => Ok(expired()),
            Some(Fault::Hold) => {
                self.lifted().await;
                Err(Reset)
            }
        };
        let status = answer.as_ref().ok().map(|answer| answer.status().as_u16());
        self.seen.lock().unwrap()[number].status = status;
        answer
    }

    /// Returns the first rule that affects the request and is not used up.
    fn fault(&self, call: &Call) -> Option<Fault> {
        let mut rules = self.rules.lock().unwrap();
        let rule = rules.iter_mut().find(|rule| rule.times > 0 && (rule.on)(call))?;
        rule.times = rule.times.saturating_sub(1);
        Some(rule.fault)
    }

    /// Waits until no rule holds requests.
    async fn lifted(&self) {
        while self.rules.lock().unwrap().iter().any(|rule| rule.fault == Fault::Hold) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn forward(
        &self,
        request: Request<Incoming>,
        user: Option<&Subject>,
    ) -> Result<Response<Body>, Reset> {
        let (mut head, body) = request.into_parts();
        let path = head.uri.path_and_query().unwrap().clone();
        let uri = Uri::builder().scheme("https").authority(self.authority.as_str()).path_and_query(path);
        head.uri = uri.build().unwrap();
        head.version = axum::http::Version::HTTP_11;
        head.headers.remove(header::HOST);
        for name in ["x-remote-user", "x-remote-group"] {
            head.headers.remove(name);
        }
        if let Some(user) = user {
            let value = |text: &str| HeaderValue::from_str(text).unwrap();
            head.headers.insert("x-remote-user", value(&user.common_name));
            for group in &user.organizations {
                head.headers.append("x-remote-group", value(group));
            }
        }
        let request = Request::from_parts(head, Body::new(body));
        let answer = self.server.request(request).await.map_err(|_| Reset)?;
        let (mut head, body) = answer.into_parts();
        // The proxy reframes the response.
        head.headers.remove(header::TRANSFER_ENCODING);
        let number = self.answers.fetch_add(1, Ordering::SeqCst);
        Ok(Response::from_parts(head, pass(number, body, self.marks.subscribe())))
    }
}

fn refusal(code: u16, reason: &str, retry_after: Option<u32>) -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code, "reason": reason,
        "message": format!("the proxy answers {code}"),
        "details": { "retryAfterSeconds": retry_after.unwrap_or_default() },
    });
    let mut answer = Response::builder().status(code).header(header::CONTENT_TYPE, "application/json");
    if let Some(seconds) = retry_after {
        answer = answer.header(header::RETRY_AFTER, seconds);
    }
    answer.body(Body::from(status.to_string())).unwrap()
}

fn expired() -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410, "reason": "Expired",
        "message": "too old resource version",
    });
    let event = format!("{}\n", json!({ "type": "ERROR", "object": status }));
    Response::builder().header(header::CONTENT_TYPE, "application/json").body(Body::from(event)).unwrap()
}
