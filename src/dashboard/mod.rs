//! The fleet in a browser: one page that the server renders, and a stream of events that keeps it current.
//!
//! It is served in two ways:
//! - on this machine alone ([`LocalDashboard`]), behind a secret in the address: it shows the objects that its
//!   process may read, and writes nothing;
//! - to people with tokens of the hub ([`hub`]), over HTTPS: each of them sees what the hub lets them read,
//!   and changes what the hub lets them change.

mod action;
pub mod certificate;
mod cluster;
mod html;
pub mod hub;
mod live;
mod local;
mod page;
mod placement;
mod rights;
mod rollouts;
mod shown;
mod visitor;

use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{Html, IntoResponse, Response};

pub use cluster::ClusterObjects;
pub use live::ReadFleet;
pub use local::LocalDashboard;

use object::names::is_dns_subdomain;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// The query of the page of a placement.
#[derive(serde::Deserialize)]
struct PlacementQuery {
    /// The placement, as NAMESPACE/NAME.
    of: String,
}

impl PlacementQuery {
    fn key(&self) -> Option<object::Key> {
        self.of.split_once('/').map(|(namespace, name)| object::Key::namespaced(namespace, name))
    }
}

/// The query of the page of a cluster.
#[derive(serde::Deserialize)]
struct ClusterQuery {
    /// Its name.
    of: String,
}

impl ClusterQuery {
    /// Returns the name without spaces around it; `None` if it is none, because it becomes a part of
    /// questions to the hub.
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

/// Returns a document with headers for the browser: it loads nothing from other sites, runs no inline script,
/// and stands in no frame.
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
