//! The keywords of a schema: the fields of JSONSchemaProps, at any depth.

use serde_json::Value;

use object::Object;

const KEYWORDS: [&str; 44] = [
    "$ref",
    "$schema",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "default",
    "definitions",
    "dependencies",
    "description",
    "enum",
    "example",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "externalDocs",
    "format",
    "id",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "nullable",
    "oneOf",
    "pattern",
    "patternProperties",
    "properties",
    "required",
    "title",
    "type",
    "uniqueItems",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
];

/// Drops unknown keywords from the schemas of a definition, and adds their paths to `dropped`.
pub(crate) fn drop_unknown(definition: &mut Object, dropped: &mut Vec<String>) {
    let versions =
        definition.0.get_mut("spec").and_then(|spec| spec.get_mut("versions")).and_then(Value::as_array_mut);
    for (i, version) in versions.into_iter().flatten().enumerate() {
        if let Some(schema) = version.pointer_mut("/schema/openAPIV3Schema") {
            walk(schema, &format!("spec.versions[{i}].schema.openAPIV3Schema"), dropped);
        }
    }
}

fn walk(schema: &mut Value, path: &str, dropped: &mut Vec<String>) {
    let Some(fields) = schema.as_object_mut() else { return };
    fields.retain(|keyword, value| {
        let known = KEYWORDS.contains(&keyword.as_str());
        if !known {
            dropped.push(format!("{path}.{keyword}"));
        }
        known && !value.is_null()
    });
    for (keyword, value) in fields {
        let here = format!("{path}.{keyword}");
        match (keyword.as_str(), value) {
            ("properties" | "patternProperties" | "definitions", Value::Object(schemas)) => {
                schemas
                    .iter_mut()
                    .for_each(|(name, schema)| walk(schema, &format!("{here}.{name}"), dropped));
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(schemas)) => {
                schemas
                    .iter_mut()
                    .enumerate()
                    .for_each(|(i, schema)| walk(schema, &format!("{here}[{i}]"), dropped));
            }
            ("items" | "additionalProperties" | "not", schema) => walk(schema, &here, dropped),
            _ => {}
        }
    }
}
