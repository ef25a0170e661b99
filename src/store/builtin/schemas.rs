//! Schemas of the built-in kinds: the OpenAPI that comes with their types, and what it leaves out.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use crate::store::Schema;
use crate::store::schema::Refs;

/// Where OpenAPI v3 documents keep definitions.
const DEFINITIONS: &str = "/components/schemas";

/// The definitions of every built-in type, by name, and their schemas.
pub(in crate::store) struct Definitions {
    /// As OpenAPI.
    pub(in crate::store) openapi: Map<String, Value>,
    roots: BTreeMap<String, Arc<Schema>>,
}

/// Collects types whose schemas are wanted.
pub(super) struct Collector {
    generator: SchemaGenerator,
    roots: Vec<String>,
}

impl Collector {
    pub(super) fn new() -> Self {
        let settings = SchemaSettings::openapi3().with(|settings| {
            settings.definitions_path = DEFINITIONS.into();
            settings.inline_subschemas = false;
        });
        Self { generator: SchemaGenerator::new(settings), roots: Vec::new() }
    }

    /// Adds a type and everything below it.
    pub(super) fn add<K: JsonSchema>(&mut self) {
        self.generator.subschema_for::<K>();
        self.roots.push(K::schema_name().into_owned());
    }

    pub(super) fn finish(mut self) -> Definitions {
        let mut openapi: Map<String, Value> = self.generator.take_definitions(true);
        complete(&mut openapi);
        let mut refs = Refs::new(&openapi);
        let roots = self.roots.into_iter().map(|name| {
            let schema = refs.definition(&name);
            (name, schema)
        });
        let roots = roots.collect();
        Definitions { openapi, roots }
    }
}

impl Definitions {
    /// The schema of a type that was collected.
    pub(in crate::store) fn schema(&self, name: &str) -> Arc<Schema> {
        self.roots.get(name).cloned().unwrap_or_default()
    }
}

/// Defaults and formats that the generated schemas do not have.
fn complete(openapi: &mut Map<String, Value>) {
    super::defaults::write(openapi);
    // A field of JSON, or of an embedded object, takes anything; so do schemas of schemas.
    for free in ["io.k8s.apimachinery.pkg.runtime.RawExtension", "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1"] {
        if let Some(Value::Object(definition)) = openapi.get_mut(free) {
            definition.insert("x-kubernetes-preserve-unknown-fields".into(), true.into());
        }
    }
}

static METADATA: LazyLock<Definitions> = LazyLock::new(|| {
    let mut collector = Collector::new();
    collector.add::<ObjectMeta>();
    collector.finish()
});

/// The schema of `metadata`, for custom resources.
pub(in crate::store) fn metadata() -> Arc<Schema> {
    METADATA.schema("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
}

/// The schema of `metadata` as OpenAPI without references, with what server-side apply has to know.
pub(in crate::store) fn metadata_openapi() -> Value {
    let mut whole = METADATA.openapi.get("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta").cloned().unwrap_or_default();
    let owner = METADATA.openapi.get("io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference").cloned().unwrap_or_default();
    let managed = METADATA.openapi.get("io.k8s.apimachinery.pkg.apis.meta.v1.ManagedFieldsEntry").cloned().unwrap_or_default();
    let mut set = |field: &str, word: &str, value: Value| {
        if let Some(slot) = whole.pointer_mut(&format!("/properties/{field}")).and_then(Value::as_object_mut) {
            slot.insert(word.into(), value);
        }
    };
    let mut owner = owner;
    if let Some(owner) = owner.as_object_mut() {
        owner.insert("x-kubernetes-map-type".into(), "atomic".into());
    }
    set("finalizers", "x-kubernetes-list-type", "set".into());
    set("ownerReferences", "x-kubernetes-list-type", "map".into());
    set("ownerReferences", "x-kubernetes-list-map-keys", json!(["uid"]));
    set("ownerReferences", "items", owner);
    set("managedFields", "items", inline_free(managed));
    for time in ["creationTimestamp", "deletionTimestamp"] {
        let description = whole.pointer(&format!("/properties/{time}/description")).cloned().unwrap_or_default();
        if let Some(slot) = whole.pointer_mut(&format!("/properties/{time}")) {
            *slot = json!({ "type": "string", "format": "date-time", "description": description });
        }
    }
    whole
}

/// References of `managedFields` entries lead to a time and to free-form fields.
fn inline_free(mut entry: Value) -> Value {
    if let Some(fields) = entry.pointer_mut("/properties").and_then(Value::as_object_mut) {
        fields.insert("time".into(), json!({ "type": "string", "format": "date-time" }));
        fields.insert("fieldsV1".into(), json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true }));
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_needs_no_references() {
        assert!(!metadata_openapi().to_string().contains("$ref"), "{}", metadata_openapi());
        assert!(metadata().properties.contains_key("labels"));
    }
}
