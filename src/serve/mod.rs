//! Serves health, metrics and explanations of placements over plain HTTP to the operator's own cluster,
//! receives webhooks over HTTPS, and converts objects for API servers.

mod accept;
pub mod certificate;
pub mod conversion;
pub mod https;
mod metrics;
pub mod receiver;
pub mod tls;

use std::net::SocketAddr;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Router, http};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::shell::{Handle, now};
use controllers::hub::placement;
use object::Key;

/// Serves `/livez`, `/readyz`, `/metrics` and `/debug/placements/{namespace}/{name}` until `stop`.
///
/// # Errors
/// The address cannot be listened on.
pub async fn serve(address: SocketAddr, handle: Handle, stop: CancellationToken) -> std::io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    info!(address = %listener.local_addr()?, "serving health and metrics");
    axum::serve(listener, routes(handle)).with_graceful_shutdown(stop.cancelled_owned()).await
}

fn routes(handle: Handle) -> Router {
    Router::new()
        .route("/livez", get(|| async { "ok" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/debug/placements/{namespace}/{name}", get(placement))
        .with_state(handle)
}

async fn ready(State(handle): State<Handle>) -> (StatusCode, &'static str) {
    match handle.is_ready() {
        true => (StatusCode::OK, "ok"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "not everything that decisions need has been read yet"),
    }
}

async fn metrics(State(handle): State<Handle>) -> Response {
    const OPEN_METRICS: http::HeaderValue =
        http::HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    // The states of a large fleet take a while, and other requests go on meanwhile.
    match tokio::task::spawn_blocking(move || metrics::text(&handle)).await {
        Ok(Ok(text)) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Ok(Err(_)) | Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// What `wheelwright explain placement --output json` prints.
async fn placement(
    State(handle): State<Handle>,
    Path((namespace, name)): Path<(String, String)>,
) -> Response {
    let key = Key::namespaced(namespace, name);
    match placement::explain(&key, &handle.caches(), now()) {
        Ok(Some(explanation)) => Json(explanation).into_response(),
        Ok(None) => (StatusCode::NOT_FOUND, format!("there is no placement {key}\n")).into_response(),
        Err(unread) => (StatusCode::SERVICE_UNAVAILABLE, format!("{unread}\n")).into_response(),
    }
}
