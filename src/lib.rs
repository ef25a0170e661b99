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

#[cfg(feature = "edge")]
pub mod agent;
pub mod api;
#[cfg(feature = "edge")]
pub mod apiserver;
#[cfg(feature = "edge")]
pub mod cli;
pub mod controllers;
pub mod engine;
#[cfg(feature = "edge")]
pub mod git;
pub mod object;
#[cfg(feature = "edge")]
pub mod operator;
#[cfg(feature = "edge")]
pub mod pki;
pub mod reconcile;
pub mod render;
#[cfg(feature = "edge")]
pub mod serve;
#[cfg(feature = "edge")]
pub mod shell;
pub mod sim;
pub mod store;
pub mod text;
pub mod tree;
