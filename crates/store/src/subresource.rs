//! The part of an object that a request may read and write.

use serde_json::{Map, Value};

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
        "finalize" => only(old, new, "spec"),
        _ => only(old, new, "status"),
    }
}

/// Returns `old` with one top-level field of `new`, and the metadata that this write sets. Copies only what differs.
fn only(old: &Object, mut new: Object, field: &str) -> Object {
    restore(&mut new.0, &old.0, |name| [field, "metadata"].contains(&name));
    if let Some(metadata) = old.0.get("metadata").and_then(Value::as_object) {
        restore(new.metadata_mut(), metadata, |name| matches!(name, "resourceVersion" | "managedFields"));
    }
    new
}

/// Makes fields equal to `old`, except for those to keep.
fn restore(fields: &mut Map<String, Value>, old: &Map<String, Value>, keeps: impl Fn(&str) -> bool) {
    fields.retain(|name, _| keeps(name) || old.contains_key(name));
    for (name, value) in old.iter().filter(|(name, _)| !keeps(name)) {
        if fields.get(name) != Some(value) {
            fields.insert(name.clone(), value.clone());
        }
    }
}

/// Copies a top-level field from another object.
pub(super) fn take(into: &mut Object, from: &Object, field: &str) {
    match from.0.get(field) {
        Some(value) => into.0.insert(field.into(), value.clone()),
        None => into.0.remove(field),
    };
}
