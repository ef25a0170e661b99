//! Serves health and metrics to the process's cluster, receives webhooks over HTTPS, and converts objects for
//! API servers.

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

/// The maximum number of connections, for probes and a few Prometheus servers.
const CONNECTIONS: ConnectionLimits = ConnectionLimits { most: 256, of_one: 16 };

/// The running shell, or the reason if there is none.
pub type Running = watch::Receiver<Result<Handle, String>>;

/// An address for health and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    pub address: SocketAddr,
    /// True to serve TLS, with a certificate generated at the start that no client can verify. Probes of a
    /// kubelet accept any certificate.
    pub tls: bool,
}

/// Serves `/livez`, `/readyz`, `/metrics` and `/debug/placements/{namespace}/{name}` of an operator until
/// `stop`.
///
/// # Errors
/// Fails if it cannot listen on the address.
pub async fn serve(address: SocketAddr, handle: Handle, stop: CancellationToken) -> std::io::Result<()> {
    let (_, running) = watch::channel(Ok(handle));
    let placements = Router::new().route("/debug/placements/{namespace}/{name}", get(explain));
    let routes = health(placements).with_state(HealthRoutes::new(running, metrics::of_operator));
    listen(Listen { address, tls: false }, routes, stop).await
}

/// Serves `/livez`, `/readyz` and `/metrics` of an agent until `stop`.
///
/// # Errors
/// Fails if it cannot listen on the address.
pub async fn serve_agent(at: Listen, running: Running, stop: CancellationToken) -> std::io::Result<()> {
    // OCM's agents have this path too.
    let healthz = Router::new().route("/healthz", get(live));
    listen(at, health(healthz).with_state(HealthRoutes::new(running, metrics::of_agent)), stop).await
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
