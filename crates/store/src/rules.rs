//! Evaluates the CEL rules of custom resources (`x-kubernetes-validations`).

use kube_cel::{CompiledSchema, ErrorKind, RootContext, Validator, compile_schema};
use serde_json::Value;

use object::Object;

use super::request_scope::RequestScope;
use super::{FieldError, cost};

thread_local! {
    // Registering the functions of Kubernetes takes longer than most rules, and threads cannot share the registry.
    static VALIDATOR: Validator = Validator::new();
}

/// The compiled CEL rules of a schema, without the parts that have no rules.
pub struct Rules {
    compiled: CompiledSchema,
}

impl std::fmt::Debug for Rules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Rules")
    }
}

impl Rules {
    /// Returns the rules of a schema; `None` if it has none.
    pub(super) fn compile(schema: &Value) -> Option<Self> {
        has_rules(schema).then(|| {
            let mut compiled = cel::with_stack_of_parser(|| compile_schema(schema));
            prune(&mut compiled);
            Self { compiled }
        })
    }

    /// Returns the errors that the rules report for an object, and for its change from `old`.
    pub(super) fn check(
        &self,
        scope: &RequestScope,
        object: &Object,
        old: Option<&Object>,
    ) -> Vec<FieldError> {
        let whole: (Value, Option<Value>);
        let mut ruled = Vec::new();
        if is_ruled(&self.compiled) {
            let value = |object: &Object| Value::Object(object.0.clone());
            whole = (value(object), old.map(value));
            let (rules, path) = (&self.compiled, String::new());
            ruled.push(Ruled { rules, value: &whole.0, old: whole.1.as_ref(), path });
        } else {
            for (name, value) in &object.0 {
                let Some(rules) = below(&self.compiled, name) else { continue };
                let old = old.and_then(|old| old.0.get(name));
                find(Ruled { rules, value, old, path: name.clone() }, &mut ruled);
            }
        }
        let steps: f64 = ruled.iter().map(|at| cost::steps(at.rules, at.value, at.old)).sum();
        if steps > cost::BUDGET {
            let detail = "validation failed due to running out of cost budget, no further validation rules will be run";
            return vec![FieldError::forbidden("<nil>", detail)];
        }
        let resource = scope.resource();
        let root = RootContext {
            api_version: scope.api_version(),
            api_group: resource.group.clone(),
            kind: resource.kind.clone(),
        };
        ruled.iter().flat_map(|at| at.check(&root)).collect()
    }
}

/// A value to which rules apply.
struct Ruled<'v> {
    rules: &'v CompiledSchema,
    value: &'v Value,
    /// The value before the update.
    old: Option<&'v Value>,
    /// The path in the object; empty at the root.
    path: String,
}

impl Ruled<'_> {
    fn check(&self, root: &RootContext) -> Vec<FieldError> {
        let root = self.path.is_empty().then_some(root);
        let checked = cel::evaluate(|| {
            let validate = |validator: &Validator| {
                validator.validate_compiled_with_context(self.rules, self.value, self.old, root)
            };
            Ok(VALIDATOR.with(validate))
        });
        match checked {
            Ok(Ok(())) => Vec::new(),
            Ok(Err(errors)) => errors.into_vec().into_iter().map(|error| self.error(error)).collect(),
            Err(detail) => {
                let path = if self.path.is_empty() { "<nil>" } else { &self.path };
                vec![FieldError::invalid(path, self.value, detail)]
            }
        }
    }

    fn error(&self, error: kube_cel::ValidationError) -> FieldError {
        let value = at(self.value, &error.field_path).unwrap_or(self.value);
        let path = match (self.path.as_str(), error.field_path.as_str()) {
            ("", "") => "<nil>".to_owned(),
            ("", below) => below.to_owned(),
            (here, below) if below.is_empty() || below.starts_with(['.', '[']) => format!("{here}{below}"),
            (here, below) => format!("{here}.{below}"),
        };
        let message = match error.kind {
            ErrorKind::ValidationFailure => error.message,
            _ => format!("rule {:?} cannot be evaluated: {}", error.rule, error.message),
        };
        match error.reason.as_deref() {
            Some("FieldValueForbidden") => FieldError::forbidden(path, message),
            Some("FieldValueRequired") => FieldError::required(path, &message),
            Some("FieldValueDuplicate") => FieldError::duplicate(path, value),
            // kube-apiserver 1.36 omits the value.
            _ => FieldError {
                reason: "FieldValueInvalid",
                field: path,
                message: format!("Invalid value: {message}"),
            },
        }
    }
}

/// Returns true if the schema has rules, including in its combinations.
fn is_ruled(schema: &CompiledSchema) -> bool {
    !schema.validations.is_empty()
        || [&schema.all_of, &schema.any_of, &schema.one_of].iter().any(|branches| !branches.is_empty())
}

/// Removes parts without rules, unless a rule reads them; returns whether anything is left.
fn prune(schema: &mut CompiledSchema) -> bool {
    if !schema.validations.is_empty() {
        return true;
    }
    for branches in [&mut schema.all_of, &mut schema.any_of, &mut schema.one_of] {
        branches.retain_mut(prune);
    }
    schema.properties.retain(|_, below| prune(below));
    schema.items.take_if(|below| !prune(below));
    schema.additional_properties.take_if(|below| !prune(below));
    is_ruled(schema)
        || !schema.properties.is_empty()
        || schema.items.is_some()
        || schema.additional_properties.is_some()
}

/// Returns the rules of a field.
fn below<'v>(rules: &'v CompiledSchema, name: &str) -> Option<&'v CompiledSchema> {
    let others = rules.additional_properties.as_deref().filter(|_| !rules.preserve_unknown_fields);
    rules.properties.get(name).or(others)
}

/// Finds the values with rules. The evaluation converts each of them to CEL with all its content, so parts that no
/// rule reads are omitted.
fn find<'v>(at: Ruled<'v>, found: &mut Vec<Ruled<'v>>) {
    if is_ruled(at.rules) {
        found.push(at);
        return;
    }
    let Ruled { rules, value, old, path } = at;
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let Some(rules) = below(rules, name) else { continue };
                let old = old.and_then(|old| old.get(name));
                find(Ruled { rules, value, old, path: format!("{path}.{name}") }, found);
            }
        }
        Value::Array(items) => {
            let Some(rules) = &rules.items else { return };
            for (i, value) in items.iter().enumerate() {
                let old = old.and_then(|old| old.get(i));
                find(Ruled { rules, value, old, path: format!("{path}[{i}]") }, found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn has_rules(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => {
            fields.contains_key("x-kubernetes-validations") || fields.values().any(has_rules)
        }
        Value::Array(items) => items.iter().any(has_rules),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Returns the value at a path, such as `spec.list[3].name`.
fn at<'v>(object: &'v Value, path: &str) -> Option<&'v Value> {
    path.split(['.', '[']).filter(|part| !part.is_empty()).try_fold(object, |value, part| {
        match part.strip_suffix(']') {
            Some(index) => value.get(index.parse::<usize>().ok()?),
            None => value.get(part),
        }
    })
}
