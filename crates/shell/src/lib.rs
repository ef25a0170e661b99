//! The I/O around the controllers: feeds the dispatcher from watches of API servers, and executes its commands.
//!
//! ```text
//! API server ──watch──▶ Dispatcher ──▶ threads: plan, conclude, compute ──▶ Dispatcher
//!                           └────────▶ tasks: requests to the API server, pushes ──▶ Dispatcher
//! ```
//! The shell decides nothing about a fleet, and knows none of our kinds. `clock.rs` reads the only clock that
//! affects decisions.

mod activity;
mod api_server;
mod attempts;
mod budget;
mod client;
mod clock;
mod commands;
mod crd;
mod election;
mod events;
mod execute;
mod freshness;
#[cfg(test)]
#[path = "../../../tests/fuzz/driver.rs"]
mod fuzz;
#[cfg(test)]
#[path = "tests/lines.rs"]
mod lines;
mod lookup;
mod metrics;
mod pages;
mod process;
mod reads;
mod resources;
mod restarts;
mod runtime;
mod selection;
mod signal;
mod telemetry;
mod threads;
mod watch;

pub use activity::{Activity, ActivityKind, ObserveFn};
pub use api_server::{failure, message, with_causes};
pub use budget::memory_limit;
pub use client::{client, config, leader_client, parse_kubeconfig, read_kubeconfig};
pub use clock::{WallClockWait, now};
pub use election::{Election, ElectionOptions, Leadership, lead};
pub use events::EventRecorder;
pub use execute::{CommitStatusFn, NotifyFn, PushFn};
pub use freshness::is_away;
pub use metrics::register_samples;
pub use pages::{list_all, page};
pub use process::{Handle, Registrar, Shell, ShellOptions};
pub use resources::Resources;
pub use selection::EnabledControllers;
pub use signal::stop_on_signal;

use std::time::Duration;

/// The time limit of a request, except for watches.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
