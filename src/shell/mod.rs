//! The rim around the controllers: watches fill the caches, a dispatcher plans what is due, an executor writes what was planned.
//!
//! ```text
//! API server ──watch──▶ Caches ──routes──▶ Loop (per controller) ──due──▶ plan ──▶ execute ──▶ conclude ──▶ status
//!                          ▲                                                          │
//!                          └───────────── results of own writes ◀─────────────────────┘
//! ```
//! Nothing here decides anything about a fleet. This is also the only place that reads a clock.

mod clock;
mod core;
mod driver;
mod election;
mod events;
mod execute;
mod metrics;
mod register;
mod resources;
mod watch;

pub use clock::now;
pub use driver::{Handle, PushFn, Shell, ShellOptions};
pub use election::{Election, ElectionOptions};
pub use execute::{failure, said};
pub use register::Selection;
pub use resources::Resources;

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
