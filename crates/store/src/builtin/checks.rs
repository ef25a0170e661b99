//! Checks that several kinds share, with kube-apiserver's messages.

use serde_json::Value;

use crate::FieldError;
use object::Object;

/// Reports a change to an immutable field.
pub(super) fn check_unchanged(
    old: Option<&Object>,
    new: &Object,
    path: &[&str],
    errors: &mut Vec<FieldError>,
) {
    let value = new.at(path);
    if old.is_some_and(|old| old.at(path) != value) {
        errors.push(FieldError::invalid(path.join("."), value.unwrap_or(&Value::Null), "field is immutable"));
    }
}

/// Reports a negative number.
pub(super) fn check_not_negative(object: &Object, path: &[&str], errors: &mut Vec<FieldError>) {
    if let Some(number) = object.at(path).filter(|number| number.as_i64().is_some_and(|n| n < 0)) {
        errors.push(FieldError::invalid(path.join("."), number, "must be greater than or equal to 0"));
    }
}

/// Reports data keys that are not valid file names.
pub(super) fn check_keys(object: &Object, fields: &[&str], errors: &mut Vec<FieldError>) {
    for field in fields {
        for key in object.0.get(*field).and_then(Value::as_object).into_iter().flatten().map(|(key, _)| key) {
            let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            if key.is_empty()
                || key.len() > 253
                || !key.chars().all(known)
                || matches!(key.as_str(), "." | "..")
            {
                let detail = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
                errors.push(FieldError::invalid(format!("{field}[{key}]"), &key.clone().into(), detail));
            }
        }
    }
}

/// Reports changes to an object that is marked as immutable.
pub(super) fn check_immutable(
    old: Option<&Object>,
    new: &Object,
    fields: &[&str],
    errors: &mut Vec<FieldError>,
) {
    let Some(old) = old.filter(|old| old.0.get("immutable") == Some(&Value::Bool(true))) else { return };
    if new.0.get("immutable") != Some(&Value::Bool(true)) {
        errors.push(FieldError::forbidden("immutable", "field is immutable when `immutable` is set"));
    }
    for field in fields.iter().filter(|field| old.0.get(**field) != new.0.get(**field)) {
        errors.push(FieldError::forbidden(*field, "field is immutable when `immutable` is set"));
    }
}

/// Reports webhooks, because this API server does not call them, and their authors would rely on it.
pub(super) fn refuse_webhooks(_: Option<&Object>, new: &Object, errors: &mut Vec<FieldError>) {
    if new.0.get("webhooks").and_then(Value::as_array).is_some_and(|webhooks| !webhooks.is_empty()) {
        let detail = "this API server does not call webhooks; use a ValidatingAdmissionPolicy";
        errors.push(FieldError::forbidden("webhooks", detail));
    }
}

/// Reports policies that change objects.
pub(super) fn refuse_mutations(_: Option<&Object>, _: &Object, errors: &mut Vec<FieldError>) {
    errors.push(FieldError::forbidden("spec", "this API server does not support MutatingAdmissionPolicies"));
}
