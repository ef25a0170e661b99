//! Prepares an object from a client for storage: removes unknown fields and nulls, and sets defaults.

use serde_json::{Map, Value};

use object::Object;

use super::GroupResource;
use super::request_scope::RequestScope;
use super::schema::{Schema, Type, drop_unknown};

/// The source of an object, which decides how unknown fields are rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// The body of a request.
    Body,
    /// The result of a patch.
    Patched,
    /// A configuration to apply, which must not contain unknown fields.
    Apply,
}

/// Drops unknown fields, and nulls that mean absence; returns the paths of the unknown fields. A configuration to
/// apply keeps empty maps and lists, because they may replace others. A custom object keeps its nulls, because its
/// schema may reject them.
pub(super) fn prune(scope: &RequestScope, object: &mut Object, reading: Reading) -> Vec<String> {
    let builtin = !scope.resource().is_custom();
    let mut how = Pruning { builtin, keeps_empty: reading == Reading::Apply, dropped: Vec::new() };
    how.fields(&scope.version().schema, &mut object.0, "", true);
    let mut dropped = how.dropped;
    if scope.resource().id() == GroupResource::definitions() {
        drop_unknown(object, &mut dropped);
    }
    dropped
}

/// Drops the maps and lists that an apply has emptied, because Go's own types have no nulls. Custom objects keep
/// them, because their schema may reject them.
pub(super) fn drop_emptied(scope: &RequestScope, object: &mut Object) {
    if scope.resource().is_custom() {
        object.metadata_mut().retain(|_, value| !value.is_null());
    } else {
        prune(scope, object, Reading::Patched);
    }
}

struct Pruning {
    builtin: bool,
    keeps_empty: bool,
    dropped: Vec<String>,
}

impl Pruning {
    fn fields(&mut self, schema: &Schema, fields: &mut Map<String, Value>, path: &str, root: bool) {
        fields.retain(|name, value| {
            let here = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            let named =
                (root || schema.embedded) && matches!(name.as_str(), "apiVersion" | "kind" | "metadata");
            let Some(field) = schema.field(name) else {
                let is_allowed =
                    schema.preserve || named || (schema.type_ == Type::Any && schema.properties.is_empty());
                if !is_allowed {
                    self.dropped.push(here);
                }
                return is_allowed;
            };
            if value.is_null() && !field.nullable && !field.preserve {
                // An entry in a map of strings is a Go string, which is never absent.
                let is_entry = !schema.properties.contains_key(name) && field.type_ == Type::String;
                let is_of_go = self.builtin || here.starts_with("metadata.");
                if is_entry && is_of_go {
                    *value = Value::String(String::new());
                }
                return if is_of_go { is_entry } else { self.keeps_empty };
            }
            self.value(field, value, &here);
            // Go omits empty maps and lists in its own types. An empty list of managers is a request to remove all
            // of them.
            !(self.builtin
                && !self.keeps_empty
                && is_empty(field, value)
                && !schema.required.contains(name)
                && here != "metadata.managedFields")
        });
    }

    fn value(&mut self, schema: &Schema, value: &mut Value, path: &str) {
        match value {
            Value::Object(fields) => self.fields(schema, fields, path, false),
            Value::Array(items) => {
                if let Some(schema) = &schema.items {
                    for (i, item) in items.iter_mut().enumerate() {
                        self.value(schema, item, &format!("{path}[{i}]"));
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

/// Returns true if a value is an empty list, or an empty map as opposed to an object with declared fields.
fn is_empty(schema: &Schema, value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty() && schema.values.is_some(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Sets the defaults of an object.
pub(super) fn fill_in(scope: &RequestScope, object: &mut Object) {
    let mut value = Value::Object(std::mem::take(&mut object.0));
    fill(&scope.version().schema, &mut value);
    if let Value::Object(fields) = value {
        object.0 = fields;
    }
    if let Some(kind) = scope.resource().builtin {
        for (field, zero) in kind.zero() {
            object.0.entry(field).or_insert(zero);
        }
        (kind.fill)(object);
    }
}

/// Sets the defaults of absent fields, outer fields first.
pub(super) fn fill(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, field) in &schema.properties {
                if let Some(default) = &field.default
                    && fields.get(name).is_none_or(|value| value.is_null() && !field.nullable)
                {
                    fields.insert(name.clone(), default.clone());
                }
            }
            for (name, value) in fields.iter_mut() {
                if let Some(field) = schema.field(name) {
                    if value.is_null()
                        && !field.nullable
                        && let Some(default) = &field.default
                    {
                        *value = default.clone();
                    }
                    fill(field, value);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = &schema.items {
                items.iter_mut().for_each(|item| fill(schema, item));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns where a value does not have the type in its schema, in the words of Go's JSON decoder: `number`,
/// `spec.replicas`, `int32`.
pub(super) fn mistyped(schema: &Schema, value: &Value, path: &str) -> Option<String> {
    if !value.is_null() && !admits(schema, value) {
        let found = match value {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        return Some(format!(
            "json: cannot unmarshal {found} into Go struct field {path} of type {}",
            go_type(schema)
        ));
    }
    if let (Some(checks), Some(text)) = (&schema.checks, value.as_str())
        && !super::format::is_valid(&checks.format, text)
    {
        match checks.format.as_str() {
            "date-time" => {
                return Some(format!(
                    "parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {text:?} as \"2006\""
                ));
            }
            super::format::MICRO_TIME => {
                return Some(format!("parsing time {text:?} as \"2006-01-02T15:04:05.000000Z07:00\""));
            }
            "byte" => return Some("illegal base64 data".into()),
            _ => {}
        }
    }
    match value {
        Value::Object(fields) => fields.iter().find_map(|(name, value)| {
            let at =
                if schema.properties.contains_key(name) { format!("{path}.{name}") } else { path.to_owned() };
            mistyped(schema.field(name)?, value, &at)
        }),
        Value::Array(items) => {
            let schema = schema.items.as_ref()?;
            items.iter().find_map(|item| mistyped(schema, item, path))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// Returns the first place in a configuration whose type is not the one in its schema. Any number is accepted for a
/// numeric type, and formats are not checked.
pub(super) fn mistyped_in_config(schema: &Schema, fields: &Map<String, Value>, path: &str) -> Option<String> {
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    fields.iter().find_map(|(name, value)| mistyped_value(schema.field(name)?, value, &below(name)))
}

fn mistyped_value(schema: &Schema, value: &Value, path: &str) -> Option<String> {
    let fits = match (schema.type_, value) {
        (_, Value::Null) | (Type::IntOrString | Type::Integer, Value::Number(_)) => true,
        (type_, value) => type_.admits(value),
    };
    if !fits {
        let expected = match schema.type_ {
            Type::Integer | Type::Number => "numeric (int or float)",
            Type::Object => "map",
            Type::Array => "list",
            Type::Any | Type::String | Type::Boolean | Type::IntOrString => schema.type_.name(),
        };
        return Some(format!(".{path}: expected {expected}, got {value}"));
    }
    match value {
        Value::Object(fields) => mistyped_in_config(schema, fields, path),
        Value::Array(items) => {
            let schema = schema.items.as_ref()?;
            let mut items = items.iter().enumerate();
            items.find_map(|(i, item)| mistyped_value(schema, item, &format!("{path}[{i}]")))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// Returns true if a schema accepts a value. The schema of a quantity is a string, but the server accepts any
/// number.
fn admits(schema: &Schema, value: &Value) -> bool {
    schema.type_.admits(value) || (schema.type_ == Type::IntOrString && value.is_number())
}

fn go_type(schema: &Schema) -> String {
    let format = schema.checks.as_ref().map(|checks| checks.format.as_str()).unwrap_or_default();
    match schema.type_ {
        Type::Any | Type::Object => "map[string]interface {}".into(),
        Type::Array => {
            "[]".to_owned() + &schema.items.as_ref().map(|items| go_type(items)).unwrap_or_default()
        }
        Type::String => "string".into(),
        Type::Integer => if format.is_empty() { "int64" } else { format }.into(),
        Type::Number => "float64".into(),
        Type::Boolean => "bool".into(),
        Type::IntOrString => "intstr.IntOrString".into(),
    }
}
