//! The edge around the controllers: it feeds the dispatcher from watches of API servers and executes what the dispatcher says.
//!
//! ```text
//! API server ──watch──▶ Dispatcher ──▶ threads: plan, conclude, compute ──▶ Dispatcher
//!                           └────────▶ tasks: requests to the API server, pushes ──▶ Dispatcher
//! ```
//! Nothing here decides anything about a fleet, and nothing here knows a kind of ours. `clock.rs` reads the only clock.

mod clock;
mod crd;
mod election;
mod events;
mod execute;
mod lookup;
mod metrics;
mod process;
mod resources;
mod runtime;
mod selection;
mod telemetry;
mod threads;
mod watch;

pub use clock::now;
pub use election::{Election, ElectionOptions};
pub use execute::{failure, said};
pub use process::{Handle, PushFn, Registrar, Shell, ShellOptions};
pub use resources::Resources;
pub use selection::Selection;

use std::time::Duration;

/// Longest time any single request may take; the kube client has no timeout of its own.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// A client for a cluster, with the timeouts and without the hidden retries of the defaults.
///
/// # Errors
/// When the configuration is not usable: a certificate that does not parse, a URL without a host.
pub fn client(mut config: kube::Config) -> kube::Result<kube::Client> {
    config.connect_timeout = Some(Duration::from_secs(5));
    // The queue retries, with its own backoff and with what the failure calls for.
    config.default_retry = false;
    kube::Client::try_from(config)
}
