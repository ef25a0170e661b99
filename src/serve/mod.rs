//! What an operator or agent serves over plain HTTP to its own cluster: health and metrics.

use std::net::SocketAddr;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Router, http};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::shell::Handle;

/// Serves `/livez`, `/readyz` and `/metrics` until `stop`.
///
/// # Errors
/// When the address cannot be listened on.
pub async fn serve(address: SocketAddr, handle: Handle, stop: CancellationToken) -> std::io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    info!(address = %listener.local_addr()?, "serving health and metrics");
    axum::serve(listener, routes(handle)).with_graceful_shutdown(stop.cancelled_owned()).await
}

fn routes(handle: Handle) -> Router {
    Router::new().route("/livez", get(|| async { "ok" })).route("/readyz", get(ready)).route("/metrics", get(metrics)).with_state(handle)
}

async fn ready(State(handle): State<Handle>) -> (StatusCode, &'static str) {
    match handle.is_ready() {
        true => (StatusCode::OK, "ok"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "not everything that decisions need has been read yet"),
    }
}

async fn metrics(State(handle): State<Handle>) -> Response {
    const OPEN_METRICS: http::HeaderValue = http::HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    match handle.metrics() {
        Ok(text) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
