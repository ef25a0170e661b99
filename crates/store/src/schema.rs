//! Structural schemas: the fields of objects, as declared by CustomResourceDefinitions and built-in types.
//!
//! A schema contains the fields, the merge rules for lists and maps, the defaults and the checks. This module only
//! contains the data.

mod definitions;
mod keywords;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

pub(super) use definitions::{Collector, Definitions, metadata, metadata_openapi};
pub(super) use keywords::drop_unknown;

/// The schema of a value.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// The JSON type.
    pub type_: Type,
    /// True if `null` is a value rather than an absence.
    pub nullable: bool,
    /// The default of an absent field.
    pub default: Option<Value>,
    /// The declared fields of an object.
    pub properties: BTreeMap<String, Arc<Schema>>,
    /// The schema of undeclared fields (`additionalProperties`).
    pub values: Option<Arc<Schema>>,
    /// The schema of list items.
    pub items: Option<Arc<Schema>>,
    /// The merge rule of a list in server-side apply.
    pub list: ListType,
    /// True if an object has one owner as a whole (`x-kubernetes-map-type: atomic`).
    pub atomic: bool,
    /// True if unknown fields are kept.
    pub preserve: bool,
    /// True if the value is an object with its own `apiVersion`, `kind` and `metadata`.
    pub embedded: bool,
    /// The fields that must be present.
    pub required: Vec<String>,
    /// The limits on the value, if any.
    pub checks: Option<Box<Checks>>,
}

/// The JSON type of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Type {
    /// No type is declared.
    #[default]
    Any,
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    /// An integer or a string.
    IntOrString,
}

/// The merge rule of a list in server-side apply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListType {
    /// The list is one value.
    #[default]
    Atomic,
    /// Items are unique values.
    Set,
    /// Items are objects, identified by these fields.
    Map(Vec<String>),
}

/// The limits on a value, as in JSON Schema.
#[derive(Clone, Debug, Default)]
pub struct Checks {
    /// The allowed values.
    pub enumeration: Vec<Value>,
    /// The regular expression that a string must match somewhere.
    pub pattern: Option<regex::Regex>,
    /// The named format of a string or number.
    pub format: String,
    pub minimum: Option<f64>,
    pub maximum: Option<f64>,
    /// True if the minimum itself is excluded.
    pub exclusive_minimum: bool,
    /// True if the maximum itself is excluded.
    pub exclusive_maximum: bool,
    /// The number must be a multiple of this.
    pub multiple_of: Option<f64>,
    /// The minimum number of characters.
    pub min_length: Option<u64>,
    /// The maximum number of characters.
    pub max_length: Option<u64>,
    /// The minimum number of items.
    pub min_items: Option<u64>,
    /// The maximum number of items.
    pub max_items: Option<u64>,
    /// The minimum number of fields.
    pub min_properties: Option<u64>,
    /// The maximum number of fields.
    pub max_properties: Option<u64>,
    /// Schemas that must all match.
    pub all_of: Vec<Schema>,
    /// Schemas of which at least one must match.
    pub any_of: Vec<Schema>,
    /// Schemas of which exactly one must match.
    pub one_of: Vec<Schema>,
    /// A schema that must not match.
    pub not: Option<Schema>,
}

/// The definitions for `$ref`s, each parsed at most once.
pub(super) struct Refs<'a> {
    definitions: Option<&'a Map<String, Value>>,
    read: BTreeMap<String, Option<Arc<Schema>>>,
}

impl<'a> Refs<'a> {
    /// Returns no definitions, as for a CustomResourceDefinition.
    pub(super) fn none() -> Refs<'static> {
        Refs { definitions: None, read: BTreeMap::new() }
    }

    /// Returns the definitions of an OpenAPI document.
    pub(super) fn new(definitions: &'a Map<String, Value>) -> Self {
        Self { definitions: Some(definitions), read: BTreeMap::new() }
    }

    /// Returns the schema of a definition. If a definition contains itself, the inner occurrence accepts anything.
    pub(super) fn definition(&mut self, name: &str) -> Arc<Schema> {
        if let Some(read) = self.read.get(name) {
            return read.clone().unwrap_or_else(|| Arc::new(Schema { preserve: true, ..Schema::default() }));
        }
        self.read.insert(name.to_owned(), None);
        let schema = self.definitions.and_then(|definitions| definitions.get(name));
        let mut schema = schema.map(|schema| Schema::read(schema, self)).unwrap_or_default();
        if let Some(checks) = schema.checks.as_mut().filter(|_| name.ends_with(".MicroTime")) {
            checks.format = super::format::MICRO_TIME.into();
        }
        let schema = Arc::new(schema);
        self.read.insert(name.to_owned(), Some(schema.clone()));
        schema
    }

    fn is_builtin(&self) -> bool {
        self.definitions.is_some()
    }
}

impl Schema {
    /// Returns the schema of a field; `None` if the schema does not have it.
    pub fn field(&self, name: &str) -> Option<&Arc<Schema>> {
        self.properties.get(name).or(self.values.as_ref())
    }

    /// Parses an OpenAPI v3 schema, skipping invalid parts, because other checks report them.
    pub(super) fn read(value: &Value, refs: &mut Refs<'_>) -> Self {
        let flag = |word: &str| value.get(word).and_then(Value::as_bool).unwrap_or(false);
        let text = |word: &str| value.get(word).and_then(Value::as_str).unwrap_or_default();
        let texts = |word: &str| -> Vec<String> {
            let list = value.get(word).and_then(Value::as_array).into_iter().flatten();
            list.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let fields = value.get("properties").and_then(Value::as_object).into_iter().flatten();
        let mut properties: BTreeMap<_, _> =
            fields.map(|(name, field)| (name.clone(), Self::shared(field, refs))).collect();
        if flag("x-kubernetes-embedded-resource") {
            properties.insert("metadata".into(), metadata());
        }
        let values = match value.get("additionalProperties") {
            Some(Value::Bool(true)) => Some(Arc::new(Self { preserve: true, ..Self::default() })),
            Some(schema @ Value::Object(_)) => Some(Self::shared(schema, refs)),
            _ => None,
        };
        let int_or_string = flag("x-kubernetes-int-or-string") || text("format") == "int-or-string";
        let type_ = if int_or_string { Type::IntOrString } else { Type::named(text("type")) };
        // Built-in types with "object" and no fields accept anything: they are embedded objects, and JSON itself.
        let free = refs.is_builtin()
            && properties.is_empty()
            && values.is_none()
            && matches!(type_, Type::Object | Type::Any);
        Self {
            type_,
            nullable: flag("nullable"),
            default: value.get("default").cloned(),
            items: value
                .get("items")
                .filter(|items| items.is_object())
                .map(|items| Self::shared(items, refs)),
            list: match text("x-kubernetes-list-type") {
                "set" => ListType::Set,
                "map" => ListType::Map(texts("x-kubernetes-list-map-keys")),
                _ => ListType::Atomic,
            },
            atomic: text("x-kubernetes-map-type") == "atomic",
            preserve: free || flag("x-kubernetes-preserve-unknown-fields"),
            embedded: flag("x-kubernetes-embedded-resource"),
            required: texts("required"),
            checks: Checks::read(value, refs).map(Box::new),
            properties,
            values,
        }
    }

    fn shared(value: &Value, refs: &mut Refs<'_>) -> Arc<Self> {
        let reference = value
            .get("$ref")
            .and_then(Value::as_str)
            .or_else(|| value.pointer("/allOf/0/$ref").and_then(Value::as_str));
        match reference.and_then(|path| path.rsplit('/').next()) {
            Some(name) if refs.is_builtin() => match (refs.definition(name), value.get("default")) {
                (schema, None) => schema,
                (schema, Some(default)) => {
                    Arc::new(Self { default: Some(default.clone()), ..Self::clone(&schema) })
                }
            },
            _ => Arc::new(Self::read(value, refs)),
        }
    }
}

/// The largest integer that a float represents exactly (swag `maxJSONFloat`).
const EXACT: f64 = 9_007_199_254_740_991.0;

impl Type {
    fn named(name: &str) -> Self {
        match name {
            "object" => Self::Object,
            "array" => Self::Array,
            "string" => Self::String,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            _ => Self::Any,
        }
    }

    /// Returns the name in a schema; empty if no type is declared.
    pub fn name(self) -> &'static str {
        match self {
            Self::Any => "",
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::IntOrString => "integer,string",
        }
    }

    /// Returns true if a value has the type. A number without a fraction is an integer.
    pub(crate) fn admits(self, value: &Value) -> bool {
        let whole = |n: &serde_json::Number| {
            n.is_i64() || n.as_f64().is_some_and(|n| n.fract() == 0.0 && n.abs() <= EXACT)
        };
        match (self, value) {
            (Self::Any, _)
            | (Self::Object, Value::Object(_))
            | (Self::Array, Value::Array(_))
            | (Self::Number, Value::Number(_)) => true,
            (Self::String | Self::IntOrString, Value::String(_)) | (Self::Boolean, Value::Bool(_)) => true,
            (Self::Integer | Self::IntOrString, Value::Number(n)) => whole(n),
            (_, _) => false,
        }
    }
}

impl Checks {
    /// Parses the checks of a schema; returns `None` if it has no limits.
    fn read(value: &Value, refs: &mut Refs<'_>) -> Option<Self> {
        const WORDS: [&str; 18] = [
            "enum",
            "pattern",
            "format",
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "multipleOf",
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
            "minProperties",
            "maxProperties",
            "allOf",
            "anyOf",
            "oneOf",
            "not",
        ];
        if !WORDS.iter().any(|word| value.get(word).is_some()) {
            return None;
        }
        let number = |word: &str| value.get(word).and_then(Value::as_f64);
        let count = |word: &str| value.get(word).and_then(Value::as_u64);
        let flag = |word: &str| value.get(word).and_then(Value::as_bool).unwrap_or(false);
        let text = |word: &str| value.get(word).and_then(Value::as_str);
        let mut schemas = |word: &str| -> Vec<Schema> {
            let list = value.get(word).and_then(Value::as_array).into_iter().flatten();
            list.map(|schema| Schema::read(schema, refs)).collect()
        };
        let (all_of, any_of, one_of) = (schemas("allOf"), schemas("anyOf"), schemas("oneOf"));
        Some(Self {
            enumeration: value.get("enum").and_then(Value::as_array).cloned().unwrap_or_default(),
            pattern: text("pattern").and_then(|pattern| regex::Regex::new(pattern).ok()),
            format: text("format").unwrap_or_default().to_owned(),
            minimum: number("minimum"),
            maximum: number("maximum"),
            exclusive_minimum: flag("exclusiveMinimum"),
            exclusive_maximum: flag("exclusiveMaximum"),
            multiple_of: number("multipleOf"),
            min_length: count("minLength"),
            max_length: count("maxLength"),
            min_items: count("minItems"),
            max_items: count("maxItems"),
            min_properties: count("minProperties"),
            max_properties: count("maxProperties"),
            all_of,
            any_of,
            one_of,
            not: value.get("not").map(|schema| Schema::read(schema, refs)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_declared_field_precedes_additional_ones() {
        let any = Arc::new(Schema::default());
        let text = Arc::new(Schema { type_: Type::String, ..Schema::default() });
        let schema = Schema {
            properties: BTreeMap::from([("a".into(), text)]),
            values: Some(any),
            ..Schema::default()
        };
        assert_eq!(schema.field("a").map(|s| s.type_), Some(Type::String));
        assert_eq!(schema.field("b").map(|s| s.type_), Some(Type::Any));
    }
}
