//! The part of an object that a request may read and write.

use object::Object;

use super::request_scope::RequestScope;
use super::{ApiError, ResourcePath};

/// Rejects a subresource that the version does not have.
pub(super) fn known(scope: &RequestScope, target: &ResourcePath) -> Result<(), ApiError> {
    let resource = scope.resource();
    let known = match target.subresource.as_str() {
        "" => true,
        "status" => scope.version().status,
        "scale" => scope.version().scale.is_some(),
        "approval" => resource.plural == "certificatesigningrequests",
        "finalize" => resource.plural == "namespaces" && resource.group.is_empty(),
        _ => false,
    };
    match known {
        true => Ok(()),
        false if resource.is_custom() => Err(ApiError::not_found(target)),
        false => Err(ApiError::no_such_path()),
    }
}

/// Returns `new` restricted to the part that a write through a subresource may change; the rest comes from `old`.
pub(super) fn restrict(scope: &RequestScope, subresource: &str, old: &Object, mut new: Object) -> Object {
    match subresource {
        "" | "scale" => {
            if scope.version().status {
                take(&mut new, old, "status");
            }
            new
        }
        "finalize" => only(old, &new, &["spec"]),
        _ => only(old, &new, &["status"]),
    }
}

/// Returns `old` with the given top-level fields of `new`, and the metadata that this write sets.
fn only(old: &Object, new: &Object, fields: &[&str]) -> Object {
    let mut restricted = old.clone();
    for field in fields {
        take(&mut restricted, new, field);
    }
    for field in ["resourceVersion", "managedFields"] {
        match new.at(&["metadata", field]) {
            Some(value) => restricted.metadata_mut().insert(field.into(), value.clone()),
            None => restricted.metadata_mut().remove(field),
        };
    }
    restricted
}

/// Copies a top-level field from another object.
pub(super) fn take(into: &mut Object, from: &Object, field: &str) {
    match from.0.get(field) {
        Some(value) => into.0.insert(field.into(), value.clone()),
        None => into.0.remove(field),
    };
}
