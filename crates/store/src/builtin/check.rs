//! What is wrong with objects of built-in kinds, beyond their schemas: the checks that clients meet in practice.

use serde_json::Value;

use crate::{FieldError, Resource};
use object::Object;

/// What is wrong with an object, or with its change from `old`.
pub(crate) fn check(resource: &Resource, old: Option<&Object>, new: &Object) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match (resource.group.as_str(), resource.kind.as_str()) {
        ("", "ConfigMap") => {
            check_keys(new, &["data", "binaryData"], &mut errors);
            check_immutable(old, new, &["data", "binaryData"], &mut errors);
        }
        ("", "Secret") => {
            check_keys(new, &["data"], &mut errors);
            check_immutable(old, new, &["data"], &mut errors);
            unchanged(old, new, &["type"], &mut errors);
        }
        ("", "Pod") => check_containers(new, "/spec", "spec", &mut errors),
        ("apps", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet") => {
            check_template(new, &mut errors);
            unchanged(old, new, &["spec", "selector"], &mut errors);
        }
        ("apps", "ControllerRevision") => unchanged(old, new, &["data"], &mut errors),
        ("batch", "Job") => unchanged(old, new, &["spec", "template"], &mut errors),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            if new.at(&["roleRef", "name"]).and_then(Value::as_str).is_none_or(str::is_empty) {
                errors.push(FieldError::required("roleRef.name", ""));
            }
            check_subjects(new, &mut errors);
            if old.is_some_and(|old| old.0.get("roleRef") != new.0.get("roleRef")) {
                let value = new.0.get("roleRef").cloned().unwrap_or_default();
                errors.push(FieldError::invalid("roleRef", &value, "cannot change roleRef"));
            }
        }
        ("certificates.k8s.io", "CertificateSigningRequest") => check_request(new, &mut errors),
        ("coordination.k8s.io", "Lease") => {
            if let Some(seconds) = new
                .at(&["spec", "leaseDurationSeconds"])
                .filter(|seconds| seconds.as_i64().is_some_and(|s| s <= 0))
            {
                errors.push(FieldError::invalid(
                    "spec.leaseDurationSeconds",
                    seconds,
                    "must be greater than 0",
                ));
            }
        }
        ("scheduling.k8s.io", "PriorityClass") => unchanged(old, new, &["value"], &mut errors),
        _ => {}
    }
    errors
}

fn unchanged(old: Option<&Object>, new: &Object, path: &[&str], errors: &mut Vec<FieldError>) {
    let value = new.at(path);
    if old.is_some_and(|old| old.at(path) != value) {
        errors.push(FieldError::invalid(path.join("."), value.unwrap_or(&Value::Null), "field is immutable"));
    }
}

fn check_keys(object: &Object, fields: &[&str], errors: &mut Vec<FieldError>) {
    for field in fields {
        for key in object.0.get(*field).and_then(Value::as_object).into_iter().flatten().map(|(key, _)| key) {
            let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            if key.is_empty()
                || key.len() > 253
                || !key.chars().all(known)
                || matches!(key.as_str(), "." | "..")
            {
                let why = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
                errors.push(FieldError::invalid(format!("{field}[{key}]"), &key.clone().into(), why));
            }
        }
    }
}

fn check_immutable(old: Option<&Object>, new: &Object, fields: &[&str], errors: &mut Vec<FieldError>) {
    let Some(old) = old.filter(|old| old.0.get("immutable") == Some(&Value::Bool(true))) else { return };
    if new.0.get("immutable") != Some(&Value::Bool(true)) {
        errors.push(FieldError::forbidden("immutable", "field is immutable when `immutable` is set"));
    }
    for field in fields.iter().filter(|field| old.0.get(**field) != new.0.get(**field)) {
        errors.push(FieldError::forbidden(*field, "field is immutable when `immutable` is set"));
    }
}

fn check_subjects(object: &Object, errors: &mut Vec<FieldError>) {
    for (i, subject) in object.0.get("subjects").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let text = |field: &str| subject.get(field).and_then(Value::as_str).unwrap_or_default();
        if text("name").is_empty() {
            errors.push(FieldError::required(format!("subjects[{i}].name"), ""));
        }
        let kinds = ["ServiceAccount", "User", "Group"];
        if !kinds.contains(&text("kind")) {
            errors.push(FieldError::unsupported(
                format!("subjects[{i}].kind"),
                &text("kind").into(),
                kinds.into_iter(),
            ));
        }
        if text("kind") == "ServiceAccount"
            && text("namespace").is_empty()
            && object.kind() == "ClusterRoleBinding"
        {
            errors.push(FieldError::required(format!("subjects[{i}].namespace"), ""));
        }
    }
}

fn check_template(object: &Object, errors: &mut Vec<FieldError>) {
    let empty = Value::Null;
    let labels = object.at(&["spec", "template", "metadata", "labels"]).unwrap_or(&empty);
    let wanted = object.at(&["spec", "selector", "matchLabels"]).and_then(Value::as_object);
    let differs = wanted.into_iter().flatten().any(|(key, value)| labels.get(key) != Some(value));
    let selector = object.at(&["spec", "selector"]).and_then(Value::as_object);
    if differs || selector.is_none_or(serde_json::Map::is_empty) {
        if selector.is_some_and(serde_json::Map::is_empty) {
            errors.push(FieldError::invalid(
                "spec.selector",
                &Value::Object(serde_json::Map::new()),
                "empty selector is invalid for deployment",
            ));
        }
        errors.push(FieldError::invalid(
            "spec.template.metadata.labels",
            labels,
            "`selector` does not match template `labels`",
        ));
    }
    check_containers(object, "/spec/template/spec", "spec.template.spec", errors);
}

fn check_containers(object: &Object, pointer: &str, path: &str, errors: &mut Vec<FieldError>) {
    let whole = object.0.get("spec").map(|spec| (spec, pointer.strip_prefix("/spec").unwrap_or(pointer)));
    let spec = whole.and_then(|(spec, rest)| spec.pointer(rest));
    let containers = spec.and_then(|spec| spec.get("containers")).and_then(Value::as_array);
    if containers.is_none_or(Vec::is_empty) {
        errors.push(FieldError::required(format!("{path}.containers"), ""));
    }
    let mut names = std::collections::BTreeSet::new();
    for (i, container) in containers.into_iter().flatten().enumerate() {
        let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
        if name.is_empty() {
            errors.push(FieldError::required(format!("{path}.containers[{i}].name"), ""));
        } else if !names.insert(name) {
            errors.push(FieldError::duplicate(format!("{path}.containers[{i}].name"), &name.into()));
        }
        if container.get("image").and_then(Value::as_str).is_none_or(str::is_empty) {
            errors.push(FieldError::required(format!("{path}.containers[{i}].image"), ""));
        }
    }
}

fn check_request(object: &Object, errors: &mut Vec<FieldError>) {
    use base64::Engine;
    let text = object.at(&["spec", "request"]).and_then(Value::as_str).unwrap_or_default();
    let decoded = base64::engine::general_purpose::STANDARD.decode(text).unwrap_or_default();
    if !decoded.starts_with(b"-----BEGIN CERTIFICATE REQUEST-----") {
        errors.push(FieldError::invalid(
            "spec.request",
            &text.into(),
            "PEM block type must be CERTIFICATE REQUEST",
        ));
    }
    let signer = object.at(&["spec", "signerName"]).and_then(Value::as_str).unwrap_or_default();
    if signer.split_once('/').is_none_or(|(domain, path)| !domain.contains('.') || path.is_empty()) {
        let why = "should be a fully qualified domain and path of the form 'example.com/signer-name'";
        errors.push(FieldError::invalid("spec.signerName", &signer.into(), why));
    }
    if object.at(&["spec", "usages"]).and_then(Value::as_array).is_none_or(Vec::is_empty) {
        errors.push(FieldError::required("spec.usages", "usages field may not be empty"));
    }
}
