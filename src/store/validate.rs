//! Schemas at work: unknown fields, defaults, checks.

use crate::object::Object;

use super::read::Lens;
use super::{ApiError, FieldError};

/// Compiled CEL rules of a schema.
#[derive(Debug)]
pub struct Rules {}

/// Drops fields that the schema does not know, and returns their paths; fills in defaults.
pub(super) fn prune(_lens: &Lens, _object: &mut Object) -> Result<Vec<String>, ApiError> {
    Ok(Vec::new())
}

/// What is wrong with an object by its schema.
pub(super) fn check(_lens: &Lens, _object: &Object, _old: Option<&Object>) -> Vec<FieldError> {
    Vec::new()
}
