//! Receives webhooks from git servers over HTTPS, and passes them on unread.
//!
//! The response only confirms that a delivery arrived. It is the same whether or not the ConfigRepo exists, has
//! a webhook, and the signature is valid. It is sent before any lookup, so its timing reveals nothing either.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use axum::{Router, http};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::accept::{ConnectionLimits, HANDSHAKE_TIMEOUT, accept};
use object::Key;

/// The maximum size of a body. A push of a thousand commits has about half of it. A fetch at the next interval
/// finds larger pushes.
const MAX_BODY_BYTES: usize = 1 << 20;
/// The maximum number of connections, and therefore of bodies in memory: 32 MiB.
const CONNECTIONS: ConnectionLimits = ConnectionLimits { most: 32, of_one: 8 };
/// The maximum duration of a connection with its one request.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(15);
/// The window in which a source may make [`PER_SOURCE`] requests.
const WINDOW: Duration = Duration::from_secs(10);
const PER_SOURCE: u32 = 100;
/// The maximum number of counted sources. Requests from other sources are rejected until the window ends.
const SOURCES: usize = 4096;

/// The address and the certificate of the receiver.
#[derive(Clone, Debug)]
pub struct ReceiverOptions {
    pub listen: SocketAddr,
    /// The file with the certificate, in PEM. The certificate and the key are read for every connection, so
    /// that replacing them takes effect at once.
    pub certificate: PathBuf,
    /// The file with the key, in PEM.
    pub key: PathBuf,
}

/// An unverified request.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The ConfigRepo in the path.
    pub repo: Key,
    pub headers: HeaderMap,
    /// The unmodified body.
    pub body: Bytes,
}

struct Receiver {
    deliveries: mpsc::Sender<Delivery>,
    sources: Mutex<Sources>,
}

/// The requests in the current window, by source.
struct Sources {
    began: Instant,
    requests: BTreeMap<IpAddr, u32>,
}

impl Sources {
    fn admit(&mut self, source: IpAddr, now: Instant) -> bool {
        if now.duration_since(self.began) >= WINDOW {
            (self.began, self.requests) = (now, BTreeMap::new());
        }
        if self.requests.len() >= SOURCES && !self.requests.contains_key(&source) {
            return false;
        }
        let requests = self.requests.entry(source).or_default();
        *requests += 1;
        *requests <= PER_SOURCE
    }
}

/// Serves `/webhooks/{namespace}/{name}` until `stop`.
///
/// # Errors
/// Fails if it cannot listen on the address.
pub async fn serve(
    options: ReceiverOptions,
    deliveries: mpsc::Sender<Delivery>,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let listener = TcpListener::bind(options.listen).await?;
    info!(address = %listener.local_addr()?, "serving webhooks of git servers");
    let routes = routes(deliveries);
    accept(listener, CONNECTIONS, stop, move |stream, peer| {
        let (options, routes) = (options.clone(), routes.clone().layer(Extension(peer.ip())));
        async move {
            // Closes a connection that breaks or is too slow.
            let _ = timeout(CONNECTION_TIMEOUT, connection(stream, &options, routes)).await;
        }
    })
    .await;
    Ok(())
}

/// Answers the only request on a connection.
async fn connection(stream: TcpStream, options: &ReceiverOptions, routes: Router) {
    let config = match tls(options) {
        Ok(config) => config,
        Err(error) => {
            warn!(%error, path = %options.certificate.display(), "cannot serve webhooks");
            return;
        }
    };
    let handshake = TlsAcceptor::from(Arc::new(config)).accept(stream);
    let Ok(Ok(stream)) = timeout(HANDSHAKE_TIMEOUT, handshake).await else { return };
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HANDSHAKE_TIMEOUT).keep_alive(false);
    let service = TowerToHyperService::new(routes);
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

fn tls(options: &ReceiverOptions) -> Result<ServerConfig, rustls::Error> {
    let unread = |error: &dyn std::fmt::Display| rustls::Error::General(error.to_string());
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(&options.certificate).map_err(|e| unread(&e))?.collect();
    let key = PrivateKeyDer::from_pem_file(&options.key).map_err(|e| unread(&e))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    builder.with_no_client_auth().with_single_cert(chain.map_err(|e| unread(&e))?, key)
}

fn routes(deliveries: mpsc::Sender<Delivery>) -> Router {
    let sources = Mutex::new(Sources { began: Instant::now(), requests: BTreeMap::new() });
    Router::new()
        .route("/webhooks/{namespace}/{name}", post(receive))
        .with_state(Arc::new(Receiver { deliveries, sources }))
}

async fn receive(
    State(receiver): State<Arc<Receiver>>,
    Extension(source): Extension<IpAddr>,
    Path((namespace, name)): Path<(String, String)>,
    headers: http::HeaderMap,
    body: Body,
) -> StatusCode {
    let admitted =
        receiver.sources.lock().unwrap_or_else(PoisonError::into_inner).admit(source, Instant::now());
    if !admitted {
        return StatusCode::TOO_MANY_REQUESTS;
    }
    let Ok(body) = to_bytes(body, MAX_BODY_BYTES).await else { return StatusCode::PAYLOAD_TOO_LARGE };
    let delivery = Delivery { repo: Key::namespaced(namespace, name), headers, body };
    match receiver.deliveries.try_send(delivery) {
        Ok(()) => StatusCode::ACCEPTED,
        Err(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Request;
    use tower::ServiceExt as _;

    use super::*;

    async fn ask(routes: &Router, method: &str, path: &str, body: impl Into<Body>) -> StatusCode {
        let request =
            Request::builder().method(method).uri(path).header("content-type", "text/html; charset=utf-16");
        let request = request.body(body.into()).unwrap();
        let routes = routes.clone().layer(Extension(IpAddr::from([192, 0, 2, 1])));
        let answer = routes.oneshot(request).await.unwrap();
        let status = answer.status();
        let body = to_bytes(answer.into_body(), 1).await.unwrap();
        assert!(body.is_empty(), "an answer has no body");
        status
    }

    #[tokio::test]
    async fn every_delivery_gets_the_same_answer_and_is_handed_on_unread() {
        let (sender, mut receiver) = mpsc::channel(2);
        let routes = routes(sender);
        for path in ["/webhooks/a/b", "/webhooks/there/is-none"] {
            assert_eq!(ask(&routes, "POST", path, b"{".to_vec()).await, StatusCode::ACCEPTED, "{path}");
        }
        let delivery = receiver.recv().await.unwrap();
        assert_eq!((delivery.repo, delivery.body.as_ref()), (Key::namespaced("a", "b"), b"{".as_slice()));
        assert_eq!(ask(&routes, "GET", "/webhooks/a/b", Vec::new()).await, StatusCode::METHOD_NOT_ALLOWED);
    }

    #[tokio::test]
    async fn bodies_requests_and_the_queue_are_limited() {
        let (sender, _receiver) = mpsc::channel(2);
        let routes = routes(sender);
        let large = vec![b' '; MAX_BODY_BYTES + 1];
        assert_eq!(ask(&routes, "POST", "/webhooks/a/b", large).await, StatusCode::PAYLOAD_TOO_LARGE);
        let endless = futures::stream::repeat_with(|| Ok::<_, std::io::Error>(vec![b' '; 1 << 10]));
        let endless = Body::from_stream(endless);
        assert_eq!(ask(&routes, "POST", "/webhooks/a/b", endless).await, StatusCode::PAYLOAD_TOO_LARGE);
        let mut answers = Vec::new();
        for _ in 0..PER_SOURCE {
            answers.push(ask(&routes, "POST", "/webhooks/a/b", Vec::new()).await);
        }
        assert_eq!(answers.first(), Some(&StatusCode::ACCEPTED));
        assert_eq!(answers.get(2), Some(&StatusCode::SERVICE_UNAVAILABLE), "the queue is full");
        assert_eq!(answers.last(), Some(&StatusCode::TOO_MANY_REQUESTS));
    }

    #[test]
    fn sources_are_counted_separately_and_afresh_in_each_window() {
        let now = Instant::now();
        let mut sources = Sources { began: now, requests: BTreeMap::new() };
        let (one, other) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        assert!((0..PER_SOURCE).all(|_| sources.admit(one, now)));
        assert!(!sources.admit(one, now));
        assert!(sources.admit(other, now));
        assert!(sources.admit(one, now + WINDOW));
    }
}
