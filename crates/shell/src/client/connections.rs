//! The connections to one API server: one for requests, and as many for watches as needed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::{Body as HttpBody, Bytes, Incoming};
use hyper_util::client::legacy::connect::Connect;
use hyper_util::client::legacy::{Builder, Client as HttpClient};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::Body;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::BoxError;

/// The maximum number of watches on one connection. A server should allow at least 100 streams (RFC 9113, 6.5.2),
/// and kube-apiserver allows 100. A request beyond that would wait forever, because watches do not end.
const WATCHES_PER_CONNECTION: usize = 50;
/// The interval of pings on a connection. kube-apiserver and client-go ping every 30 s.
const PING_EVERY: Duration = Duration::from_secs(20);
/// The time limit for the response to a ping. Without one, the connection ends with all its requests.
const PING_WITHIN: Duration = Duration::from_secs(10);

/// The connections to one API server.
pub(super) struct Connections<C> {
    builder: Builder,
    connector: C,
    requests: HttpClient<C, Body>,
    watches: Mutex<Vec<ForWatches<C>>>,
}

/// A connection for watches.
struct ForWatches<C> {
    client: HttpClient<C, Body>,
    places: Arc<Semaphore>,
}

impl<C: Connect + Clone + Send + Sync + 'static> Connections<C> {
    /// Creates the connections lazily, with `connector`.
    pub(super) fn new(connector: C) -> Arc<Self> {
        let mut builder = HttpClient::builder(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .http2_keep_alive_interval(PING_EVERY)
            .http2_keep_alive_timeout(PING_WITHIN)
            .http2_keep_alive_while_idle(true);
        let requests = builder.build(connector.clone());
        Arc::new(Self { builder, connector, requests, watches: Mutex::default() })
    }

    /// Sends a request; returns the head of the response. If the connection of a read ends before the response, sends
    /// it once more on another connection (RFC 9110, 9.2.2). kube-apiserver closes connections when it stops, with
    /// `--goaway-chance`, and after it rejects credentials.
    ///
    /// # Errors
    /// Returns an error if there is no connection, or it ends.
    pub(super) async fn send(
        self: Arc<Self>,
        request: Request<Body>,
    ) -> Result<Response<impl HttpBody<Data = Bytes, Error = hyper::Error> + Send>, BoxError> {
        let (client, permit) = match is_stream(&request) {
            true => self.for_a_watch(),
            false => (self.requests.clone(), None),
        };
        let (head, body) = request.into_parts();
        let again = (head.method == Method::GET).then(|| Request::from_parts(head.clone(), Body::empty()));
        let response: Response<Incoming> =
            match (client.request(Request::from_parts(head, body)).await, again) {
                (Err(error), Some(again)) if !error.is_connect() => client.request(again).await?,
                (result, _) => result?,
            };
        // The watch occupies its place on the connection until its body ends.
        let hold = move |frame| {
            let _held = &permit;
            frame
        };
        Ok(response.map(|body| body.map_frame(hold)))
    }

    /// Returns the first client with room for a watch.
    fn for_a_watch(&self) -> (HttpClient<C, Body>, Option<OwnedSemaphorePermit>) {
        // The list only grows, so a panic leaves it consistent.
        let mut clients = self.watches.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for shared in clients.iter() {
            if let Ok(place) = Arc::clone(&shared.places).try_acquire_owned() {
                return (shared.client.clone(), Some(place));
            }
        }
        let client: HttpClient<C, Body> = self.builder.build(self.connector.clone());
        let places = Arc::new(Semaphore::new(WATCHES_PER_CONNECTION));
        let place = Arc::clone(&places).try_acquire_owned().ok();
        clients.push(ForWatches { client: client.clone(), places });
        (client, place)
    }
}

/// Returns true if a request is for a watch or for the log of a pod, whose response has no known end.
pub(super) fn is_stream<B>(request: &Request<B>) -> bool {
    let mut path = request.uri().path().rsplit('/');
    let is_log = path.next() == Some("log") && path.nth(1) == Some("pods");
    let query = request.uri().query().unwrap_or_default();
    is_log || query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1"))
}

#[cfg(test)]
#[path = "tests/connections.rs"]
mod tests;
