//! Owners of applied objects. An owner is known by its uid, never by its name or by a label alone.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Value, json};

use object::Object;

fn references(object: &Object) -> impl Iterator<Item = &Value> {
    object.at(&["metadata", "ownerReferences"]).and_then(Value::as_array).into_iter().flatten()
}

fn is(reference: &Value, owner: &OwnerReference) -> bool {
    reference.get("uid").and_then(Value::as_str) == Some(owner.uid.as_str())
}

fn is_of_kind(reference: &Value, owner: &OwnerReference) -> bool {
    reference.get("kind").and_then(Value::as_str) == Some(owner.kind.as_str())
}

/// Whether an object carries the reference of an owner.
pub(crate) fn is_owned_by(object: &Object, owner: &OwnerReference) -> bool {
    references(object).any(|reference| is(reference, owner))
}

/// Whether an object has another owner of the same kind.
pub(crate) fn has_other_owner(object: &Object, owner: &OwnerReference) -> bool {
    references(object).any(|reference| is_of_kind(reference, owner) && !is(reference, owner))
}

/// The owner references of an object without those of one owner.
pub(crate) fn without_owner(object: &Object, owner: &OwnerReference) -> Vec<Value> {
    references(object).filter(|reference| !is(reference, owner)).cloned().collect()
}

/// The owner references of an object with those of one owner.
pub(crate) fn with_owner(object: &Object, owner: &OwnerReference) -> Vec<Value> {
    references(object).cloned().chain([json!(owner)]).collect()
}

/// The references to apply: those of owners of this kind that the live object has, or ours where the object is to be created.
///
/// All owners of this kind apply under one field manager, and an apply removes the items that the manager no longer names.
pub(crate) fn references_to_apply(live: Option<&Object>, owner: &OwnerReference, owned: bool) -> Vec<Value> {
    match live {
        Some(live) => references(live).filter(|reference| is_of_kind(reference, owner)).cloned().collect(),
        None if owned => vec![json!(owner)],
        None => Vec::new(),
    }
}
