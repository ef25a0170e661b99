//! The dashboard for the local machine only.
//!
//! The server listens on loopback, and its paths start with a random secret, so that neither other users of the
//! machine nor other web pages can read it.

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
use jiff::Timestamp;
use maud::Markup;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::live::{Fleet, Live, ReadFleet};
use super::query::{FleetQuery, View};
use super::rights::Rights;
use super::shown::Shown;
use super::{
    ClusterQuery, PlacementQuery, cluster, document, event, page, placement, reasons, script, style,
};
use crate::pki::fill_random;
use crate::shell::now;
use object::hex;

/// A dashboard that is listening but not serving yet.
pub struct LocalDashboard {
    listener: TcpListener,
    secret: String,
    /// The URL for a browser.
    pub url: String,
}

impl LocalDashboard {
    /// Listens on a loopback port; 0 selects a free port.
    ///
    /// # Errors
    /// Fails if the port is in use, or the system has no randomness.
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
    /// Fails if the listener fails.
    pub async fn serve(self, reader: Arc<dyn ReadFleet>, stop: CancellationToken) -> std::io::Result<()> {
        let live = Live::new(reader);
        let reading = live.clone().read(stop.clone());
        // Event streams never end, so a graceful shutdown, which waits for connections, would not end either.
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
    let mut routes = Router::new()
        .route(&path("events"), get(events))
        .route(&path("placement"), get(explained))
        .route(&path("cluster"), get(one_cluster))
        .route(&path("conditions"), get(|| async { document(reasons::page(None)) }))
        .route(&path("style.css"), get(style))
        .route(&path("script.js"), get(script));
    for view in View::ALL {
        let page =
            move |live, Query(query): Query<FleetQuery>| fleet_page(live, FleetQuery { view, ..query });
        routes = routes.route(&path(view.path()), get(page));
    }
    routes.with_state(live)
}

fn content(query: &FleetQuery, fleet: &Fleet, now: Timestamp) -> Option<Markup> {
    match &fleet.overview {
        Ok(overview) => query.content(&Shown::all(overview), now),
        Err(reason) => Some(page::problem(reason)),
    }
}

/// Returns a page of the current fleet.
async fn fleet_page(State(live): State<Live>, query: FleetQuery) -> Response {
    let Some(fleet) = live.now().await else { return StatusCode::SERVICE_UNAVAILABLE.into_response() };
    match content(&query, &fleet, now()) {
        Some(content) => query.document(&content, None),
        None => (StatusCode::NOT_FOUND, document(query.missing())).into_response(),
    }
}

/// Returns the page of a placement.
async fn explained(State(live): State<Live>, Query(query): Query<PlacementQuery>) -> Response {
    let Some(key) = query.key() else { return missing(&query.of) };
    match live.placement(key, query.what_if().and_then(Result::ok)).await {
        Ok(Some(explanation)) => document(placement::page(&explanation, &query, None)),
        Ok(None) => missing(&query.of),
        Err(reason) => unreadable(&reason),
    }
}

/// Returns the page of a cluster.
async fn one_cluster(State(live): State<Live>, Query(query): Query<ClusterQuery>) -> Response {
    let missing = || (StatusCode::NOT_FOUND, document(page::no_cluster(&query.of))).into_response();
    let (Some(name), Some(fleet)) = (query.name(), live.now().await) else { return missing() };
    match (&fleet.overview, live.cluster(name).await) {
        (Ok(overview), Ok(objects)) => {
            let page = cluster::page(name, objects, overview, &Rights::every(), None);
            page.map_or_else(missing, document)
        }
        (Err(reason), _) => unreadable(reason),
        (_, Err(reason)) => unreadable(&reason),
    }
}

fn unreadable(reason: &str) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, document(page::refused(reason))).into_response()
}

fn missing(placement: &str) -> Response {
    (StatusCode::NOT_FOUND, document(page::no_placement(placement))).into_response()
}

/// Streams the content of a page: now, and at each change.
async fn events(
    State(live): State<Live>,
    Query(query): Query<FleetQuery>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let contents = stream::unfold((live.subscribe(), query), |(mut receiver, query)| async {
        loop {
            receiver.changed().await.ok()?;
            let fleet = receiver.borrow_and_update().clone();
            if let Some(content) = fleet.and_then(|fleet| content(&query, &fleet, fleet.since)) {
                return Some((Ok(event(&content.into_string())), (receiver, query)));
            }
        }
    });
    Sse::new(contents).keep_alive(KeepAlive::default())
}
