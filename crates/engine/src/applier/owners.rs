//! Who owns an object: references by uid, never by name or label alone.

use serde_json::{Value, json};

use object::Object;

/// An owner of applied objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// `apiVersion` of the owner.
    pub api_version: String,
    /// Kind of the owner.
    pub kind: String,
    /// Name of the owner.
    pub name: String,
    /// What makes it the same object.
    pub uid: String,
}

impl Owner {
    /// As an entry of `metadata.ownerReferences`, not a controller: several works may own one object.
    pub fn reference(&self) -> Value {
        json!({"apiVersion": self.api_version, "kind": self.kind, "name": self.name, "uid": self.uid})
    }
}

fn references(object: &Object) -> impl Iterator<Item = &Value> {
    object.at(&["metadata", "ownerReferences"]).and_then(Value::as_array).into_iter().flatten()
}

fn uid(reference: &Value) -> &str {
    reference.get("uid").and_then(Value::as_str).unwrap_or_default()
}

/// Whether an object carries the reference of an owner.
pub fn is_owned_by(object: &Object, owner: &Owner) -> bool {
    references(object).any(|reference| uid(reference) == owner.uid)
}

/// How many owners of a kind an object has.
pub fn owners_of_kind(object: &Object, kind: &str) -> usize {
    references(object).filter(|reference| reference.get("kind").and_then(Value::as_str) == Some(kind)).count()
}

/// The owner references of an object without those of one owner.
pub fn without_owner(object: &Object, owner: &Owner) -> Vec<Value> {
    references(object).filter(|reference| uid(reference) != owner.uid).cloned().collect()
}
