//! The fleet in a browser: pages that the server renders, and a stream of events that keeps them current.
//!
//! There are two ways to serve it:
//! - On the local machine only ([`LocalDashboard`]), behind a secret in the address: it shows the objects that its
//!   process may read, and writes nothing.
//! - For people with tokens of the hub ([`hub`]), over HTTPS: each person sees what the hub lets them read, and
//!   changes what the hub lets them change.

mod action;
mod actions;
mod attention;
pub mod certificate;
mod cluster;
mod fleet_map;
mod html;
pub mod hub;
mod live;
mod local;
mod oidc;
mod page;
mod paging;
mod placement;
mod placements;
mod query;
mod reasons;
mod repositories;
mod repository;
mod rights;
mod rollout;
mod rollouts;
mod shown;
mod state;
mod table;
mod timeline;
mod views;
mod visitor;

use axum::http::{HeaderName, HeaderValue, header};
use axum::response::sse::Event;
use axum::response::{Html, IntoResponse, Response};

pub use cluster::ClusterObjects;
pub use live::ReadFleet;
pub use local::LocalDashboard;
pub use oidc::OidcOptions;

use controllers::hub::placement::LabelChange;
use object::names::is_dns_subdomain;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// The query of the page of a placement.
#[derive(serde::Deserialize)]
struct PlacementQuery {
    /// The placement, as NAMESPACE/NAME.
    of: String,
    /// Shows only clusters whose names contain this text; empty for all.
    #[serde(default)]
    q: String,
    /// Shows only clusters in this state; empty for all.
    #[serde(default)]
    state: String,
    /// The page of the clusters in that state, starting at 1.
    #[serde(default)]
    page: usize,
    /// The cluster whose label is tried; empty for the actual result.
    #[serde(default)]
    cluster: String,
    /// The label to try, as for `kubectl label`.
    #[serde(default)]
    label: String,
}

impl PlacementQuery {
    fn key(&self) -> Option<object::Key> {
        self.of.split_once('/').map(|(namespace, name)| object::Key::namespaced(namespace, name))
    }

    /// Returns the label to try, or the reason that it is invalid; `None` for the actual result.
    fn what_if(&self) -> Option<Result<LabelChange, String>> {
        let (cluster, label) = (self.cluster.trim(), self.label.trim());
        (!cluster.is_empty() || !label.is_empty()).then(|| LabelChange::parse(cluster, label))
    }
}

/// Returns the event with the content of a page. Events must not contain carriage returns.
fn event(content: &str) -> Event {
    Event::default().data(content.replace('\r', " "))
}

/// The query of the page of a cluster.
#[derive(serde::Deserialize)]
struct ClusterQuery {
    /// The name of the cluster.
    of: String,
}

impl ClusterQuery {
    /// Returns the trimmed name; `None` if it is invalid, because it becomes part of requests to the hub.
    fn name(&self) -> Option<&str> {
        Some(self.of.trim()).filter(|name| is_dns_subdomain(name))
    }
}

async fn style() -> Response {
    asset("text/css; charset=utf-8", STYLE)
}

async fn script() -> Response {
    asset("text/javascript; charset=utf-8", SCRIPT)
}

fn asset(kind: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static(kind))], text).into_response()
}

/// Returns a document with security headers: it loads nothing from other sites, runs no inline scripts, and cannot
/// be framed.
fn document(html: String) -> Response {
    let policy = HeaderValue::from_static(
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; frame-ancestors 'none'; form-action 'self'",
    );
    let headers: [(HeaderName, HeaderValue); 4] = [
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::REFERRER_POLICY, HeaderValue::from_static("same-origin")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ];
    (headers, Html(html)).into_response()
}

#[cfg(test)]
mod tests;
