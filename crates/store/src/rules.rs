//! CEL rules of custom resources (`x-kubernetes-validations`).

use kube_cel::{CompiledSchema, ErrorKind, RootContext, Validator, compile_schema};
use serde_json::Value;

use super::request_scope::RequestScope;
use super::{FieldError, cost};

thread_local! {
    // Registering the functions of Kubernetes takes longer than most rules; the registry itself cannot be
    // shared between threads.
    static VALIDATOR: Validator = Validator::new();
}

/// Compiled CEL rules of a schema.
pub struct Rules {
    compiled: CompiledSchema,
}

impl std::fmt::Debug for Rules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Rules")
    }
}

impl Rules {
    /// The rules of a schema; `None` where it has none.
    pub(super) fn compile(schema: &Value) -> Option<Self> {
        has_rules(schema).then(|| Self { compiled: compile_schema(schema) })
    }

    /// The problems that the rules find in an object, and in its change from `old`.
    pub(super) fn check(&self, scope: &RequestScope, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        if cost::steps(&self.compiled, object, old) > cost::BUDGET {
            let why = "validation failed due to running out of cost budget, no further validation rules will be run";
            return vec![FieldError::forbidden("<nil>", why)];
        }
        let resource = scope.resource();
        let root = RootContext {
            api_version: scope.api_version(),
            api_group: resource.group.clone(),
            kind: resource.kind.clone(),
        };
        let checked = VALIDATOR.with(|validator| {
            validator.validate_compiled_with_context(&self.compiled, object, old, Some(&root))
        });
        let errors = checked.err().map(kube_cel::ValidationErrors::into_vec).unwrap_or_default();
        errors.into_iter().map(|error| field_error(object, error)).collect()
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

fn field_error(object: &Value, error: kube_cel::ValidationError) -> FieldError {
    let value = at(object, &error.field_path).unwrap_or(object);
    let path = if error.field_path.is_empty() { "<nil>".to_owned() } else { error.field_path.clone() };
    let message = match error.kind {
        ErrorKind::ValidationFailure => error.message,
        _ => format!("rule {:?} cannot be evaluated: {}", error.rule, error.message),
    };
    match error.reason.as_deref() {
        Some("FieldValueForbidden") => FieldError::forbidden(path, message),
        Some("FieldValueRequired") => FieldError::required(path, &message),
        Some("FieldValueDuplicate") => FieldError::duplicate(path, value),
        // kube-apiserver 1.36 leaves the value out.
        _ => FieldError {
            reason: "FieldValueInvalid",
            field: path,
            message: format!("Invalid value: {message}"),
        },
    }
}

/// The value at a path like `spec.list[3].name`.
fn at<'v>(object: &'v Value, path: &str) -> Option<&'v Value> {
    path.split(['.', '[']).filter(|part| !part.is_empty()).try_fold(object, |value, part| {
        match part.strip_suffix(']') {
            Some(index) => value.get(index.parse::<usize>().ok()?),
            None => value.get(part),
        }
    })
}
