//! Wheelwright: a GitOps hub operator for fleets of Kubernetes clusters, wire-compatible with Open Cluster
//! Management.
//!
//! This package acts: it talks to git servers, API servers and people. The crates under `crates/` decide.
//! ARCHITECTURE.md says which module and which crate may use which, and `tests/tidy/` holds them to it.

pub mod agent;
pub mod apiserver;
pub mod cli;
pub mod dashboard;
pub mod git;
pub mod operator;
pub mod pki;
pub mod serve;

/// `crates/shell/`; within this package it has the path of a module.
pub use ::shell;

#[cfg(test)]
#[path = "../tests/fuzz/driver.rs"]
mod fuzz;
#[cfg(test)]
#[path = "../tests/golden.rs"]
mod golden;
