//! Applying a manifest to a cluster: which fields it leaves alone, and who owns the object.

mod ignored_fields;
mod owners;
mod resource;

pub use ignored_fields::Path;
pub(crate) use ignored_fields::strip_ignored;
pub(crate) use owners::{has_other_owner, is_owned_by, with_owner, without_owner};
pub use resource::{is_namespaced, plural};
