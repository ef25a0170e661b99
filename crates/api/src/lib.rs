//! Wire types: the objects that API servers store and clients send.
//!
//! Each kind has its own file in `<group>/<version>/`. The names match the wire format, oddities included. Every
//! struct keeps unknown fields in `unknown`, and every enumeration keeps unknown values in `Other`. Reading an
//! object of a newer hub and writing it back therefore loses nothing. Types of Kubernetes itself come from
//! `k8s_openapi`.
//!
//! This crate decides nothing. Its only defaults come from the schemas, and its only behavior is conversion
//! between versions.

#![warn(missing_docs)]

#[macro_use]
mod kind;
mod lenient;
#[macro_use]
mod open_enum;

pub mod addon;
pub mod argoproj;
pub mod cluster;
pub mod condition;
pub mod crds;
pub mod gitops;
#[cfg(test)]
#[path = "../../../tests/golden.rs"]
mod golden;
pub mod multicluster;
pub mod names;
pub mod operator;
pub mod pod;
mod schema;
#[cfg(test)]
mod tests;
pub mod work;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

pub use condition::Condition;
pub use kind::{Column, Crd, Root};

/// Fields that a type does not know, kept unchanged.
pub type Unknown = BTreeMap<String, Value>;

/// An object embedded in another one, kept unchanged.
pub type Manifest = Map<String, Value>;
