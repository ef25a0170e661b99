//! Helpers for applying objects to a spoke: ignored fields, and owners.

mod ignored_fields;
mod owners;

pub(crate) use ignored_fields::Path;
pub(crate) use ignored_fields::{keep_live_values, remove};
pub(crate) use owners::{has_other_owner, is_owned_by, references_to_apply, with_owner, without_owner};
