//! OpenAPI v3 schemas of the types, structural as API servers require.

use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

/// Returns the schema of a type, with every reference resolved.
pub(crate) fn of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|s| {
        s.inline_subschemas = true;
        s.meta_schema = None;
    });
    let mut schema = settings.with_transform(Structural).into_generator().into_root_schema_for::<T>();
    schema.remove("title");
    schema.to_value()
}

/// Returns the schema of a whole object. `parts` are its fields other than the metadata, with their schemas and
/// true if they are required.
pub(crate) fn root<const N: usize>(description: &str, parts: [(&str, Value, bool); N]) -> Value {
    let required: Vec<_> =
        parts.iter().filter(|(_, _, required)| *required).map(|(field, ..)| (*field).to_owned()).collect();
    let mut properties =
        Map::from_iter(parts.into_iter().map(|(field, schema, _)| (field.to_owned(), schema)));
    properties.insert(
        "apiVersion".into(),
        json!({"type": "string", "description": "Group and version of the schema the object is written in."}),
    );
    properties.insert(
        "kind".into(),
        json!({"type": "string", "description": "Name of the schema the object is written in."}),
    );
    properties.insert("metadata".into(), json!({"type": "object"}));
    let mut schema = json!({"type": "object", "description": prose(description), "properties": properties});
    if let (Some(fields), false) = (schema.as_object_mut(), required.is_empty()) {
        fields.insert("required".into(), json!(required));
    }
    schema
}

/// Returns the schema of a list of objects of any kind. The API server only checks `apiVersion`, `kind` and
/// `metadata` of each object.
pub(crate) fn manifests(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
    })
}

/// Joins the lines of each paragraph of a doc comment.
fn prose(doc: &str) -> String {
    let paragraphs = doc
        .split("\n\n")
        .map(|paragraph| paragraph.lines().map(str::trim).collect::<Vec<_>>().join(" ").trim().to_owned());
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

/// Rewrites the output of schemars for API servers. Removes `null` as an alternative type (optional fields may be
/// absent, and nullable ones are marked), formats that API servers do not know, and titles.
#[derive(Clone)]
struct Structural;

impl Transform for Structural {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        let Some(fields) = schema.as_object_mut() else { return };
        hoist_optional(fields);
        if let Some(Value::Array(types)) = fields.get("type") {
            let non_null: Vec<_> = types.iter().filter(|t| *t != "null").cloned().collect();
            if let [only] = non_null.as_slice() {
                fields.insert("type".into(), only.clone());
            }
        }
        if fields.get("format").and_then(Value::as_str).is_some_and(|format| !KNOWN_FORMATS.contains(&format))
        {
            fields.remove("format");
        }
        if let Some(Value::String(description)) = fields.get_mut("description") {
            *description = prose(description);
        }
        fields.remove("title");
        if let Some(Value::Array(values)) = fields.get_mut("enum") {
            values.retain(|value| !value.is_null());
        }
        if let Some(Value::Object(values)) = fields.get_mut("additionalProperties") {
            values.remove("description");
            if values.contains_key("x-kubernetes-int-or-string") {
                values.insert("pattern".into(), QUANTITY_PATTERN.into());
            }
        }
        if fields.get("default") == Some(&Value::Null) {
            fields.remove("default");
        }
    }
}

/// Pattern of a quantity. Quantities are the only map values that may be a number or a string.
const QUANTITY_PATTERN: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

const KNOWN_FORMATS: &[&str] = &["int32", "int64", "byte", "date-time", "uri"];

/// Replaces `anyOf: [T, null]` with `T`.
fn hoist_optional(fields: &mut Map<String, Value>) {
    let Some(Value::Array(variants)) = fields.get("anyOf") else { return };
    let non_null: Vec<_> =
        variants.iter().filter(|v| v.get("type").is_none_or(|t| t != "null")).cloned().collect();
    if let ([Value::Object(only)], true) = (non_null.as_slice(), non_null.len() < variants.len()) {
        fields.remove("anyOf");
        for (keyword, value) in only {
            fields.entry(keyword).or_insert_with(|| value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crds;

    /// Finds what API servers reject in a schema, and missing descriptions.
    fn faults(schema: &Value, path: &str, found: &mut Vec<String>) {
        let mut fault = |what: &str| found.push(format!("{path}: {what}"));
        let is = |keyword: &str| schema[keyword] == true;
        if !schema["type"].is_string()
            && !is("x-kubernetes-int-or-string")
            && !is("x-kubernetes-preserve-unknown-fields")
        {
            fault("has no type");
        }
        for keyword in ["$ref", "oneOf", "allOf", "not", "const", "title"] {
            if schema.get(keyword).is_some() {
                fault(keyword);
            }
        }
        if let (Some(values), Some(default)) = (schema["enum"].as_array(), schema.get("default"))
            && !values.contains(default)
        {
            fault("the default is not a value");
        }
        for key in schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten() {
            let item = &schema["items"];
            let required = item["required"].as_array().is_some_and(|required| required.contains(key));
            if !required && item["properties"][key.as_str().unwrap()].get("default").is_none() {
                fault("a list map key is neither required nor defaulted");
            }
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            if property["description"].as_str().is_none_or(str::is_empty) && name != "metadata" {
                found.push(format!("{path}: has no description"));
            }
            if path.matches('.').count() > 1 || name != "metadata" {
                faults(property, &path, found);
            }
        }
        for items in [&schema["items"], &schema["additionalProperties"]] {
            if items.is_object() {
                faults(items, &format!("{path}[]"), found);
            }
        }
    }

    #[test]
    fn schemas_are_structural_and_described() {
        let mut found = Vec::new();
        for definition in crds::all() {
            for version in &definition.spec.versions {
                let schema = version.schema.as_ref().and_then(|s| s.open_api_v3_schema.as_ref()).unwrap();
                let name = format!("{}/{}", definition.spec.names.kind, version.name);
                faults(&serde_json::to_value(schema).unwrap(), &name, &mut found);
            }
        }
        assert!(found.is_empty(), "{found:#?}");
    }

    #[test]
    fn running_text_keeps_paragraphs_alone() {
        assert_eq!(prose(" A line\n and more.\n\n Another."), "A line and more.\n\nAnother.");
    }
}
