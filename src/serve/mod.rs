//! Serves health and metrics to the cluster that the process runs on, receives webhooks over HTTPS, and
//! converts objects for API servers.

mod accept;
pub mod certificate;
pub mod conversion;
pub mod https;
mod metrics;
pub mod receiver;
mod secure;
pub mod tls;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Router, http};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tracing::info;

use self::accept::{Connections, accept};
use crate::shell::{Handle, now};
use controllers::hub::placement;
use object::Key;

/// Connections at once: those of probes and of a few Prometheus servers.
const CONNECTIONS: Connections = Connections { most: 256, of_one: 16 };

/// The shell that runs now, or the reason why none does.
pub type Running = watch::Receiver<Result<Handle, String>>;

/// An address for health and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    /// The address.
    pub address: SocketAddr,
    /// Whether it is served over TLS, with a certificate that is made at the start and that nobody knows. The
    /// probes of a kubelet take any.
    pub tls: bool,
}

/// Serves `/livez`, `/readyz`, `/metrics` and `/debug/placements/{namespace}/{name}` of an operator until
/// `stop`.
///
/// # Errors
/// The address cannot be listened on.
pub async fn serve(address: SocketAddr, handle: Handle, stop: CancellationToken) -> std::io::Result<()> {
    let (_, running) = watch::channel(Ok(handle));
    let placements = Router::new().route("/debug/placements/{namespace}/{name}", get(placement));
    listen(Listen { address, tls: false }, health(placements).with_state(Health::of(running)), stop).await
}

/// Serves `/livez`, `/readyz` and `/metrics` of an agent until `stop`.
///
/// # Errors
/// The address cannot be listened on.
pub async fn serve_agent(at: Listen, running: Running, stop: CancellationToken) -> std::io::Result<()> {
    // The second path is that of OCM's agents.
    let healthz = Router::new().route("/healthz", get(live));
    listen(at, health(healthz).with_state(Health::of(running)), stop).await
}

async fn listen(at: Listen, routes: Router, stop: CancellationToken) -> std::io::Result<()> {
    let listener = TcpListener::bind(at.address).await?;
    info!(address = %listener.local_addr()?, tls = at.tls, "serving health and metrics");
    match at.tls {
        true => secure::serve(listener, routes, CONNECTIONS, stop).await,
        false => {
            accept(listener, CONNECTIONS, stop, move |stream, _| https::answer(stream, routes.clone())).await;
            Ok(())
        }
    }
}

/// The state of the routes. Whoever reaches the port may ask, so what takes a processor and memory for as long
/// as the fleet is large is done once at a time.
#[derive(Clone)]
struct Health {
    running: Running,
    reading: Arc<Semaphore>,
    explaining: Arc<Semaphore>,
}

impl Health {
    fn of(running: Running) -> Self {
        Self { running, reading: Arc::new(Semaphore::new(1)), explaining: Arc::new(Semaphore::new(1)) }
    }
}

/// Runs `read` on a thread of its own if nobody else is there.
async fn alone(place: &Arc<Semaphore>, read: impl FnOnce() -> Response + Send + 'static) -> Response {
    let Ok(place) = Arc::clone(place).try_acquire_owned() else {
        return unavailable("another such request is answered now; ask again");
    };
    let read = move || {
        let response = read();
        drop(place);
        response
    };
    let read = tokio::task::spawn_blocking(read).await;
    read.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}

fn health(routes: Router<Health>) -> Router<Health> {
    routes.route("/livez", get(live)).route("/readyz", get(ready)).route("/metrics", get(metrics))
}

fn handle(running: &Running) -> Result<Handle, String> {
    running.borrow().clone()
}

fn unavailable(why: &str) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response()
}

/// Says whether the process should go on. One without a shell does: it has not joined its hub yet.
async fn live(State(health): State<Health>) -> Response {
    match handle(&health.running) {
        Ok(handle) if !handle.is_live() => unavailable("the dispatcher has not run for a minute"),
        Ok(_) | Err(_) => "ok".into_response(),
    }
}

async fn ready(State(health): State<Health>) -> Response {
    match handle(&health.running).map(|handle| handle.is_ready()) {
        Ok(true) => "ok".into_response(),
        Ok(false) => unavailable("not everything that decisions need has been read yet"),
        Err(why) => unavailable(&why),
    }
}

async fn metrics(State(health): State<Health>) -> Response {
    let handle = match handle(&health.running) {
        Ok(handle) => handle,
        Err(why) => return unavailable(&why),
    };
    const OPEN_METRICS: http::HeaderValue =
        http::HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    let read = move || match metrics::text(&handle) {
        Ok(text) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    };
    alone(&health.reading, read).await
}

/// Returns what `wheelwright explain placement --output json` prints.
async fn placement(
    State(health): State<Health>,
    Path((namespace, name)): Path<(String, String)>,
) -> Response {
    let handle = match handle(&health.running) {
        Ok(handle) => handle,
        Err(why) => return unavailable(&why),
    };
    let key = Key::namespaced(namespace, name);
    let read = move || match placement::explain(&key, &handle.caches(), now()) {
        Ok(Some(explanation)) => Json(explanation).into_response(),
        Ok(None) => (StatusCode::NOT_FOUND, format!("there is no placement {key}\n")).into_response(),
        Err(unread) => unavailable(&unread.to_string()),
    };
    alone(&health.explaining, read).await
}

#[cfg(test)]
#[path = "tests/health.rs"]
mod tests;
