//! Sets of fields, and who owns them: the algebra behind `metadata.managedFields` and server-side apply.
//!
//! [`FieldSet`] is a set of paths. [`walk`] relates sets to values: which fields a value has, what changed
//! between two values, what they are together, what is left without some. [`Owners`] is the rule book of
//! upstream's structured-merge-diff: what an update and an apply do to the sets of everyone, and when they
//! conflict. How lists and maps are owned comes from a [`Position`](super::builtin_lists::Position), so
//! built-in kinds and custom ones go the same way.

mod applied;
mod owners;
mod set;
mod walk;

pub use applied::{covers, first_difference, is_as_applied};
pub use owners::{Applying, Conflict, Manager, Operation, Owners};
pub use set::{Element, FieldSet};
pub(crate) use walk::set_of;
pub use walk::{Comparison, compare, merged, without};
