//! Answers probes, metrics scrapes and debugging requests.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router, http};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::Running;
use crate::shell::{Handle, now};
use controllers::hub::placement;
use object::Key;

/// The state of the routes. Anybody who reaches the port may send requests, so work whose cost grows with the
/// fleet runs once at a time.
#[derive(Clone)]
pub(super) struct HealthRoutes {
    running: Running,
    metrics: MetricsOf,
    reading: ReadQueue,
    explaining: ReadQueue,
}

/// The maximum number of running and waiting reads, enough for a few Prometheus servers.
const QUEUE: usize = 4;
/// The maximum wait for a turn. Prometheus' default timeout for a scrape is ten seconds.
const WAIT: Duration = Duration::from_secs(5);

/// Lets one request read at a time, with a short queue, because paired Prometheus servers scrape at the same
/// time.
#[derive(Clone)]
struct ReadQueue {
    queue: Arc<Semaphore>,
    reading: Arc<Semaphore>,
}

impl ReadQueue {
    fn new() -> Self {
        Self { queue: Arc::new(Semaphore::new(QUEUE)), reading: Arc::new(Semaphore::new(1)) }
    }
}

/// Formats the metrics of a process.
type MetricsOf = fn(&Handle) -> Result<String, fmt::Error>;

impl HealthRoutes {
    pub(super) fn new(running: Running, metrics: MetricsOf) -> Self {
        Self { running, metrics, reading: ReadQueue::new(), explaining: ReadQueue::new() }
    }
}

/// Runs `read` on a separate thread once no other read is running.
async fn alone(place: &ReadQueue, read: impl FnOnce() -> Response + Send + 'static) -> Response {
    let Ok(queued) = Arc::clone(&place.queue).try_acquire_owned() else {
        return unavailable("too many of these requests; retry later");
    };
    let Ok(Ok(turn)) = timeout(WAIT, Arc::clone(&place.reading).acquire_owned()).await else {
        return unavailable("another such request is still running; retry later");
    };
    let read = move || {
        let response = read();
        drop((turn, queued));
        response
    };
    let read = tokio::task::spawn_blocking(read).await;
    read.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}

/// Adds the routes that every process has.
pub(super) fn health(routes: Router<HealthRoutes>) -> Router<HealthRoutes> {
    routes.route("/livez", get(live)).route("/readyz", get(ready)).route("/metrics", get(metrics_page))
}

fn handle(running: &Running) -> Result<Handle, String> {
    running.borrow().clone()
}

fn unavailable(reason: &str) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")).into_response()
}

/// Returns an error if the process should be restarted. A process without a shell is live: it has not joined
/// its hub yet.
pub(super) async fn live(State(health): State<HealthRoutes>) -> Response {
    match handle(&health.running) {
        Ok(handle) if !handle.is_live() => unavailable("the dispatcher has not run for a minute"),
        Ok(_) | Err(_) => "ok".into_response(),
    }
}

async fn ready(State(health): State<HealthRoutes>) -> Response {
    match handle(&health.running).map(|handle| handle.is_ready()) {
        Ok(true) => "ok".into_response(),
        Ok(false) => unavailable("not everything that decisions need has been read yet"),
        Err(error) => unavailable(&error),
    }
}

async fn metrics_page(State(health): State<HealthRoutes>) -> Response {
    let handle = match handle(&health.running) {
        Ok(handle) => handle,
        Err(error) => return unavailable(&error),
    };
    const OPEN_METRICS: http::HeaderValue =
        http::HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    let read = move || match (health.metrics)(&handle) {
        Ok(text) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    };
    alone(&health.reading, read).await
}

/// Returns the output of `wheelwright explain placement --output json`.
pub(super) async fn explain(
    State(health): State<HealthRoutes>,
    Path((namespace, name)): Path<(String, String)>,
) -> Response {
    let handle = match handle(&health.running) {
        Ok(handle) => handle,
        Err(error) => return unavailable(&error),
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
