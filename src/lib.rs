//! Wheelwright: a GitOps hub operator for fleets of Kubernetes clusters, wire-compatible with Open Cluster
//! Management.
//!
//! This package acts: it talks to git servers, API servers and people. The crates under `crates/` decide.
//! ARCHITECTURE.md lists the dependencies that are allowed between modules and crates, and `tests/tidy/`
//! enforces them.

pub mod agent;
pub mod apiserver;
pub mod cli;
pub mod dashboard;
pub mod git;
pub mod operator;
pub mod pki;
pub mod serve;

/// The crate in `crates/shell/`, re-exported like a module.
pub use ::shell;

#[cfg(test)]
#[path = "../tests/fuzz/driver.rs"]
mod fuzz;
#[cfg(test)]
#[path = "../tests/golden.rs"]
mod golden;
