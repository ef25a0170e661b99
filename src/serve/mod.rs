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

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Router, http};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::shell::{Handle, now};
use controllers::hub::placement;
use object::Key;

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
    listen(Listen { address, tls: false }, health(placements).with_state(running), stop).await
}

/// Serves `/livez`, `/readyz` and `/metrics` of an agent until `stop`.
///
/// # Errors
/// The address cannot be listened on.
pub async fn serve_agent(at: Listen, running: Running, stop: CancellationToken) -> std::io::Result<()> {
    // The second path is that of OCM's agents.
    let healthz = Router::new().route("/healthz", get(live));
    listen(at, health(healthz).with_state(running), stop).await
}

async fn listen(at: Listen, routes: Router, stop: CancellationToken) -> std::io::Result<()> {
    let listener = TcpListener::bind(at.address).await?;
    info!(address = %listener.local_addr()?, tls = at.tls, "serving health and metrics");
    match at.tls {
        true => secure::serve(listener, routes, stop).await,
        false => axum::serve(listener, routes).with_graceful_shutdown(stop.cancelled_owned()).await,
    }
}

fn health(routes: Router<Running>) -> Router<Running> {
    routes.route("/livez", get(live)).route("/readyz", get(ready)).route("/metrics", get(metrics))
}

fn handle(running: &Running) -> Result<Handle, String> {
    running.borrow().clone()
}

fn unavailable(why: &str) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response()
}

/// Says whether the process should go on. One without a shell does: it has not joined its hub yet.
async fn live(State(running): State<Running>) -> Response {
    match handle(&running) {
        Ok(handle) if !handle.is_live() => unavailable("the dispatcher has not run for a minute"),
        Ok(_) | Err(_) => "ok".into_response(),
    }
}

async fn ready(State(running): State<Running>) -> Response {
    match handle(&running).map(|handle| handle.is_ready()) {
        Ok(true) => "ok".into_response(),
        Ok(false) => unavailable("not everything that decisions need has been read yet"),
        Err(why) => unavailable(&why),
    }
}

async fn metrics(State(running): State<Running>) -> Response {
    let handle = match handle(&running) {
        Ok(handle) => handle,
        Err(why) => return unavailable(&why),
    };
    const OPEN_METRICS: http::HeaderValue =
        http::HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    // The states of a large fleet take a while, and other requests go on meanwhile.
    match tokio::task::spawn_blocking(move || metrics::text(&handle)).await {
        Ok(Ok(text)) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Ok(Err(_)) | Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Returns what `wheelwright explain placement --output json` prints.
async fn placement(
    State(running): State<Running>,
    Path((namespace, name)): Path<(String, String)>,
) -> Response {
    let handle = match handle(&running) {
        Ok(handle) => handle,
        Err(why) => return unavailable(&why),
    };
    let key = Key::namespaced(namespace, name);
    match placement::explain(&key, &handle.caches(), now()) {
        Ok(Some(explanation)) => Json(explanation).into_response(),
        Ok(None) => (StatusCode::NOT_FOUND, format!("there is no placement {key}\n")).into_response(),
        Err(unread) => (StatusCode::SERVICE_UNAVAILABLE, format!("{unread}\n")).into_response(),
    }
}

#[cfg(test)]
#[path = "tests/health.rs"]
mod tests;
