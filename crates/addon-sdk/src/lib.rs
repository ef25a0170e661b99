//! A library for add-ons: an [`AddOn`] says what runs on a cluster, a [manager](manager::run) on the hub deploys
//! it to every cluster that has the add-on, and an [agent](agent::run) on the cluster talks to the hub under an
//! identity of its own.
//!
//! ```text
//! ClusterManagementAddOn ──placement──▶ ManagedClusterAddOn ──manager, this library──▶ ManifestWork ──▶ cluster
//!        (the operator or OCM's addon-manager)
//! ```
//! The wire is that of Open Cluster Management (OCM), so a manager runs beside its addon-manager as well as
//! beside our operator. Everything is a pure function but `agent.rs`, `manager.rs` and `health.rs`, which act.
//! `docs/design/addon-sdk.md` has the reasons, `docs/addons.md` the way from nothing to an add-on.

mod addon;
pub mod agent;
mod config;
mod health;
mod hub;
pub mod manager;
mod manifests;

pub use addon::{AddOn, Health, Installation, Options, SignFn, Signer};
pub use manifests::render;
