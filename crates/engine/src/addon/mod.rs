//! Add-ons: the configuration of each cluster, the rendered manifests, and the health of the result.
//!
//! The functions read no view and write nothing. They take the content of a configuration by hash and never by
//! name. A cluster therefore gets exactly what its rollout decided, even if the named object has changed since.

pub mod check;
pub mod config;
pub mod config_refs;
pub mod degraded;
pub mod error;
pub mod health;
pub mod hook;
pub mod hosting;
pub mod live;
mod orphans;
mod pack;
pub mod progress;
pub mod registration;
mod rules;
pub mod selection;
pub mod snapshot;
pub mod spec_hash;
pub mod template;
pub mod token;
pub mod works;
pub mod works_status;
