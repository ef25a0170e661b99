//! Applying a manifest to a cluster: whether it is there already, in which order, and as whose.

mod fields;
mod order;
mod owners;
mod resource;

pub use fields::{Path, covers, strip_ignored};
pub use order::rank;
pub use owners::{Owner, is_owned_by, owners_of_kind, without_owner};
pub use resource::{is_namespaced, plural};
