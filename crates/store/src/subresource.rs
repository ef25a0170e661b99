//! Which part of an object a request may read and write.

use serde_json::{Map, Value};

use object::Object;

use super::read::Lens;
use super::{ApiError, FieldError};

/// Refuses a subresource that the version does not have.
pub(super) fn known(lens: &Lens, subresource: &str) -> Result<(), ApiError> {
    let resource = lens.resource();
    let known = match subresource {
        "" => true,
        "status" => lens.version().status,
        "scale" => lens.version().scale.is_some(),
        "approval" => resource.plural == "certificatesigningrequests",
        "finalize" => resource.plural == "namespaces" && resource.group.is_empty(),
        _ => false,
    };
    if known { Ok(()) } else { Err(ApiError::no_such_path()) }
}

/// What of `new` a write through a subresource may change: the rest comes from `old`.
pub(super) fn restrict(lens: &Lens, subresource: &str, old: &Object, mut new: Object) -> Object {
    match subresource {
        "" | "scale" => {
            if lens.version().status {
                take(&mut new, old, "status");
            }
            keep_decisions(lens, "", old, &mut new);
            new
        }
        "finalize" => only(old, &new, &["spec"]),
        _ => {
            let mut restricted = only(old, &new, &["status"]);
            keep_decisions(lens, subresource, old, &mut restricted);
            restricted
        }
    }
}

/// `old` with the given top-level fields, and the bookkeeping of this write, from `new`.
fn only(old: &Object, new: &Object, fields: &[&str]) -> Object {
    let mut restricted = old.clone();
    for field in fields {
        take(&mut restricted, new, field);
    }
    for field in ["resourceVersion", "managedFields"] {
        match new.at(&["metadata", field]) {
            Some(value) => restricted.metadata_mut().insert(field.into(), value.clone()),
            None => restricted.metadata_mut().remove(field),
        };
    }
    restricted
}

fn take(into: &mut Object, from: &Object, field: &str) {
    match from.0.get(field) {
        Some(value) => into.0.insert(field.into(), value.clone()),
        None => into.0.remove(field),
    };
}

const DECISIONS: [&str; 2] = ["Approved", "Denied"];

/// Signing requests: only `/approval` decides, and it does nothing else; the spec never changes.
fn keep_decisions(lens: &Lens, subresource: &str, old: &Object, new: &mut Object) {
    if lens.resource().plural != "certificatesigningrequests"
        || lens.resource().group != "certificates.k8s.io"
    {
        return;
    }
    take(new, old, "spec");
    let conditions = |object: &Object| {
        object.at(&["status", "conditions"]).and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let decides = |condition: &Value| {
        condition.get("type").and_then(Value::as_str).is_some_and(|t| DECISIONS.contains(&t))
    };
    let (before, after) = (conditions(old), conditions(new));
    let (decided, told) = if subresource == "approval" { (&after, &before) } else { (&before, &after) };
    let merged: Vec<_> =
        decided.iter().filter(|c| decides(c)).chain(told.iter().filter(|c| !decides(c))).cloned().collect();
    if subresource == "approval" {
        take(new, old, "status");
    }
    if merged.is_empty() {
        if let Some(status) = new.0.get_mut("status").and_then(Value::as_object_mut) {
            status.remove("conditions");
        }
        return;
    }
    let status = new.0.entry("status").or_insert_with(|| Value::Object(Map::new()));
    if let Some(status) = status.as_object_mut() {
        status.insert("conditions".into(), merged.into());
    }
}

/// A decision on a signing request is final, and it is one.
pub(super) fn check_decisions(lens: &Lens, old: &Object, new: &Object) -> Vec<FieldError> {
    if lens.resource().plural != "certificatesigningrequests" {
        return Vec::new();
    }
    let decisions = |object: &Object| -> Vec<String> {
        let conditions =
            object.at(&["status", "conditions"]).and_then(Value::as_array).cloned().unwrap_or_default();
        let types = conditions.iter().filter_map(|c| c.get("type").and_then(Value::as_str));
        types.filter(|t| DECISIONS.contains(t)).map(str::to_owned).collect()
    };
    let (before, after) = (decisions(old), decisions(new));
    let mut errors = Vec::new();
    if after.len() > 1 {
        let why = "Approved and Denied conditions are mutually exclusive";
        errors.push(FieldError::invalid("status.conditions", &after.into(), why));
    } else if before.iter().any(|decision| !after.contains(decision)) {
        let what = before.first().map(String::as_str).unwrap_or_default();
        errors.push(FieldError::forbidden(
            "status.conditions",
            format!("updates may not remove a condition of type {what:?}"),
        ));
    }
    errors
}
