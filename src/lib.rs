//! Wheelwright: a GitOps hub operator for fleets of Kubernetes clusters, wire-compatible with Open Cluster Management.
//!
//! The crate is laid out in rings; a module uses what stands above it in this list, never what stands below:
//!
//! | ring | modules | may use |
//! |---|---|---|
//! | 0 | [`api`] | serde, schemas |
//! | 1 | [`object`], [`tree`], [`text`], [`render`], [`engine`], [`reconcile`], [`controllers`], [`store`], [`sim`] | ring 0; no async, clock, environment, files, network |
//! | 2 | `pki`, `git`, `shell`, `apiserver`, `serve`, `operator`, `agent` | clients, processes (feature `edge`) |
//! | 3 | `cli` | people |
//!
//! `cargo check --lib --no-default-features` builds rings 0 and 1 alone, so the compiler keeps the border.

pub mod agent;
pub mod apiserver;
pub mod cli;
pub mod git;
pub mod operator;
pub mod pki;
pub mod serve;
pub mod shell;
