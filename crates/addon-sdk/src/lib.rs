//! A library for OCM add-ons. An [`AddOn`] defines the objects on each cluster, and its program is a
//! [command](command::run): a manager on the hub deploys the add-on to every cluster that has it, and an agent on
//! the cluster talks to the hub with a separate identity.
//!
//! ```text
//! ClusterManagementAddOn ──placement──▶ ManagedClusterAddOn ──manager, this library──▶ ManifestWork ──▶ cluster
//!        (the operator or OCM's addon-manager)
//! ```
//! A program with its own flags calls [`manager::run`] and [`agent::run`] directly.
//!
//! The API is Open Cluster Management's (OCM), so a manager works with OCM's addon-manager as well as with our
//! operator. Everything is a pure function except in `agent.rs`, `command.rs`, `manager.rs` and `health.rs`, which
//! perform I/O. See `docs/design/addon-sdk.md` for the reasons and `docs/addon-managers.md` for a step-by-step
//! guide.

#![warn(missing_docs)]

mod addon;
pub mod agent;
pub mod command;
mod config;
mod health;
mod hub;
pub mod manager;
mod manifests;
mod score;

pub use addon::{AddOn, AddOnOptions, HealthProber, HubRole, Installation, SignFn, Signer};
pub use manifests::render;
pub use score::score;

// The types of an add-on, its objects and its agent's controllers, so that authors do not need these crates as
// dependencies.
pub use shell::{Registrar, stop_on_signal};
pub use {api, object, reconcile};
