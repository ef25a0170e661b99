//! Add-ons: which configuration each cluster should have, what it renders to, and whether it works.
//!
//! The functions know no view and write nothing. They take the content of a configuration by hash, never by name, so that what a
//! cluster gets is what the rollout decided for it, whatever has happened to the object of that name since.

pub mod config;
pub mod config_refs;
pub mod decorate;
pub mod health;
pub mod pack;
pub mod progress;
pub mod registration;
pub mod selection;
pub mod snapshot;
pub mod spec_hash;
pub mod template;
pub mod works;
