//! Serves health and metrics to the cluster that the process runs on, receives webhooks over HTTPS, and
//! converts objects for API servers.

mod accept;
mod addon_metrics;
pub mod certificate;
pub mod conversion;
mod health;
pub mod https;
mod metrics;
pub mod receiver;
mod secure;
pub mod tls;

use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::info;

use self::accept::{ConnectionLimits, accept};
use self::health::{HealthRoutes, explain, health, live};
use crate::shell::Handle;

/// Connections at once: those of probes and of a few Prometheus servers.
const CONNECTIONS: ConnectionLimits = ConnectionLimits { most: 256, of_one: 16 };

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
    let placements = Router::new().route("/debug/placements/{namespace}/{name}", get(explain));
    let routes = health(placements).with_state(HealthRoutes::of(running, metrics::of_operator));
    listen(Listen { address, tls: false }, routes, stop).await
}

/// Serves `/livez`, `/readyz` and `/metrics` of an agent until `stop`.
///
/// # Errors
/// The address cannot be listened on.
pub async fn serve_agent(at: Listen, running: Running, stop: CancellationToken) -> std::io::Result<()> {
    // The second path is that of OCM's agents.
    let healthz = Router::new().route("/healthz", get(live));
    listen(at, health(healthz).with_state(HealthRoutes::of(running, metrics::of_agent)), stop).await
}

async fn listen(at: Listen, routes: Router, stop: CancellationToken) -> std::io::Result<()> {
    let listener = TcpListener::bind(at.address).await?;
    info!(address = %listener.local_addr()?, tls = at.tls, "serving health and metrics");
    match at.tls {
        true => secure::serve(listener, routes, stop).await,
        false => {
            accept(listener, CONNECTIONS, stop, move |stream, _| https::answer(stream, routes.clone())).await;
            Ok(())
        }
    }
}
