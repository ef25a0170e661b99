//! Wire types: the objects that API servers store and clients send.
//!
//! One kind a file, under `<group>/<version>/`. The names are those of the wire, oddities included. Every
//! struct keeps the fields it does not know in `unknown` and every enumeration the values it does not know in
//! `Other`, so reading an object of a newer hub and writing it back loses nothing. Types of Kubernetes itself
//! come from `k8s_openapi`.
//!
//! The module refuses to decide: it has no defaults but those of the schemas, and no behaviour but conversion
//! between versions.

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

/// Fields a type does not know, kept as they came.
pub type Unknown = BTreeMap<String, Value>;

/// An object carried inside another one, as it was written.
pub type Manifest = Map<String, Value>;
