//! Sets of fields and their owners: the algebra behind `metadata.managedFields` and server-side apply.
//!
//! [`FieldSet`] is a set of paths. [`walk`] relates sets to values: the fields of a value, the changes between two
//! values, the merge of two values, and the removal of fields from a value. [`Owners`] implements the rules of
//! upstream's structured-merge-diff: the effects of an update and of an apply on all sets, and the conflicts. A
//! [`Position`](super::builtin_lists::Position) determines how lists and maps are owned, in built-in and custom
//! kinds.

mod applied;
mod owners;
mod packed;
mod set;
mod walk;

pub use applied::{covers, first_difference, has_entry_twice, is_as_applied, owned_by_others};
pub use owners::{Applying, Conflict, Manager, Operation, Owners};
pub use packed::{fields_v1, pack};
pub use set::{Element, FieldSet};
pub(crate) use walk::set_of;
pub use walk::{Comparison, compare, merged, without};
