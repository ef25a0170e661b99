//! Checks values against schemas, with the messages of kube-apiserver.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use object::Object;

use super::FieldError;
use super::request_scope::RequestScope;
use super::schema::{Checks, ListType, Schema, Type};

/// Reports the errors of an object according to its schema; with `old`, only those that the update adds.
///
/// Unchanged values are tolerated, even if they are invalid (KEP-4008, ratcheting). Rules are not evaluated on an
/// object with an error that could break them.
pub(super) fn check(
    scope: &RequestScope,
    object: &Object,
    old: Option<&Object>,
    found: &mut Vec<FieldError>,
) {
    let version = scope.version();
    let mut errors = Errors { custom: scope.resource().is_custom(), found: std::mem::take(found) };
    errors.fields(&version.schema, &object.0, old.map(|old| &old.0), "");
    *found = errors.found;
    if let (true, Some(scale)) = (scope.resource().is_custom(), &version.scale) {
        super::scale::check(scale, object, found);
    }
    match &version.rules {
        Some(_) if found.iter().any(keeps_rules_away) => {
            let detail = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
            found.push(FieldError::invalid("<nil>", &Value::Null, detail));
        }
        Some(rules) => found.extend(rules.check(scope, object, old)),
        None => {}
    }
}

/// Returns true if an object with this error does not get its rules evaluated (apiextensions `hasBlockingErr`).
fn keeps_rules_away(error: &FieldError) -> bool {
    matches!(
        error.reason,
        "FieldValueNotSupported"
            | "FieldValueRequired"
            | "FieldValueTooLong"
            | "FieldValueTooMany"
            | "FieldValueTypeInvalid"
    )
}

/// Returns the errors of a single value, such as a default.
pub(super) fn check_value(schema: &Schema, value: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Errors { custom: true, found: Vec::new() };
    errors.value(schema, value, None, path);
    errors.found
}

type Fields = serde_json::Map<String, Value>;

struct Errors {
    custom: bool,
    found: Vec<FieldError>,
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Returns the type of a value, as used in messages.
fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The number of parts of a value, and its limits.
struct Size {
    least: Option<u64>,
    most: Option<u64>,
    found: usize,
    /// The word for the parts.
    what: &'static str,
}

impl Errors {
    fn value(&mut self, schema: &Schema, value: &Value, old: Option<&Value>, path: &str) {
        if old == Some(value) {
            return;
        }
        if value.is_null() && (schema.nullable || schema.type_ == Type::Any || !self.custom) {
            return;
        }
        if !schema.type_.admits(value) {
            if self.custom {
                let found = kind_of(value);
                let detail = format!("{path} in body must be of type {}: {found:?}", schema.type_.name());
                self.found.push(FieldError::type_invalid(path, found, detail));
                if let Some(checks) = schema.checks.as_ref().filter(|_| !value.is_null()) {
                    self.checks(checks, schema.type_, value, path);
                }
            }
            return;
        }
        if let Some(checks) = &schema.checks {
            self.checks(checks, schema.type_, value, path);
        }
        match value {
            Value::Object(fields) => self.fields(schema, fields, old.and_then(Value::as_object), path),
            Value::Array(items) => {
                self.unique(schema, items, path);
                if let Some(item_schema) = &schema.items {
                    let olds = by_keys(schema, old);
                    for (i, item) in items.iter().enumerate() {
                        let old = keys_of(schema, item).and_then(|keys| olds.get(&keys).copied());
                        self.value(item_schema, item, old, &format!("{path}[{i}]"));
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn fields(&mut self, schema: &Schema, fields: &Fields, old: Option<&Fields>, path: &str) {
        for name in schema.required.iter().filter(|name| fields.get(*name).is_none()) {
            if self.custom || is_required(path, name) {
                self.found.push(FieldError::required(join(path, name), ""));
            }
        }
        for (name, value) in fields {
            if let Some(field) = schema.field(name) {
                self.value(field, value, old.and_then(|old| old.get(name)), &join(path, name));
            }
        }
        if schema.embedded {
            self.embedded(fields, path);
        }
    }

    fn embedded(&mut self, fields: &Fields, path: &str) {
        for name in ["apiVersion", "kind"] {
            if fields.get(name).and_then(Value::as_str).is_none_or(str::is_empty) {
                self.found.push(FieldError::required(join(path, name), ""));
            }
        }
    }

    fn unique(&mut self, schema: &Schema, items: &[Value], path: &str) {
        if !self.custom {
            return;
        }
        let mut seen = BTreeSet::new();
        for (i, item) in items.iter().enumerate() {
            let identity = match &schema.list {
                ListType::Atomic => return,
                ListType::Set => item.clone(),
                ListType::Map(keys) => Value::Object(
                    keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone()))).collect(),
                ),
            };
            if !seen.insert(identity.to_string()) {
                self.found.push(FieldError::duplicate(format!("{path}[{i}]"), &identity));
            }
        }
    }

    fn checks(&mut self, checks: &Checks, type_: Type, value: &Value, path: &str) {
        if !checks.enumeration.is_empty() && !checks.enumeration.contains(value) {
            let supported: Vec<_> = checks
                .enumeration
                .iter()
                .map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_owned))
                .collect();
            self.found.push(FieldError::unsupported(path, value, supported.iter().map(String::as_str)));
        }
        match value {
            Value::String(text) => self.text(checks, text, path),
            Value::Number(number) => self.number(checks, type_, number, path),
            Value::Array(items) => {
                let (least, most) = (checks.min_items, checks.max_items);
                self.size(Size { least, most, found: items.len(), what: "items" }, path);
            }
            Value::Object(fields) => {
                let (least, most) = (checks.min_properties, checks.max_properties);
                self.size(Size { least, most, found: fields.len(), what: "properties" }, path);
            }
            Value::Null | Value::Bool(_) => {}
        }
        self.combinations(checks, value, path);
    }

    fn invalid(&mut self, path: &str, value: &Value, detail: String) {
        self.found.push(FieldError::invalid(path, value, detail));
    }

    fn text(&mut self, checks: &Checks, text: &str, path: &str) {
        let length = text.chars().count() as u64;
        // Only the first of these errors is reported.
        if let Some(most) = checks.max_length.filter(|most| length > *most) {
            self.found.push(FieldError::too_long(path, most));
        } else if let Some(least) = checks.min_length.filter(|least| length < *least) {
            self.invalid(path, &text.into(), format!("{path} in body should be at least {least} chars long"));
        } else if let Some(pattern) = checks.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
            self.invalid(path, &text.into(), format!("{path} in body should match '{pattern}'"));
        }
        if !super::format::is_valid(&checks.format, text) {
            let detail = format!("{path} in body must be of type {}: {text:?}", checks.format);
            self.found.push(FieldError::type_invalid(path, text, detail));
        }
    }

    fn number(&mut self, checks: &Checks, type_: Type, number: &serde_json::Number, path: &str) {
        let value = Value::Number(number.clone());
        let n = number.as_f64().unwrap_or_default();
        let (low, high) = (checks.minimum, checks.maximum);
        if let Some(bound) = low.filter(|low| n < *low || (checks.exclusive_minimum && n <= *low)) {
            let than = if checks.exclusive_minimum { "greater than" } else { "greater than or equal to" };
            self.invalid(path, &value, format!("{path} in body should be {than} {bound}"));
        }
        if let Some(bound) = high.filter(|high| n > *high || (checks.exclusive_maximum && n >= *high)) {
            let than = if checks.exclusive_maximum { "less than" } else { "less than or equal to" };
            self.invalid(path, &value, format!("{path} in body should be {than} {bound}"));
        }
        if let Some(step) = checks.multiple_of.filter(|step| *step != 0.0 && (n / step).fract() != 0.0) {
            self.invalid(path, &value, format!("{path} in body should be a multiple of {step}"));
        }
        if type_ == Type::Integer
            && checks.format == "int32"
            && number.as_i64().is_some_and(|n| i32::try_from(n).is_err())
        {
            self.invalid(
                path,
                &value,
                format!("Checked value must be of type integer with format int32 in {path}"),
            );
        }
    }

    fn size(&mut self, size: Size, path: &str) {
        let Size { least, most, found, what } = size;
        if let Some(most) = most.filter(|most| found as u64 > *most) {
            let mut error = FieldError::too_many(path, found, most);
            if what != "items" {
                error.message = format!("Too many: {found}: must have at most {most} {what}");
            }
            self.found.push(error);
        }
        if let Some(least) = least.filter(|least| (found as u64) < *least) {
            self.invalid(path, &found.into(), format!("{path} in body should have at least {least} {what}"));
        }
    }

    fn combinations(&mut self, checks: &Checks, value: &Value, path: &str) {
        let found = |schema: &Schema| check_value(schema, value, path);
        for schema in &checks.all_of {
            let errors = found(schema);
            self.found.extend(errors);
        }
        let holding = |schemas: &[Schema]| schemas.iter().filter(|schema| found(schema).is_empty()).count();
        if !checks.any_of.is_empty() && holding(&checks.any_of) == 0 {
            self.invalid("<nil>", &"".into(), format!("{path:?} must validate at least one schema (anyOf)"));
        }
        if !checks.one_of.is_empty() {
            let valid = holding(&checks.one_of);
            let which = if valid == 0 {
                "Found none valid".to_owned()
            } else {
                format!("Found {valid} valid alternatives")
            };
            if valid != 1 {
                self.invalid(
                    "<nil>",
                    &"".into(),
                    format!("{path:?} must validate one and only one schema (oneOf). {which}"),
                );
            }
        }
        if checks.not.as_ref().is_some_and(|not| found(not).is_empty()) {
            self.invalid("<nil>", &"".into(), format!("{path:?} must not validate the schema (not)"));
        }
    }
}

/// Returns true if a field is required. Built-in types mark every field that Go always writes as required, but the
/// server only requires those that a user has to set.
fn is_required(path: &str, name: &str) -> bool {
    let required = [
        "spec",
        "rules",
        "subjects",
        "webhooks",
        "handler",
        "provisioner",
        "value",
        "involvedObject",
        "template",
    ];
    let top = path.split(['.', '[']).next().unwrap_or_default();
    if name == "template" || (path, name) == ("spec", "request") {
        // The field is never absent in Go; the checks of its kind report its errors.
        return false;
    }
    if top.is_empty() {
        required.contains(&name) && !matches!(name, "spec" | "rules")
    } else {
        required.contains(&top)
    }
}

/// Returns the first list item for each identity.
fn by_keys<'v>(schema: &Schema, list: Option<&'v Value>) -> BTreeMap<String, &'v Value> {
    let items = list.and_then(Value::as_array).into_iter().flatten().rev();
    items.filter_map(|item| Some((keys_of(schema, item)?, item))).collect()
}

/// Returns the identity of a list item; `None` if the list has no keys.
fn keys_of(schema: &Schema, item: &Value) -> Option<String> {
    match &schema.list {
        ListType::Map(keys) => {
            Some(keys.iter().map(|key| Value::from(item.get(key).cloned()).to_string() + "\n").collect())
        }
        ListType::Set | ListType::Atomic => None,
    }
}
