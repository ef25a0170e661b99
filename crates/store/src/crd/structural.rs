//! Checks that the schemas of a definition are structural: a schema declares the type of every field, combinations
//! declare no types, and defaults are valid.
//!
//! See
//! <https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema>.

use kube_cel::cel::common::ast::IdedExpr;
use serde_json::{Map, Value};

use super::definition::{flag, list, text, texts};
use super::rule_cost;
use crate::schema::Refs;
use crate::{FieldError, Schema, validate};
use object::pattern::compile_within;

/// A schema as written.
type Fields = Map<String, Value>;

/// Checks the schemas of the versions of a definition.
pub(super) fn check_schemas(spec: &Value, errors: &mut Vec<FieldError>) {
    let schemas: Vec<_> = list(spec, "versions")
        .iter()
        .filter_map(|version| version.pointer("/schema/openAPIV3Schema"))
        .collect();
    let alike = schemas.windows(2).all(|pair| pair.first() == pair.last());
    for (i, schema) in schemas.iter().enumerate().take(if alike { 1 } else { schemas.len() }) {
        // If all versions have equal schemas, these move to the top, and so do their errors.
        let path = if alike {
            "spec.validation.openAPIV3Schema".to_owned()
        } else {
            format!("spec.versions[{i}].schema.openAPIV3Schema")
        };
        let mut check = Check { errors, cardinality: 1.0, cost: 0.0, patterns: MAX_PATTERNS };
        check.schema(schema, &path, At::Root);
        if check.cost > rule_cost::SCHEMA {
            check.forbidden(path, "the estimated cost of all rules of the schema exceeds the budget");
        }
    }
}

/// The limit for the compiled patterns of a schema, in bytes. They stay in memory.
const MAX_PATTERNS: usize = 64 << 20;

/// The position of a schema.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Root,
    Field,
    Item,
    /// Below the `metadata` of the root.
    Metadata,
    /// Inside `allOf`, `anyOf`, `oneOf` or `not`.
    Combination,
}

struct Check<'e> {
    errors: &'e mut Vec<FieldError>,
    /// The number of values of the schema that an object may contain.
    cardinality: f64,
    /// The total cost of the rules so far.
    cost: f64,
    /// The bytes left for compiled patterns.
    patterns: usize,
}

impl Check<'_> {
    fn required(&mut self, path: String, detail: &str) {
        self.errors.push(FieldError::required(path, detail));
    }

    fn forbidden(&mut self, path: String, detail: &str) {
        self.errors.push(FieldError::forbidden(path, detail));
    }

    fn schema(&mut self, value: &Value, path: &str, at: At) {
        let Some(schema) = value.as_object() else { return };
        for word in
            ["$ref", "definitions", "dependencies", "patternProperties", "additionalItems", "id", "$schema"]
        {
            if schema.contains_key(word) {
                self.forbidden(format!("{path}.{word}"), &format!("{word} is not supported"));
            }
        }
        if flag(value, "uniqueItems") {
            self.forbidden(
                format!("{path}.uniqueItems"),
                "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
            );
        }
        self.pattern(value, path);
        if at == At::Combination {
            self.combination(schema, path);
        } else {
            self.structure(value, path, at);
            self.lists(value, path);
            self.default(value, path);
            self.rules(value, path);
        }
        self.below(schema, value, path, at);
    }

    fn below(&mut self, schema: &Fields, value: &Value, path: &str, at: At) {
        let inside = if at == At::Combination { At::Combination } else { At::Field };
        for (name, field) in value.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let here = format!("{path}.properties[{name}]");
            if at == At::Root && name == "metadata" {
                self.metadata(field, &here);
            } else {
                self.schema(field, &here, inside);
            }
        }
        let item = if at == At::Combination { at } else { At::Item };
        for (word, at) in [("items", item), ("additionalProperties", inside)] {
            if let Some(part) = schema.get(word).filter(|part| !part.is_boolean()) {
                let here = self.cardinality;
                self.cardinality = rule_cost::cardinality(here, value, part);
                self.schema(part, &format!("{path}.{word}"), at);
                self.cardinality = here;
            }
        }
        for word in ["allOf", "anyOf", "oneOf"] {
            for (i, part) in list(value, word).iter().enumerate() {
                self.schema(part, &format!("{path}.{word}[{i}]"), At::Combination);
            }
        }
        if let Some(not) = schema.get("not") {
            self.schema(not, &format!("{path}.not"), At::Combination);
        }
    }

    /// Checks that the schema of `metadata` only restricts names.
    fn metadata(&mut self, schema: &Value, path: &str) {
        if text(schema, "type") != "object" {
            self.errors.push(FieldError::invalid(
                format!("{path}.type"),
                &text(schema, "type").into(),
                "must be object",
            ));
        }
        let fields = schema.get("properties").and_then(Value::as_object);
        if fields.into_iter().flatten().any(|(name, _)| !matches!(name.as_str(), "name" | "generateName")) {
            self.forbidden(
                path.to_owned(),
                "must not specify anything other than name and generateName, but metadata is implicitly specified",
            );
        }
        for (name, field) in fields.into_iter().flatten() {
            self.schema(field, &format!("{path}.properties[{name}]"), At::Metadata);
        }
    }

    fn structure(&mut self, value: &Value, path: &str, at: At) {
        let (type_, free) = (text(value, "type"), flag(value, "x-kubernetes-preserve-unknown-fields"));
        let int_or_string = flag(value, "x-kubernetes-int-or-string");
        match (type_, at) {
            ("", _) if value.get("$ref").is_some() => {}
            ("", At::Root) => self.required(format!("{path}.type"), "must not be empty at the root"),
            ("", At::Item) if !int_or_string && !free => {
                self.required(format!("{path}.type"), "must not be empty for specified array items")
            }
            ("", _) if !int_or_string && !free => {
                self.required(format!("{path}.type"), "must not be empty for specified object fields")
            }
            ("object", _) => {}
            (other, At::Root) => self.errors.push(FieldError::invalid(
                format!("{path}.type"),
                &other.into(),
                "must be object at the root",
            )),
            (other, _) if !matches!(other, "" | "array" | "string" | "integer" | "number" | "boolean") => {
                let known = ["array", "boolean", "integer", "number", "object", "string"];
                self.errors.push(FieldError::unsupported(
                    format!("{path}.type"),
                    &other.into(),
                    known.into_iter(),
                ));
            }
            (_, _) => {}
        }
        if type_ == "array" && value.get("items").is_none() {
            self.required(format!("{path}.items"), "must be specified");
        }
        if type_ == "null" || (type_.is_empty() && flag(value, "nullable") && !int_or_string && !free) {
            self.forbidden(format!("{path}.nullable"), "must be accompanied by a type");
        }
        if value.get("items").is_some_and(Value::is_array) {
            self.forbidden(format!("{path}.items"), "items must be a schema object and not an array");
        }
        let fields =
            value.get("properties").and_then(Value::as_object).is_some_and(|fields| !fields.is_empty());
        match value.get("additionalProperties") {
            Some(Value::Bool(false)) => self.forbidden(
                format!("{path}.additionalProperties"),
                "additionalProperties cannot be set to false",
            ),
            Some(_) if fields => self.forbidden(
                format!("{path}.additionalProperties"),
                "additionalProperties and properties are mutual exclusive",
            ),
            Some(_) if at == At::Root => {
                self.forbidden(format!("{path}.additionalProperties"), "must not be used at the root")
            }
            Some(_) | None => {}
        }
        if flag(value, "x-kubernetes-embedded-resource") && type_ != "object" {
            self.errors.push(FieldError::invalid(
                format!("{path}.type"),
                &type_.into(),
                "must be object if x-kubernetes-embedded-resource is true",
            ));
        }
        if flag(value, "x-kubernetes-embedded-resource") && !free && !fields {
            let detail = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
            self.required(format!("{path}.properties"), detail);
        }
    }

    fn pattern(&mut self, value: &Value, path: &str) {
        if let Some(pattern) = value.get("pattern").and_then(Value::as_str)
            && let Err(error) = compile_within(pattern, &mut self.patterns)
        {
            let detail = format!("must be a valid regular expression, but isn't: {error}");
            self.errors.push(FieldError::invalid(format!("{path}.pattern"), &pattern.into(), detail));
        }
    }

    /// Checks that a combination only restricts values, and declares no fields or defaults.
    fn combination(&mut self, schema: &Fields, path: &str) {
        for word in [
            "type",
            "default",
            "additionalProperties",
            "title",
            "description",
            "nullable",
            "x-kubernetes-preserve-unknown-fields",
        ] {
            let int_or_string = word == "type"
                && matches!(schema.get("type").and_then(Value::as_str), Some("integer" | "string"));
            if schema.contains_key(word) && !int_or_string {
                self.forbidden(format!("{path}.{word}"), "must be empty to be structural");
            }
        }
    }

    fn lists(&mut self, value: &Value, path: &str) {
        let (kind, keys, items) = (
            text(value, "x-kubernetes-list-type"),
            texts(value, "x-kubernetes-list-map-keys"),
            value.get("items"),
        );
        if !matches!(kind, "" | "atomic" | "set" | "map") {
            self.errors.push(FieldError::unsupported(
                format!("{path}.x-kubernetes-list-type"),
                &kind.into(),
                ["atomic", "set", "map"].into_iter(),
            ));
        }
        if !kind.is_empty() && text(value, "type") != "array" {
            let detail = "must be array if x-kubernetes-list-type is specified";
            self.errors.push(FieldError::invalid(
                format!("{path}.type"),
                &text(value, "type").into(),
                detail,
            ));
        }
        if kind == "map" && keys.is_empty() {
            self.required(
                format!("{path}.x-kubernetes-list-map-keys"),
                "must not be empty if x-kubernetes-list-type is map",
            );
        }
        if kind != "map" && !keys.is_empty() {
            let path = format!("{path}.x-kubernetes-list-type");
            self.errors.push(FieldError::invalid(
                path,
                &kind.into(),
                "must be map if x-kubernetes-list-map-keys is non-empty",
            ));
        }
        let Some(items) = items else { return };
        if kind == "map" && text(items, "type") != "object" {
            let detail = "must be object if parent array's x-kubernetes-list-type is map";
            self.errors.push(FieldError::invalid(
                format!("{path}.items.type"),
                &text(items, "type").into(),
                detail,
            ));
        }
        for (i, key) in keys.iter().enumerate() {
            let field = items.get("properties").and_then(|fields| fields.get(key));
            match field {
                None => {
                    let detail = "entries must all be names of item properties";
                    self.errors.push(FieldError::invalid(
                        format!("{path}.x-kubernetes-list-map-keys[{i}]"),
                        &key.clone().into(),
                        detail,
                    ));
                }
                Some(field) if field.get("default").is_none() && !texts(items, "required").contains(key) => {
                    let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
                    self.required(format!("{path}.items.properties[{key}].default"), detail);
                }
                Some(_) => {}
            }
        }
        let atomic = text(items, "x-kubernetes-map-type") == "atomic"
            || text(items, "x-kubernetes-list-type") == "atomic";
        if kind == "set" && matches!(text(items, "type"), "object" | "array") && !atomic {
            let detail = "forbidden to be granular if parent array's x-kubernetes-list-type is set; use x-kubernetes-map-type atomic";
            self.forbidden(format!("{path}.items.type"), detail);
        }
    }

    fn default(&mut self, value: &Value, path: &str) {
        let Some(default) = value.get("default") else { return };
        let schema = Schema::read(value, &mut Refs::none());
        for error in validate::check_value(&schema, default, "default") {
            let inner = error.field.strip_prefix("default").unwrap_or_default().to_owned();
            let message = error.message.replace(" default in body", &format!(" {path}.default in body"));
            self.errors.push(FieldError { field: format!("{path}.default{inner}"), message, ..error });
        }
    }

    fn rules(&mut self, value: &Value, path: &str) {
        for (i, rule) in list(value, "x-kubernetes-validations").iter().enumerate() {
            let path = format!("{path}.x-kubernetes-validations[{i}]");
            let expression = text(rule, "rule");
            if expression.trim().is_empty() {
                self.required(format!("{path}.rule"), "rule is not specified");
            } else if let Some(parsed) = self.expression(expression, format!("{path}.rule"), "") {
                let cost = rule_cost::of_rule(&parsed.expr, value) * self.cardinality;
                self.cost += cost;
                if cost > rule_cost::RULE {
                    let detail = "estimated rule cost exceeds budget; set maxItems, maxProperties and maxLength where arrays, maps and strings are used";
                    self.forbidden(format!("{path}.rule"), detail);
                }
            }
            if let Some(message) = rule.get("messageExpression").and_then(Value::as_str) {
                self.expression(message, format!("{path}.messageExpression"), "messageExpression ");
            }
            if rule.get("message").is_some() && text(rule, "message").trim().is_empty() {
                self.errors.push(FieldError::invalid(
                    format!("{path}.message"),
                    &text(rule, "message").into(),
                    "message must be non-empty if specified",
                ));
            }
            if expression.contains('\n') && text(rule, "message").is_empty() {
                self.required(
                    format!("{path}.message"),
                    "message must be specified if rule contains line breaks",
                );
            }
        }
    }
    fn expression(&mut self, source: &str, path: String, which: &str) -> Option<IdedExpr> {
        let failed =
            |error| FieldError::invalid(path, &source.into(), format!("{which}compilation failed: {error}"));
        cel::parse(source).map_err(|error| self.errors.push(failed(error))).ok()
    }
}
