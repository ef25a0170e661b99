//! Reads CustomResourceDefinitions and sets their defaults.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::schema::{Refs, metadata, metadata_openapi};
use crate::{ApiResource, Column, Generation, GroupResource, NameRule, Rules, Scale, Schema, Version};
use object::Object;

pub(super) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn flag(value: &Value, field: &str) -> bool {
    value.get(field).and_then(Value::as_bool).unwrap_or(false)
}

pub(super) fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

pub(super) fn texts(value: &Value, field: &str) -> Vec<String> {
    list(value, field).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

pub(super) fn spec(definition: &Object) -> &Value {
    definition.0.get("spec").unwrap_or(&Value::Null)
}

/// Returns the resource under which objects of a definition are stored.
pub(crate) fn resource_id(definition: &Object) -> GroupResource {
    let spec = spec(definition);
    GroupResource::new(text(spec, "group"), spec.get("names").map_or("", |names| text(names, "plural")))
}

/// Returns the resource that a definition serves.
pub(super) fn resource(definition: &Object) -> ApiResource {
    let spec = spec(definition);
    let names = spec.get("names").unwrap_or(&Value::Null);
    let versions = list(spec, "versions");
    let storage = versions.iter().find(|version| flag(version, "storage"));
    let any_status = versions.iter().any(|version| version.pointer("/subresources/status").is_some());
    ApiResource {
        group: text(spec, "group").into(),
        kind: text(names, "kind").into(),
        list_kind: text(names, "listKind").into(),
        plural: text(names, "plural").into(),
        singular: text(names, "singular").into(),
        short_names: texts(names, "shortNames"),
        categories: texts(names, "categories"),
        namespaced: text(spec, "scope") == "Namespaced",
        versions: versions.iter().map(version).collect(),
        storage: storage.map(|version| text(version, "name")).unwrap_or_default().into(),
        generation: if any_status { Generation::Spec } else { Generation::All },
        names: NameRule::Subdomain,
        unconditional_update: false,
        create_on_update: false,
        builtin: None,
    }
}

fn version(version: &Value) -> Version {
    let declared = version.pointer("/schema/openAPIV3Schema").cloned().unwrap_or_else(|| json!({}));
    let rules = Rules::compile(&declared).map(Arc::new);
    let openapi = with_type_and_metadata(declared);
    let mut schema = Schema::read(&openapi, &mut Refs::none());
    schema.properties.insert("metadata".into(), metadata());
    let name = text(version, "name");
    let warning = version.get("deprecationWarning").and_then(Value::as_str).map(str::to_owned);
    Version {
        name: name.into(),
        served: flag(version, "served"),
        deprecation: flag(version, "deprecated")
            .then(|| warning.unwrap_or_else(|| format!("version {name} is deprecated"))),
        schema: Arc::new(schema),
        openapi: Arc::new(openapi),
        rules,
        status: version.pointer("/subresources/status").is_some(),
        scale: version.pointer("/subresources/scale").map(scale),
        columns: list(version, "additionalPrinterColumns").iter().map(column).collect(),
        selectable: list(version, "selectableFields")
            .iter()
            .map(|f| text(f, "jsonPath").trim_start_matches('.').to_owned())
            .collect(),
    }
}

/// Adds the fields that every object has to the declared schema.
fn with_type_and_metadata(mut schema: Value) -> Value {
    if let Some(schema) = schema.as_object_mut() {
        let fields = schema.entry("properties").or_insert_with(|| json!({}));
        if let Some(fields) = fields.as_object_mut() {
            fields.insert(
                "apiVersion".into(),
                json!({ "type": "string", "description": "The version of the schema this object is written in." }),
            );
            fields.insert("kind".into(), json!({ "type": "string", "description": "What this object is." }));
            fields.insert("metadata".into(), metadata_openapi());
        }
    }
    schema
}

fn scale(scale: &Value) -> Scale {
    let path = |field: &str| {
        text(scale, field).trim_start_matches('.').split('.').map(str::to_owned).collect::<Vec<_>>()
    };
    let selector = scale.get("labelSelectorPath").map(|_| path("labelSelectorPath"));
    Scale {
        spec_replicas: path("specReplicasPath"),
        status_replicas: path("statusReplicasPath"),
        selector,
        is_builtin: false,
    }
}

fn column(column: &Value) -> Column {
    Column {
        name: text(column, "name").into(),
        type_: text(column, "type").into(),
        format: text(column, "format").into(),
        description: text(column, "description").into(),
        priority: column.get("priority").and_then(Value::as_i64).unwrap_or(0),
        path: text(column, "jsonPath").into(),
    }
}

/// Sets the defaults of a definition.
pub(crate) fn complete(definition: &mut Object) {
    let kind =
        definition.at(&["spec", "names", "kind"]).and_then(Value::as_str).unwrap_or_default().to_owned();
    let names = definition.field_mut("spec").entry("names").or_insert_with(|| json!({}));
    if let Some(names) = names.as_object_mut() {
        names.entry("singular").or_insert_with(|| kind.to_lowercase().into());
        names.entry("listKind").or_insert_with(|| format!("{kind}List").into());
    }
    definition.field_mut("spec").entry("conversion").or_insert_with(|| json!({ "strategy": "None" }));
    for version in
        definition.field_mut("spec").get_mut("versions").and_then(Value::as_array_mut).into_iter().flatten()
    {
        let columns = version.get_mut("additionalPrinterColumns").and_then(Value::as_array_mut);
        columns.into_iter().flatten().filter_map(Value::as_object_mut).for_each(|column| {
            column.retain(|_, value| *value != json!(0) && *value != json!(""));
        });
    }
    remember_storage(definition);
}

/// Adds the storage version to `status.storedVersions`.
pub(super) fn remember_storage(definition: &mut Object) {
    let storage = resource_storage(spec(definition));
    let status = definition.field_mut("status");
    let mut stored: Vec<String> = status
        .get("storedVersions")
        .map(|_| texts(&Value::Object(status.clone()), "storedVersions"))
        .unwrap_or_default();
    if !storage.is_empty() && !stored.contains(&storage) {
        stored.push(storage);
    }
    status.insert("storedVersions".into(), stored.into());
}

fn resource_storage(spec: &Value) -> String {
    list(spec, "versions")
        .iter()
        .find(|version| flag(version, "storage"))
        .map(|version| text(version, "name").to_owned())
        .unwrap_or_default()
}
