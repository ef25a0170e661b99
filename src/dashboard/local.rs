//! The page on this machine alone.
//!
//! The server listens on loopback, and its paths begin with a random secret, so that neither another user of
//! the machine nor another web page reads it.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::{Stream, stream};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::live::{Fleet, Live, ReadFleet};
use super::rights::Rights;
use super::shown::Shown;
use super::{ClusterQuery, PlacementQuery, cluster, document, page, placement, script, style};
use crate::pki::fill_random;
use object::hex;

/// A dashboard that listens and does not serve yet.
pub struct LocalDashboard {
    listener: TcpListener,
    secret: String,
    /// The URL for a browser.
    pub url: String,
}

impl LocalDashboard {
    /// Listens on a port of loopback; 0 takes a free one.
    ///
    /// # Errors
    /// The port is taken, or the system has no randomness.
    pub async fn listen(port: u16) -> std::io::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
        let mut secret = [0; 16];
        fill_random(&mut secret).map_err(std::io::Error::other)?;
        let secret = hex(secret);
        let url = format!("http://{}/{secret}/", listener.local_addr()?);
        Ok(Self { listener, secret, url })
    }

    /// Serves until `stop`.
    ///
    /// # Errors
    /// The listener fails.
    pub async fn serve(self, reader: Arc<dyn ReadFleet>, stop: CancellationToken) -> std::io::Result<()> {
        let live = Live::new(reader);
        let reading = live.clone().read(stop.clone());
        // A stream of events never ends by itself. A shutdown that waits for connections would not end
        // either.
        let server = axum::serve(self.listener, routes(&self.secret, live));
        tokio::select! {
            served = server => served,
            () = reading => Ok(()),
            () = stop.cancelled() => Ok(()),
        }
    }
}

fn routes(secret: &str, live: Live) -> Router {
    let path = |name: &str| format!("/{secret}/{name}");
    Router::new()
        .route(&path(""), get(index))
        .route(&path("events"), get(events))
        .route(&path("placement"), get(reasons))
        .route(&path("cluster"), get(one_cluster))
        .route(&path("style.css"), get(style))
        .route(&path("script.js"), get(script))
        .with_state(live)
}

fn content(fleet: &Fleet) -> String {
    match fleet.as_ref() {
        Ok(overview) => page::content(&Shown::all(overview)),
        Err(why) => page::problem(why),
    }
}

/// Returns the page, with the fleet as it is now.
async fn index(State(live): State<Live>) -> Response {
    match live.now().await {
        Some(fleet) => document(page::page(&content(&fleet), None)),
        None => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

/// Returns the page of a placement.
async fn reasons(State(live): State<Live>, Query(query): Query<PlacementQuery>) -> Response {
    let Some(key) = query.key() else { return missing(&query.of) };
    match live.placement(key).await {
        Ok(Some(explanation)) => document(placement::page(&explanation)),
        Ok(None) => missing(&query.of),
        Err(why) => unreadable(&why),
    }
}

/// Returns the page of a cluster.
async fn one_cluster(State(live): State<Live>, Query(query): Query<ClusterQuery>) -> Response {
    let missing = || (StatusCode::NOT_FOUND, document(page::no_cluster(&query.of))).into_response();
    let (Some(name), Some(fleet)) = (query.name(), live.now().await) else { return missing() };
    match (fleet.as_ref(), live.cluster(name).await) {
        (Ok(overview), Ok(objects)) => {
            let page = cluster::page(name, objects, overview, &Rights::every());
            page.map_or_else(missing, document)
        }
        (Err(why), _) => unreadable(why),
        (_, Err(why)) => unreadable(&why),
    }
}

fn unreadable(why: &str) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, document(page::refused(why))).into_response()
}

fn missing(placement: &str) -> Response {
    (StatusCode::NOT_FOUND, document(page::no_placement(placement))).into_response()
}

/// Returns the content of the page, now and at each change.
async fn events(State(live): State<Live>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let contents = stream::unfold(live.subscribe(), |mut receiver| async {
        loop {
            receiver.changed().await.ok()?;
            let fleet = receiver.borrow_and_update().clone();
            if let Some(fleet) = fleet {
                return Some((Ok(Event::default().data(content(&fleet))), receiver));
            }
        }
    });
    Sse::new(contents).keep_alive(KeepAlive::default())
}
