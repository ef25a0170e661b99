//! JSON objects without kinds: the properties that all Kubernetes objects share.
//!
//! The crate knows no group, kind or schema, except the merge rules in [`builtin_lists`]. Code that needs more
//! belongs in `api` (types) or `store` (schemas).

#![warn(missing_docs)]

pub mod builtin_lists;
pub mod date_time;
mod diff;
pub mod duration;
pub mod fields;
pub mod go_json;
mod hex;
pub mod jsonpath;
mod key;
mod key_files;
mod metadata;
pub mod names;
mod number;
pub mod patch;
pub mod pattern;
pub mod quantity;
mod random;
mod rendered;
mod seed;
pub mod selector;
pub mod steps;
mod stored;
pub mod text;
pub mod tree;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use diff::merge_diff;
pub use hex::hex;
pub use key::{Gvk, Key, Kind, ObjectRef};
pub use key_files::KeyFiles;
pub use metadata::{Metadata, refers_to};
pub use number::whole_numbers;
pub use random::Random;
pub use rendered::{Location, RenderedObject};
pub use seed::Seed;
pub use selector::Selector;
pub use stored::{LAST_APPLIED, Stored, version};

/// A Kubernetes object in its JSON form.
///
/// `serde_json` sorts the fields, so equal objects have equal bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Object(pub Map<String, Value>);

/// A document that is not a Kubernetes object, or not of the expected kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The JSON value is not an object.
    #[error("not an object but {0}")]
    NotAnObject(&'static str),
    /// The value does not fit the requested type.
    #[error("{what}: {reason}")]
    WrongShape {
        /// The kind and name of the object, as far as they are known.
        what: String,
        /// serde's message.
        reason: String,
    },
}

impl Object {
    /// Wraps a JSON value that must be an object.
    ///
    /// # Errors
    /// Returns [`Malformed::NotAnObject`] with the actual JSON type.
    pub fn from_value(value: Value) -> Result<Self, Malformed> {
        match value {
            Value::Object(map) => Ok(Self(map)),
            Value::Null => Err(Malformed::NotAnObject("null")),
            Value::Bool(_) => Err(Malformed::NotAnObject("a boolean")),
            Value::Number(_) => Err(Malformed::NotAnObject("a number")),
            Value::String(_) => Err(Malformed::NotAnObject("a string")),
            Value::Array(_) => Err(Malformed::NotAnObject("a list")),
        }
    }

    /// Serializes a typed object, with the `apiVersion` and `kind` of its type.
    pub fn from_typed<K: Kind>(typed: &K) -> Self {
        let mut value = serde_json::to_value(typed).expect("wire types have string keys, so they serialize");
        whole_numbers(&mut value);
        let mut object = Self::from_value(value).expect("a Kubernetes type serializes to an object");
        let gvk = Gvk::of::<K>();
        object.0.insert("apiVersion".into(), gvk.api_version().into());
        object.0.insert("kind".into(), gvk.kind.into());
        object
    }

    /// Converts the object to a type.
    ///
    /// # Errors
    /// Returns [`Malformed::WrongShape`] with the object and the first field that does not fit.
    pub fn to_typed<K: serde::de::DeserializeOwned>(&self) -> Result<K, Malformed> {
        K::deserialize(&self.0)
            .map_err(|e| Malformed::WrongShape { what: self.reference().to_string(), reason: e.to_string() })
    }

    /// Returns the value at a path of field names; `None` if any of them is absent.
    pub fn at(&self, path: &[&str]) -> Option<&Value> {
        let (first, rest) = path.split_first()?;
        rest.iter().try_fold(self.0.get(*first)?, |value, field| value.get(field))
    }

    fn str_at(&self, path: &[&str]) -> &str {
        self.at(path).and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns `apiVersion`; empty if absent.
    pub fn api_version(&self) -> &str {
        self.str_at(&["apiVersion"])
    }

    /// Returns `kind`; empty if absent.
    pub fn kind(&self) -> &str {
        self.str_at(&["kind"])
    }

    /// Returns the group, version and kind.
    pub fn gvk(&self) -> Gvk {
        Gvk::parse(self.api_version(), self.kind())
    }

    /// Returns `metadata.name`; empty if absent.
    pub fn name(&self) -> &str {
        self.str_at(&["metadata", "name"])
    }

    /// Returns `metadata.namespace`; empty if absent.
    pub fn namespace(&self) -> &str {
        self.str_at(&["metadata", "namespace"])
    }

    /// Returns `metadata.uid`; empty if absent.
    pub fn uid(&self) -> &str {
        self.str_at(&["metadata", "uid"])
    }

    /// Returns `metadata.resourceVersion`; empty if absent.
    pub fn resource_version(&self) -> &str {
        self.str_at(&["metadata", "resourceVersion"])
    }

    /// Returns `metadata.generation`; 0 if absent.
    pub fn generation(&self) -> i64 {
        self.at(&["metadata", "generation"]).and_then(Value::as_i64).unwrap_or_default()
    }

    /// Returns true if `metadata.deletionTimestamp` is set.
    pub fn is_terminating(&self) -> bool {
        self.at(&["metadata", "deletionTimestamp"]).is_some_and(|t| !t.is_null())
    }

    /// Returns the condition of the given type in `status.conditions`.
    pub fn condition(&self, type_: &str) -> Option<&Value> {
        let conditions = self.at(&["status", "conditions"])?.as_array()?;
        conditions.iter().find(|condition| condition.get("type").and_then(Value::as_str) == Some(type_))
    }

    /// Returns `metadata.labels`, sorted by key.
    pub fn labels(&self) -> BTreeMap<&str, &str> {
        self.str_map(&["metadata", "labels"])
    }

    /// Returns a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.at(&["metadata", "labels", key])?.as_str()
    }

    /// Returns `metadata.annotations`.
    pub fn annotations(&self) -> BTreeMap<&str, &str> {
        self.str_map(&["metadata", "annotations"])
    }

    fn str_map(&self, path: &[&str]) -> BTreeMap<&str, &str> {
        let entries = self.at(path).and_then(Value::as_object).into_iter().flatten();
        entries.filter_map(|(k, v)| Some((k.as_str(), v.as_str()?))).collect()
    }

    /// Returns the namespace and name.
    pub fn key(&self) -> Key {
        Key::namespaced(self.namespace(), self.name())
    }

    /// Returns the kind and key.
    pub fn reference(&self) -> ObjectRef {
        ObjectRef { gvk: self.gvk(), key: self.key() }
    }

    /// Returns `metadata`, creating it if it is absent or not an object.
    pub fn metadata_mut(&mut self) -> &mut Map<String, Value> {
        self.field_mut("metadata")
    }

    /// Returns a top-level field as a JSON object, creating it if it is absent or something else.
    pub fn field_mut(&mut self, field: &str) -> &mut Map<String, Value> {
        let slot = self.0.entry(field).or_insert_with(|| Value::Object(Map::new()));
        if !slot.is_object() {
            *slot = Value::Object(Map::new());
        }
        slot.as_object_mut().expect("set to an object just above")
    }

    /// Converts the object to a JSON value.
    pub fn into_value(self) -> Value {
        Value::Object(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn absent_fields_read_as_empty() {
        let object = Object::default();
        assert_eq!(object.reference().to_string(), "? /");
        assert_eq!((object.uid(), object.generation(), object.is_terminating()), ("", 0, false));
        assert!(object.labels().is_empty());
    }

    #[test]
    fn a_list_is_not_an_object() {
        assert_eq!(Object::from_value(json!([])), Err(Malformed::NotAnObject("a list")));
    }

    #[test]
    fn a_typed_object_carries_its_kind() {
        let namespace = k8s_openapi::api::core::v1::Namespace::default();
        let object = Object::from_typed(&namespace);
        assert_eq!((object.api_version(), object.kind()), ("v1", "Namespace"));
    }
}
