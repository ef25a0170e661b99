//! The schemas of built-in kinds, from the OpenAPI of their types with additions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use super::{Refs, Schema};
use object::builtin_lists::{BUILTIN, ListType, MapType, Position};

/// The pointer to the definitions in an OpenAPI v3 document.
const DEFINITIONS: &str = "/components/schemas";

/// The definitions of all built-in types, by name, and their schemas.
pub(crate) struct Definitions {
    /// The definitions as OpenAPI.
    pub(crate) openapi: Map<String, Value>,
    roots: BTreeMap<String, Arc<Schema>>,
}

/// Collects the types whose schemas are needed.
pub(crate) struct Collector {
    generator: SchemaGenerator,
    roots: Vec<String>,
    /// The definitions of kinds, with their `apiVersion` and kind in the table of built-in lists.
    kinds: Vec<(String, &'static str, &'static str)>,
}

impl Collector {
    pub(crate) fn new() -> Self {
        let settings = SchemaSettings::openapi3().with(|settings| {
            settings.definitions_path = DEFINITIONS.into();
            settings.inline_subschemas = false;
        });
        Self { generator: SchemaGenerator::new(settings), roots: Vec::new(), kinds: Vec::new() }
    }

    /// Adds a type and all types that it uses.
    fn add<K: JsonSchema>(&mut self) {
        self.generator.subschema_for::<K>();
        self.roots.push(K::schema_name().into_owned());
    }

    /// Adds a kind and all types that it uses.
    pub(crate) fn add_kind<K: JsonSchema + k8s_openapi::Resource>(&mut self) {
        self.add::<K>();
        self.kinds.push((K::schema_name().into_owned(), K::API_VERSION, K::KIND));
    }

    /// Returns the definitions with fixed defaults. A default is a definition below `io.k8s.api.`, a field, and
    /// the value as JSON.
    pub(crate) fn finish<'a>(
        mut self,
        defaults: impl IntoIterator<Item = &'a (&'static str, &'static str, &'static str)>,
    ) -> Definitions {
        let mut openapi: Map<String, Value> = self.generator.take_definitions(true);
        for (definition, field, default) in defaults {
            set_default(&mut openapi, &format!("io.k8s.api.{definition}"), field, default);
        }
        allow_anything(&mut openapi);
        let mut seen = BTreeSet::new();
        for (name, api_version, kind) in self.kinds {
            write_merge_rules(&mut openapi, &name, BUILTIN.root(api_version, kind), &mut seen);
        }
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
    /// Returns the schema of a collected type.
    pub(crate) fn schema(&self, name: &str) -> Arc<Schema> {
        self.roots.get(name).cloned().unwrap_or_default()
    }
}

/// Writes a default that the generated schema lacks.
fn set_default(openapi: &mut Map<String, Value>, definition: &str, field: &str, default: &str) {
    let slot = openapi.get_mut(definition).and_then(|d| d.pointer_mut(&format!("/properties/{field}")));
    let default = serde_json::from_str(default);
    debug_assert!(slot.is_some() && default.is_ok(), "{definition}.{field}");
    if let (Some(slot), Ok(default)) = (slot.and_then(Value::as_object_mut), default) {
        slot.insert("default".into(), default);
    }
}

/// Makes fields that contain JSON, embedded objects or schemas accept anything.
fn allow_anything(openapi: &mut Map<String, Value>) {
    for free in
        ["io.k8s.apimachinery.pkg.runtime.RawExtension", "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1"]
    {
        if let Some(Value::Object(definition)) = openapi.get_mut(free) {
            definition.insert("x-kubernetes-preserve-unknown-fields".into(), true.into());
            definition.remove("type");
        }
    }
}

/// Writes the merge rules from the table of built-in lists into a definition and those it uses, as OpenAPI
/// extensions, because kubectl computes its patches from them.
fn write_merge_rules(
    openapi: &mut Map<String, Value>,
    name: &str,
    at: Position<'_>,
    seen: &mut BTreeSet<String>,
) {
    if !at.is_known() || !seen.insert(name.to_owned()) {
        return;
    }
    let fields = openapi
        .get(name)
        .and_then(|d| d.get("properties"))
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default();
    for (field, mut schema) in fields {
        let here = at.field(&field);
        for (part, at) in [
            (Some(&schema), here),
            (schema.get("items"), here.items()),
            (schema.get("additionalProperties"), here.field("*")),
        ] {
            if let Some(below) = part.and_then(reference) {
                write_merge_rules(openapi, &below, at, seen);
            }
        }
        let Some(words) = schema.as_object_mut() else { continue };
        match here.list_type() {
            ListType::Atomic => {}
            ListType::Set => drop(words.insert("x-kubernetes-list-type".into(), "set".into())),
            ListType::Map(keys) => {
                words.insert("x-kubernetes-list-type".into(), "map".into());
                words.insert("x-kubernetes-list-map-keys".into(), keys.iter().map(|key| key.name).collect());
            }
        }
        if here.map_type() == MapType::Atomic {
            words.insert("x-kubernetes-map-type".into(), "atomic".into());
        }
        let patch = here.patch_strategy();
        let strategy: Vec<_> =
            [("merge", patch.merge), ("retainKeys", patch.retain_keys), ("replace", patch.replace)]
                .into_iter()
                .filter_map(|(word, holds)| holds.then_some(word))
                .collect();
        if !strategy.is_empty() {
            words.insert("x-kubernetes-patch-strategy".into(), strategy.join(",").into());
        }
        if let Some(key) = patch.merge_key {
            words.insert("x-kubernetes-patch-merge-key".into(), key.into());
        }
        if let Some(slot) = openapi
            .get_mut(name)
            .and_then(|d| d.get_mut("properties"))
            .and_then(|fields| fields.get_mut(&field))
        {
            *slot = schema;
        }
    }
}

/// Returns the name of the definition that a schema refers to.
fn reference(schema: &Value) -> Option<String> {
    let path = schema.get("$ref").or_else(|| schema.pointer("/allOf/0/$ref"))?.as_str()?;
    path.rsplit('/').next().map(str::to_owned)
}

static METADATA: LazyLock<Definitions> = LazyLock::new(|| {
    let mut collector = Collector::new();
    collector.add::<ObjectMeta>();
    collector.finish([])
});

/// Returns the schema of `metadata` for custom resources.
pub(crate) fn metadata() -> Arc<Schema> {
    METADATA.schema("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
}

/// Returns the schema of `metadata` as OpenAPI without references, with the extensions for server-side apply.
pub(crate) fn metadata_openapi() -> Value {
    let mut whole =
        METADATA.openapi.get("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta").cloned().unwrap_or_default();
    let owner = METADATA
        .openapi
        .get("io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference")
        .cloned()
        .unwrap_or_default();
    let managed = METADATA
        .openapi
        .get("io.k8s.apimachinery.pkg.apis.meta.v1.ManagedFieldsEntry")
        .cloned()
        .unwrap_or_default();
    let mut set = |field: &str, word: &str, value: Value| {
        if let Some(slot) = whole.pointer_mut(&format!("/properties/{field}")).and_then(Value::as_object_mut)
        {
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
        let description =
            whole.pointer(&format!("/properties/{time}/description")).cloned().unwrap_or_default();
        if let Some(slot) = whole.pointer_mut(&format!("/properties/{time}")) {
            *slot = json!({ "type": "string", "format": "date-time", "description": description });
        }
    }
    whole
}

/// Inlines the references in a `managedFields` entry: a time and free-form fields.
fn inline_free(mut entry: Value) -> Value {
    if let Some(fields) = entry.pointer_mut("/properties").and_then(Value::as_object_mut) {
        fields.insert("time".into(), json!({ "type": "string", "format": "date-time" }));
        fields.insert(
            "fieldsV1".into(),
            json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true }),
        );
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merge_rules_are_documented_as_by_a_real_server() {
        let definitions = crate::definitions();
        let containers = &definitions["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
        assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
        assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
        let finalizers =
            &definitions["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"]["properties"]["finalizers"];
        assert_eq!(
            (&finalizers["x-kubernetes-list-type"], &finalizers["x-kubernetes-patch-strategy"]),
            (&json!("set"), &json!("merge"))
        );
    }

    #[test]
    fn metadata_needs_no_references() {
        assert!(!metadata_openapi().to_string().contains("$ref"), "{}", metadata_openapi());
        assert!(metadata().properties.contains_key("labels"));
    }
}
