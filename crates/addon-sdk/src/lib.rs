//! A library for add-ons: an [`AddOn`] says what runs on a cluster, and its program is a [command](command::run): a manager
//! on the hub deploys the add-on to every cluster that has it, and an agent on the cluster talks to the hub under
//! an identity of its own.
//!
//! ```text
//! ClusterManagementAddOn ──placement──▶ ManagedClusterAddOn ──manager, this library──▶ ManifestWork ──▶ cluster
//!        (the operator or OCM's addon-manager)
//! ```
//! A program with flags of its own calls [`manager::run`] and [`agent::run`] itself.
//!
//! The wire is that of Open Cluster Management (OCM), so a manager runs beside its addon-manager as well as
//! beside our operator. Everything is a pure function but `agent.rs`, `command.rs`, `manager.rs` and `health.rs`, which
//! act.
//! `docs/design/addon-sdk.md` has the reasons, `docs/addon-managers.md` the way from nothing to an add-on.

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

// The types of an add-on, of its objects and of the controllers of its agent: an author needs no crate for
// each.
pub use shell::{Registrar, stop_on_signal};
pub use {api, object, reconcile};
