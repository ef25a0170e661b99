//! The OpenAPI v2 document of all kinds, for Argo CD and older versions of kubectl. client-go only accepts it
//! as protobuf: `openapi.v2.Document` of gnostic.
//!
//! It has definitions, but no paths.

use serde_json::{Map, Value, json};

/// The media type of the protobuf form.
pub(super) const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// Returns the document for named OpenAPI v3 schemas.
pub(super) fn document(schemas: &Map<String, Value>) -> Value {
    let definitions: Map<String, Value> =
        schemas.iter().map(|(name, schema)| (name.clone(), converted(schema, true))).collect();
    json!({
        "swagger": "2.0",
        "info": { "title": "Wheelwright", "version": super::VERSION },
        "paths": {},
        "definitions": definitions,
    })
}

/// Converts a schema to OpenAPI v2. Like kube-apiserver, it drops keywords that v2 lacks, such as `anyOf`,
/// because clients use the schema to read objects, not to validate them.
fn converted(schema: &Value, is_kind: bool) -> Value {
    let mut new = Map::new();
    for (name, value) in schema.as_object().into_iter().flatten() {
        if name.starts_with("x-")
            || matches!(name.as_str(), "description" | "default" | "required" | "format")
        {
            new.insert(name.clone(), value.clone());
        }
    }
    if let Some(reference) = reference(schema) {
        new.retain(|name, _| name == "description" || name == "default");
        new.insert("$ref".into(), json!(format!("#/definitions/{reference}")));
        return Value::Object(new);
    }
    let is_true = |name: &str| schema.get(name) == Some(&Value::Bool(true));
    let is_open = is_true("x-kubernetes-int-or-string") || is_true("x-kubernetes-preserve-unknown-fields");
    let type_ = schema.get("type").and_then(Value::as_str);
    let is_list_of_anything = type_ == Some("array") && schema.get("items").is_none();
    if (is_open && !is_kind) || is_list_of_anything {
        return Value::Object(new);
    }
    if let Some(type_) = type_ {
        new.insert("type".into(), type_.into());
    }
    if let Some(items) = schema.get("items") {
        new.insert("items".into(), converted(items, false));
    }
    if let Some(properties) =
        schema.get("properties").and_then(Value::as_object).filter(|all| !all.is_empty())
    {
        let properties = properties.iter().map(|(name, schema)| (name.clone(), converted(schema, false)));
        new.insert("properties".into(), Value::Object(properties.collect()));
    } else if let Some(others) = schema.get("additionalProperties") {
        let others = if others.is_object() { converted(others, false) } else { others.clone() };
        new.insert("additionalProperties".into(), others);
    }
    Value::Object(new)
}

/// Returns the name of the definition that a schema references. OpenAPI v3 wraps a reference that has a
/// description or a default.
fn reference(schema: &Value) -> Option<&str> {
    let wrapped = || schema.get("allOf")?.as_array().filter(|all| all.len() == 1)?.first()?.get("$ref");
    let path = schema.get("$ref").or_else(wrapped)?.as_str()?;
    path.strip_prefix("#/components/schemas/")
}

/// Encodes a document as protobuf. The field numbers are those in gnostic's `OpenAPIv2.proto`.
pub(super) fn protobuf(document: &Value) -> Vec<u8> {
    let mut message = Message::default();
    message.text(1, document.get("swagger"));
    let mut info = Message::default();
    for (number, name) in [(1, "title"), (2, "version")] {
        info.text(number, document.pointer(&format!("/info/{name}")));
    }
    message.message(2, &info);
    message.message(8, &Message::default());
    message.message(9, &named(document.get("definitions")));
    message.0
}

/// Returns a list of schemas by name. `Definitions` and `Properties` have it in the same field.
fn named(schemas: Option<&Value>) -> Message {
    let mut list = Message::default();
    for (name, schema) in schemas.and_then(Value::as_object).into_iter().flatten() {
        let mut entry = Message::default();
        entry.bytes(1, name.as_bytes());
        entry.message(2, &encoded(schema));
        list.message(1, &entry);
    }
    list
}

fn encoded(schema: &Value) -> Message {
    let mut message = Message::default();
    message.text(1, schema.get("$ref"));
    message.text(2, schema.get("format"));
    message.text(4, schema.get("description"));
    if let Some(default) = schema.get("default") {
        message.message(5, &any(default));
    }
    for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
        message.text(19, Some(name));
    }
    match schema.get("additionalProperties") {
        Some(Value::Bool(allowed)) => {
            let mut item = Message::default();
            item.number(2, u64::from(*allowed));
            message.message(21, &item);
        }
        Some(others) => message.schema_in(21, others),
        None => {}
    }
    if let Some(type_) = schema.get("type") {
        let mut item = Message::default();
        item.text(1, Some(type_));
        message.message(22, &item);
    }
    if let Some(items) = schema.get("items") {
        message.schema_in(23, items);
    }
    if schema.get("properties").is_some() {
        message.message(25, &named(schema.get("properties")));
    }
    let extensions = schema.as_object().into_iter().flatten().filter(|(name, _)| name.starts_with("x-"));
    for (name, value) in extensions {
        let mut entry = Message::default();
        entry.bytes(1, name.as_bytes());
        entry.message(2, &any(value));
        message.message(31, &entry);
    }
    message
}

/// Encodes a value as YAML. JSON is valid YAML.
fn any(value: &Value) -> Message {
    let mut message = Message::default();
    message.bytes(2, value.to_string().as_bytes());
    message
}

/// The encoded fields of a protobuf message.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        loop {
            let [low, ..] = (value & 0x7f).to_le_bytes();
            value >>= 7;
            if value == 0 {
                return self.0.push(low);
            }
            self.0.push(low | 0x80);
        }
    }

    fn number(&mut self, field: u64, value: u64) {
        self.varint(field << 3);
        self.varint(value);
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint((field << 3) | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u64, message: &Message) {
        self.bytes(field, &message.0);
    }

    /// Adds a message whose only field is a schema.
    fn schema_in(&mut self, field: u64, schema: &Value) {
        let mut item = Message::default();
        item.message(1, &encoded(schema));
        self.message(field, &item);
    }

    fn text(&mut self, field: u64, text: Option<&Value>) {
        if let Some(text) = text.and_then(Value::as_str) {
            self.bytes(field, text.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_keeps_what_openapi_v2_can_say() {
        for (v3, v2) in [
            (json!({"$ref": "#/components/schemas/a.B"}), json!({"$ref": "#/definitions/a.B"})),
            (
                json!({"allOf": [{"$ref": "#/components/schemas/a.B"}], "description": "d", "default": {}}),
                json!({"$ref": "#/definitions/a.B", "description": "d", "default": {}}),
            ),
            (
                json!({"type": "string", "nullable": true, "pattern": "a", "enum": ["a"]}),
                json!({"type": "string"}),
            ),
            (
                json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}]}),
                json!({"x-kubernetes-int-or-string": true}),
            ),
            (
                json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {}}}),
                json!({"x-kubernetes-preserve-unknown-fields": true}),
            ),
            (json!({"type": "array"}), json!({})),
            (
                json!({"type": "object", "properties": {"default": {"type": "array", "items": {"type": "integer", "format": "int32"}}}}),
                json!({"type": "object", "properties": {"default": {"type": "array", "items": {"type": "integer", "format": "int32"}}}}),
            ),
            (
                json!({"type": "object", "additionalProperties": {"type": "string", "maxLength": 3}}),
                json!({"type": "object", "additionalProperties": {"type": "string"}}),
            ),
        ] {
            assert_eq!(converted(&v3, false), v2, "{v3}");
        }
    }

    #[test]
    fn a_document_is_written_as_gnostic_reads_it() {
        let schema = json!({"type": "object", "additionalProperties": true, "x-a": [1]});
        let document =
            json!({"swagger": "2.0", "info": {"title": "t", "version": "v"}, "definitions": {"n": schema}});
        let any = [b"\x12\x03".as_slice(), b"[1]"].concat();
        let extension = [b"\x0a\x03x-a\x12\x05".as_slice(), &any].concat();
        let schema =
            [b"\xaa\x01\x02\x10\x01\xb2\x01\x08\x0a\x06object\xfa\x01\x0c".as_slice(), &extension].concat();
        let entry = [b"\x0a\x01n\x12\x1f".as_slice(), &schema].concat();
        let definitions = [b"\x0a\x24".as_slice(), &entry].concat();
        let whole =
            [b"\x0a\x032.0\x12\x06\x0a\x01t\x12\x01v\x42\x00\x4a\x26".as_slice(), &definitions].concat();
        assert_eq!(protobuf(&document), whole);
    }
}
