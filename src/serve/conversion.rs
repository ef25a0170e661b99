//! Converts objects between the versions of OCM's add-on kinds for API servers, over HTTPS.
//!
//! An API server sends all objects of a list, or of one of its pages, in one request. If the webhook rejects
//! one object, the whole list fails. API servers do not authenticate, so any client that reaches the port may
//! convert its own objects. The webhook therefore reads and stores nothing else, and bounds the memory of all
//! requests. Upstream: `ConversionReview` of `apiextensions.k8s.io/v1`.

use std::convert::Infallible;
use std::fmt::Formatter;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use api::Manifest;
use api::addon::conversion;
use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, Request, StatusCode};
use axum::response::{IntoResponse as _, Response};
use http_body_util::BodyExt as _;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde::de::{Deserializer as _, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::accept::{ConnectionLimits, HANDSHAKE_TIMEOUT, accept};
use super::tls::{self, Serving};

/// The maximum size of a request: 3,000 add-ons of 5 kB. In etcd, an object has at most 1.5 MiB.
const MAX_REQUEST_BYTES: usize = 16 << 20;
/// The maximum size of a response. Objects grow little, because both versions have almost the same fields.
const MAX_RESPONSE_BYTES: usize = 24 << 20;
/// The maximum bytes of all requests that are being read or waiting, and of all responses being written.
const IN_FLIGHT: usize = 32 << 20;
/// The maximum size of an object, in bytes of JSON.
const LARGEST_OBJECT: usize = 2 << 20;
/// The maximum number of maps in an object. Each takes 650 bytes of memory, however short its text is. A
/// reference to an object has at least 30 bytes of text, so no object that fits in etcd has more.
const MOST_MAPS: usize = 60_000;
/// The maximum number of concurrent conversions. Each may need 200 MiB for one object.
const AT_ONCE: usize = 1;
/// The maximum number of connections. An API server opens one for each pending request, keeps idle ones, and
/// has one address.
const CONNECTIONS: ConnectionLimits = ConnectionLimits { most: 256, of_one: 256 };
/// The buffer of a connection in bytes; 16 MiB for all connections.
const BUFFER: usize = 64 << 10;
/// The maximum time for a body to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum time for a client to read a response.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// API servers wait at most 30 s for a webhook.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// A connection accepts no requests after this time. API servers then open a new one.
const LIFE: Duration = Duration::from_secs(60);

/// The path of the webhook.
pub const PATH: &str = "/convert";

/// Serves [`PATH`] until `stop`.
///
/// # Errors
/// Fails if TLS cannot be set up.
pub async fn serve(
    listener: TcpListener,
    serving: Arc<Serving>,
    stop: CancellationToken,
) -> Result<(), rustls::Error> {
    let acceptor = tls::acceptor(serving)?;
    let limits = Limits::default();
    accept(listener, CONNECTIONS, stop, move |stream, _| {
        connection(stream, acceptor.clone(), limits.clone())
    })
    .await;
    Ok(())
}

/// The limits on all requests.
#[derive(Clone)]
struct Limits {
    /// The bytes out of [`IN_FLIGHT`].
    bytes: Arc<Semaphore>,
    /// The conversions out of [`AT_ONCE`].
    reviews: Arc<Semaphore>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: Arc::new(Semaphore::new(IN_FLIGHT)), reviews: Arc::new(Semaphore::new(AT_ONCE)) }
    }
}

impl Limits {
    /// Waits until this many bytes are available.
    async fn hold(&self, bytes: usize) -> Result<OwnedSemaphorePermit, StatusCode> {
        let bytes = u32::try_from(bytes).map_err(|_| StatusCode::PAYLOAD_TOO_LARGE)?;
        let permit = Arc::clone(&self.bytes).acquire_many_owned(bytes).await;
        permit.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)
    }
}

/// Bytes that count as in flight until they are dropped.
struct InFlightBytes {
    bytes: Vec<u8>,
    permit: OwnedSemaphorePermit,
    /// Cancels its token when the response is written and dropped.
    written: Option<DropGuard>,
}

impl AsRef<[u8]> for InFlightBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Answers the requests on one connection. Closes a connection that breaks or is too slow.
async fn connection(stream: TcpStream, acceptor: TlsAcceptor, limits: Limits) {
    if let Ok(Ok(stream)) = timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
        requests(stream, limits).await;
    }
}

/// Answers the requests on one stream, until a client is too slow.
async fn requests(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, limits: Limits) {
    let unread = CancellationToken::new();
    let of_answers = unread.clone();
    let service = tower::service_fn(move |request: Request<hyper::body::Incoming>| {
        let (limits, unread) = (limits.clone(), of_answers.clone());
        async move { Ok::<_, Infallible>(answer(request.map(Body::new), &limits, unread).await) }
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(REQUEST_TIMEOUT).max_buf_size(BUFFER);
    let mut served = pin!(builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service)));
    let life = async {
        if timeout(LIFE, &mut served).await.is_err() {
            served.as_mut().graceful_shutdown();
            let _ = timeout(REQUEST_TIMEOUT, served).await;
        }
    };
    unread.run_until_cancelled(life).await;
}

/// Answers a request. `unread` is canceled if the response is not written in time.
async fn answer(request: Request<Body>, limits: &Limits, unread: CancellationToken) -> Response {
    if (request.method(), request.uri().path()) != (&Method::POST, PATH) {
        return StatusCode::NOT_FOUND.into_response();
    }
    match timeout(REQUEST_TIMEOUT, reviewed(request.into_body(), limits)).await {
        Ok(Ok(mut response)) => {
            let written = CancellationToken::new();
            response.written = Some(written.clone().drop_guard());
            tokio::spawn(async move {
                if timeout(ANSWER_TIMEOUT, written.cancelled()).await.is_err() {
                    unread.cancel();
                }
            });
            ([(CONTENT_TYPE, "application/json")], Body::from(Bytes::from_owner(response))).into_response()
        }
        Ok(Err(code)) => code.into_response(),
        Err(_) => StatusCode::REQUEST_TIMEOUT.into_response(),
    }
}

/// Returns the response to a body, which counts as in flight until it is written.
async fn reviewed(body: Body, limits: &Limits) -> Result<InFlightBytes, StatusCode> {
    let request =
        timeout(BODY_TIMEOUT, read(body, limits)).await.map_err(|_| StatusCode::REQUEST_TIMEOUT)??;
    let review =
        Arc::clone(&limits.reviews).acquire_owned().await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    // Converting a long list would block the thread. The task owns both permits, because it continues even if
    // the caller is dropped.
    let converted = tokio::task::spawn_blocking(move || (convert(&request.bytes), review));
    let (bytes, review) = converted.await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    let bytes = bytes?;
    let permit = limits.hold(bytes.len()).await?;
    drop(review);
    Ok(InFlightBytes { bytes, permit, written: None })
}

async fn read(mut body: Body, limits: &Limits) -> Result<InFlightBytes, StatusCode> {
    let mut request = InFlightBytes { bytes: Vec::new(), permit: limits.hold(0).await?, written: None };
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| StatusCode::BAD_REQUEST)?.into_data() else { continue };
        if request.bytes.len() + data.len() > MAX_REQUEST_BYTES {
            return Err(StatusCode::PAYLOAD_TOO_LARGE);
        }
        request.permit.merge(limits.hold(data.len()).await?);
        request.bytes.extend_from_slice(&data);
    }
    Ok(request)
}

/// The request from an API server.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review<'a> {
    api_version: String,
    kind: String,
    #[serde(borrow)]
    request: ConversionRequest<'a>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConversionRequest<'a> {
    uid: String,
    #[serde(rename = "desiredAPIVersion")]
    desired_api_version: String,
    #[serde(borrow)]
    objects: &'a RawValue,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ConversionReview {
    api_version: String,
    kind: String,
    response: ConversionResponse,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ConversionResponse {
    uid: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    converted_objects: Vec<Box<RawValue>>,
    result: ConversionResult,
}

#[derive(Debug, Serialize)]
#[serde(tag = "status")]
enum ConversionResult {
    Success,
    Failure { message: String },
}

/// Returns the response to the text of a review.
fn convert(review: &[u8]) -> Result<Vec<u8>, StatusCode> {
    let bad = |_| StatusCode::BAD_REQUEST;
    let Review { api_version, kind, request } = serde_json::from_slice(review).map_err(bad)?;
    let ConversionRequest { uid, desired_api_version, objects } = request;
    let each = Objects { desired_api_version: &desired_api_version };
    let converted = serde_json::Deserializer::from_str(objects.get()).deserialize_seq(each);
    let (converted_objects, result) = match converted.map_err(bad)? {
        Ok(objects) => (objects, ConversionResult::Success),
        Err(message) => (Vec::new(), ConversionResult::Failure { message }),
    };
    let response = ConversionResponse { uid, converted_objects, result };
    let answer = serde_json::to_vec(&ConversionReview { api_version, kind, response }).map_err(bad)?;
    if answer.len() > MAX_RESPONSE_BYTES { Err(StatusCode::PAYLOAD_TOO_LARGE) } else { Ok(answer) }
}

/// Converts the objects in a list one by one, so that only one at a time is parsed in memory.
struct Objects<'a> {
    desired_api_version: &'a str,
}

impl<'de> Visitor<'de> for Objects<'_> {
    type Value = Result<Vec<Box<RawValue>>, String>;

    fn expecting(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a list of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut objects: A) -> Result<Self::Value, A::Error> {
        let (mut converted, mut size) = (Ok(Vec::new()), 0);
        while let Some(object) = objects.next_element::<&RawValue>()? {
            let Ok(done) = &mut converted else { continue };
            match convert_one(object.get(), self.desired_api_version) {
                Ok(one) if size + one.get().len() <= MAX_RESPONSE_BYTES => {
                    size += one.get().len();
                    done.push(one);
                }
                Ok(_) => converted = Err(format!("the objects have more than {MAX_RESPONSE_BYTES} bytes")),
                Err(error) => converted = Err(error),
            }
        }
        Ok(converted)
    }
}

fn convert_one(text: &str, api_version: &str) -> Result<Box<RawValue>, String> {
    if text.len() > LARGEST_OBJECT || maps(text) > MOST_MAPS {
        return Err(format!("an object has more than {LARGEST_OBJECT} bytes or {MOST_MAPS} maps"));
    }
    let object: Manifest = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let name = object
        .get("metadata")
        .and_then(|metadata| metadata.get("name"))
        .and_then(Value::as_str)
        .unwrap_or_default();
    let converted = conversion::convert(&object, api_version).map_err(|error| format!("{name}: {error}"))?;
    serde_json::value::to_raw_value(&converted).map_err(|error| format!("{name}: {error}"))
}

/// Counts the maps in valid JSON text.
fn maps(text: &str) -> usize {
    let (mut count, mut quoted, mut bytes) = (0, false, text.bytes());
    while let Some(byte) = bytes.next() {
        match byte {
            // An escaped quote does not end a string.
            b'\\' => _ = bytes.next(),
            b'"' => quoted = !quoted,
            b'{' if !quoted => count += 1,
            _ => {}
        }
    }
    count
}

#[cfg(test)]
#[path = "tests/conversion.rs"]
mod tests;
