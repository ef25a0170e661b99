//! The definitions of kinds in a store.

use jiff::Timestamp;
use serde_json::Value;

use object::Object;
use store::{Patch, Store, WriteOptions};

/// Applies CustomResourceDefinitions to a store. They must be valid.
pub fn install<D: serde::Serialize>(store: &mut Store, definitions: Vec<D>, now: Timestamp) {
    for definition in definitions {
        let mut object = serde_json::to_value(definition)
            .ok()
            .and_then(|v| Object::from_value(v).ok())
            .unwrap_or_default();
        object.0.insert("apiVersion".into(), Value::from("apiextensions.k8s.io/v1"));
        object.0.insert("kind".into(), Value::from("CustomResourceDefinition"));
        let name = object.name().to_owned();
        let options = WriteOptions::manager("user").forced();
        let target = store.target(&object.reference());
        let applied = target.map(|it| store.patch(&it, &Patch::Apply(object.into_value()), &options, now));
        debug_assert!(matches!(applied, Some(Ok(_))), "{name}: {applied:?}");
    }
}
