//! Converts the objects of API servers between the versions of OCM's add-on kinds, over HTTPS.
//!
//! An API server sends every object of a list in one request, and shows nothing of a list with an object that
//! is refused. It does not authenticate, so any client that reaches the port may convert objects of its own;
//! the webhook reads and keeps nothing else. Upstream: `ConversionReview` of `apiextensions.k8s.io/v1`.

use std::convert::Infallible;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use api::addon::conversion;
use axum::Json;
use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, StatusCode};
use axum::response::{IntoResponse as _, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// Largest request: a list of 25,000 add-ons of 5 kB.
const LARGEST: usize = 128 << 20;
/// Requests that are read and converted at once, so that their memory is bounded.
const AT_ONCE: usize = 4;
/// Connections at once: an API server opens one for each request that waits for an answer, and keeps idle
/// ones.
const CONNECTIONS: usize = 256;
/// An API server waits 30 s for a webhook at most.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time limit of a handshake or a head.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Time to wait when no connection can be accepted: file descriptors come back when others end.
const PAUSE: Duration = Duration::from_millis(100);

/// The path of the webhook.
pub const PATH: &str = "/convert";

/// The certificate that the webhook shows now; there is none at first, and a later one replaces it while
/// connections go on.
#[derive(Debug, Default)]
pub struct Serving(RwLock<Option<Arc<CertifiedKey>>>);

impl Serving {
    /// Shows a certificate and its key, both in PEM, from now on.
    ///
    /// # Errors
    /// The certificate or the key cannot be read, or they do not belong together.
    pub fn show(&self, certificate: &str, key: &str) -> Result<(), rustls::Error> {
        let general = |error: rustls::pki_types::pem::Error| rustls::Error::General(error.to_string());
        let chain = CertificateDer::pem_slice_iter(certificate.as_bytes()).collect::<Result<_, _>>();
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(general)?;
        let provider = rustls::crypto::ring::default_provider();
        let certified = CertifiedKey::from_der(chain.map_err(general)?, key, &provider)?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(certified));
        Ok(())
    }
}

impl ResolvesServerCert for Serving {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Serves [`PATH`] until `stop`.
///
/// # Errors
/// TLS cannot be set up.
pub async fn serve(
    listener: TcpListener,
    serving: Arc<Serving>,
    stop: CancellationToken,
) -> Result<(), rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let acceptor = TlsAcceptor::from(Arc::new(config.with_no_client_auth().with_cert_resolver(serving)));
    let (connections, reviews) = (Arc::new(Semaphore::new(CONNECTIONS)), Arc::new(Semaphore::new(AT_ONCE)));
    loop {
        let Ok(permit) = Arc::clone(&connections).acquire_owned().await else { return Ok(()) };
        let accepted = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let (acceptor, reviews, stop) = (acceptor.clone(), Arc::clone(&reviews), stop.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        () = connection(stream, acceptor, reviews) => {}
                        () = stop.cancelled() => {}
                    }
                    drop(permit);
                });
            }
            Err(error) => {
                warn!(%error, "cannot accept a connection to the conversion webhook");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Answers the requests of one connection. A broken connection is the client's problem.
async fn connection(stream: TcpStream, acceptor: TlsAcceptor, reviews: Arc<Semaphore>) {
    let Ok(Ok(stream)) = timeout(HANDSHAKE, acceptor.accept(stream)).await else { return };
    let service = tower::service_fn(move |request: Request<hyper::body::Incoming>| {
        let reviews = Arc::clone(&reviews);
        async move { Ok::<_, Infallible>(answer(request.map(Body::new), &reviews).await) }
    });
    let mut builder = hyper_util::server::conn::auto::Builder::new(hyper_util::rt::TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    let builder = builder.http1_only();
    drop(builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service)).await);
}

async fn answer(request: Request<Body>, reviews: &Semaphore) -> Response {
    if (request.method(), request.uri().path()) != (&Method::POST, PATH) {
        return StatusCode::NOT_FOUND.into_response();
    }
    let converted = async {
        let permit = reviews.acquire().await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
        let body = to_bytes(request.into_body(), LARGEST).await;
        let body = body.map_err(|_| StatusCode::PAYLOAD_TOO_LARGE)?;
        // A long list would keep the thread from everything else.
        let converted =
            tokio::task::spawn_blocking(move || serde_json::from_slice::<Review>(&body).map(Review::convert));
        let converted = converted.await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
        drop(permit);
        converted.map_err(|_| StatusCode::BAD_REQUEST)
    };
    match timeout(PATIENCE, converted).await {
        Ok(Ok(review)) => Json(review).into_response(),
        Ok(Err(code)) => code.into_response(),
        Err(_) => StatusCode::REQUEST_TIMEOUT.into_response(),
    }
}

/// The request of an API server.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    api_version: String,
    kind: String,
    request: ConversionRequest,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConversionRequest {
    uid: String,
    #[serde(rename = "desiredAPIVersion")]
    desired_api_version: String,
    objects: Vec<Map<String, Value>>,
}

/// The response.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    api_version: String,
    kind: String,
    response: Value,
}

impl Review {
    fn convert(self) -> Answer {
        let Self { api_version, kind, request } = self;
        let ConversionRequest { uid, desired_api_version, objects } = request;
        let converted = objects.iter().map(|object| {
            let name = object.get("metadata").and_then(|metadata| metadata.get("name"));
            let name = name.and_then(Value::as_str).unwrap_or_default();
            conversion::convert(object, &desired_api_version).map_err(|why| format!("{name}: {why}"))
        });
        let response = match converted.collect::<Result<Vec<_>, _>>() {
            Ok(objects) => json!({"uid": uid, "convertedObjects": objects, "result": {"status": "Success"}}),
            Err(why) => json!({"uid": uid, "result": {"status": "Failure", "message": why}}),
        };
        Answer { api_version, kind, response }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn review(objects: Value) -> Value {
        let request = json!({"uid": "u", "desiredAPIVersion": "addon.open-cluster-management.io/v1beta1", "objects": objects});
        let review =
            json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request});
        json!(serde_json::from_value::<Review>(review).unwrap().convert())
    }

    fn addon(api_version: &str) -> Value {
        json!({"apiVersion": api_version, "kind": "ManagedClusterAddOn", "metadata": {"name": "a"}, "spec": {"installNamespace": "n"}})
    }

    #[test]
    fn every_object_of_a_request_is_converted_or_none() {
        let old = addon("addon.open-cluster-management.io/v1alpha1");
        let answer = review(json!([old, old]));
        assert_eq!((&answer["kind"], &answer["response"]["uid"]), (&json!("ConversionReview"), &json!("u")));
        let converted = answer["response"]["convertedObjects"].as_array().unwrap();
        assert!(converted.iter().all(|one| one["apiVersion"] == "addon.open-cluster-management.io/v1beta1"));
        assert_eq!((converted.len(), &answer["response"]["result"]["status"]), (2, &json!("Success")));

        let refused = &review(json!([old, addon("other/v1")]))["response"];
        assert_eq!(refused["result"]["status"], "Failure");
        assert!(refused["result"]["message"].as_str().unwrap().starts_with("a: "), "{refused}");
        assert_eq!(refused.get("convertedObjects"), None);
    }
}
