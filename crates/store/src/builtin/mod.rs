//! The built-in kinds.
//!
//! Each kind has a file with its [`BuiltinKind`] and a line in the list of its group. Spokes are stores too, so
//! the workload kinds are included, with their schemas and most important defaults. No controller acts on them.

mod admissionregistration;
mod apiextensions;
mod apps;
mod autoscaling;
mod batch;
mod certificates;
mod checks;
mod columns;
mod coordination;
mod core;
mod discovery;
mod events;
mod kind;
mod networking;
mod node;
mod pod_spec;
mod policy;
mod rbac;
mod registry;
mod scheduling;
mod storage;

pub use columns::{PrinterColumn, age};
pub use kind::Subresource;
use kind::set_status;
pub(super) use kind::{BuiltinKind, Creation};
pub(super) use registry::{DEFINITIONS, aliases, conversions, resources};
