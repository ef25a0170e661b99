//! Serves the health and the metrics of a manager.

use std::net::SocketAddr;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use shell::Handle;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::info;

const OPEN_METRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

/// Serves `/livez`, `/readyz` and `/metrics` until `stop`.
///
/// # Errors
/// Fails if it cannot listen on the address.
pub(crate) async fn serve(
    address: SocketAddr,
    handle: Handle,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    info!(address = %listener.local_addr()?, "serving health and metrics");
    let routes = Router::new()
        .route("/livez", get(live))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .with_state(handle);
    axum::serve(listener, routes).with_graceful_shutdown(stop.cancelled_owned()).await
}

async fn live(State(handle): State<Handle>) -> Response {
    if handle.is_live() {
        return "ok".into_response();
    }
    let reason = "the dispatcher has not run for a minute\n";
    (StatusCode::SERVICE_UNAVAILABLE, reason).into_response()
}

async fn ready(State(handle): State<Handle>) -> Response {
    if handle.is_ready() {
        return "ok".into_response();
    }
    let reason = "not all required objects have been read yet\n";
    (StatusCode::SERVICE_UNAVAILABLE, reason).into_response()
}

async fn metrics(State(handle): State<Handle>) -> Response {
    let mut registry = Registry::with_prefix("addon");
    handle.register_leader(&mut registry);
    handle.register_metrics(&mut registry);
    let mut text = String::new();
    match encode(&mut text, &registry) {
        Ok(()) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
