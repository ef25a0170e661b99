//! Tests of the verbs, by area. The expected results were observed on a real API server.

mod admission;
mod apply;
mod builtin;
mod custom;
mod garbage;
mod limits;
mod quota;
mod rules;
mod verbs;

use jiff::Timestamp;
use serde_json::Value;

use super::*;

/// A store, and helpers for tests.
pub(super) struct World {
    pub(super) store: Store,
    pub(super) now: Timestamp,
}

impl World {
    pub(super) fn new() -> Self {
        let now = "2026-01-02T03:04:05Z".parse().unwrap();
        Self { store: Store::new(1, now), now }
    }

    /// Returns the path of an object literal.
    pub(super) fn target(&self, object: &Value) -> ResourcePath {
        let object = Object::from_value(object.clone()).unwrap();
        let mut reference = object.reference();
        let namespaced = self.store.resource_of(&reference.gvk).unwrap().namespaced;
        if namespaced && reference.key.namespace.is_empty() {
            reference.key.namespace = "default".into();
        }
        self.store.target(&reference).unwrap()
    }

    pub(super) fn create(&mut self, object: Value) -> Result<Written, ApiError> {
        let target = self.target(&object).named("");
        self.store.create(
            &target,
            Object::from_value(object).unwrap(),
            &WriteOptions::manager("test"),
            self.now,
        )
    }

    pub(super) fn update(&mut self, object: Value) -> Result<Written, ApiError> {
        let target = self.target(&object);
        self.store.update(
            &target,
            Object::from_value(object).unwrap(),
            &WriteOptions::manager("test"),
            self.now,
        )
    }

    pub(super) fn merge(&mut self, target: &ResourcePath, patch: Value) -> Result<Written, ApiError> {
        self.store.patch(target, &Patch::Merge(patch), &WriteOptions::manager("test"), self.now)
    }

    pub(super) fn delete(&mut self, target: &ResourcePath) -> Result<Deleted, ApiError> {
        self.store.delete(target, &DeleteOptions::default(), self.now)
    }

    pub(super) fn names(&self, target: &ResourcePath) -> Vec<String> {
        let list = self.store.list(target, &ListOptions::default()).unwrap();
        list.items.iter().map(|object| object.name().to_owned()).collect()
    }
}

pub(super) fn config_map(name: &str, data: Value) -> Value {
    serde_json::json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": data })
}

/// Returns the code, reason and message of an error.
pub(super) fn refusal<T: std::fmt::Debug>(result: Result<T, ApiError>) -> (u16, String, String) {
    let error = result.unwrap_err();
    (error.code(), error.reason().to_owned(), error.message().to_owned())
}

pub(super) fn refused<T: std::fmt::Debug>(
    result: Result<T, ApiError>,
    code: u16,
    reason: &str,
    message: &str,
) {
    assert_eq!(refusal(result), (code, reason.to_owned(), message.to_owned()));
}
