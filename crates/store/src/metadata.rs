//! Validates the metadata that every object has.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use jiff::Timestamp;
use regex::Regex;
use serde_json::{Map, Value};

use object::names::{is_dns_label, is_dns_subdomain, label_value_fault, qualified_name_fault};
use object::{Object, ObjectRef};

use super::{ApiResource, FieldError, Generation, NameRule};

/// The maximum total size of an object's annotations, in bytes (apimachinery `TotalAnnotationSizeLimitB`).
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// The longest part of `generateName` that is used in a name (apiserver `maxGeneratedNameLength`).
pub(super) const GENERATED_NAME_LIMIT: usize = 63 - 5;

/// The finalizer of an owner that is deleted without its dependents.
pub(super) const ORPHAN: &str = "orphan";
/// The finalizer of an owner that is deleted after its dependents.
pub(super) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer that blocks the deletion of a definition until its objects are deleted.
pub(super) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
/// Formats a time like `metav1.Time`.
pub(super) fn time(now: Timestamp) -> Value {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into()
}

/// Keeps the fields that only the server sets, even if an update omits them.
pub(super) fn keep_system_fields(old: &Object, new: &mut Object) {
    for field in ["uid", "name", "namespace"] {
        if let Some(value) = old.at(&["metadata", field]) {
            let metadata = new.metadata_mut();
            if metadata.get(field).is_none_or(Value::is_null) {
                metadata.insert(field.into(), value.clone());
            }
        }
    }
    if new.at(&["metadata", "deletionTimestamp"]).is_none_or(Value::is_null) {
        match old.at(&["metadata", "deletionTimestamp"]) {
            Some(value) => new.metadata_mut().insert("deletionTimestamp".into(), value.clone()),
            None => new.metadata_mut().remove("deletionTimestamp"),
        };
    }
    for field in ["creationTimestamp", "generation", "deletionGracePeriodSeconds", "selfLink"] {
        match old.at(&["metadata", field]) {
            Some(value) => new.metadata_mut().insert(field.into(), value.clone()),
            None => new.metadata_mut().remove(field),
        };
    }
}

/// Removes empty maps and lists, which an API server does not store.
pub(super) fn tidy(object: &mut Object) {
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => text.is_empty(),
    };
    // An empty list of managers is a request to remove all of them.
    object
        .metadata_mut()
        .retain(|field, value| !empty(value) || (field == "managedFields" && value.is_array()));
}

/// Returns the errors in the metadata of an object.
pub(super) fn validate(resource: &ApiResource, object: &Object) -> Vec<FieldError> {
    let mut errors = Vec::new();
    validate_name(resource, object, &mut errors);
    let texts =
        |field: &str| object.at(&["metadata", field]).and_then(Value::as_object).cloned().unwrap_or_default();
    for (key, value) in texts("labels") {
        if let Some(detail) = qualified_name_fault(&key) {
            errors.push(FieldError::invalid("metadata.labels", &key.clone().into(), detail));
        }
        if let Some(detail) = label_value_fault(value.as_str().unwrap_or_default()) {
            errors.push(FieldError::invalid("metadata.labels", &value, detail));
        }
    }
    validate_annotations(&texts("annotations"), &mut errors);
    for (i, finalizer) in strings(object, "finalizers").iter().enumerate() {
        if let Some(detail) = qualified_name_fault(finalizer) {
            let value = finalizer.clone().into();
            errors.push(FieldError::invalid("metadata.finalizers", &value, detail));
            if !resource.is_custom() {
                errors.push(FieldError::invalid(format!("metadata.finalizers[{i}]"), &value, detail));
            }
        } else if !resource.is_custom()
            && !finalizer.contains('/')
            && !matches!(finalizer.as_str(), ORPHAN | FOREGROUND | "kubernetes" | CLEANUP)
        {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid(
                format!("metadata.finalizers[{i}]"),
                &finalizer.clone().into(),
                detail,
            ));
        }
    }
    let finalizers = strings(object, "finalizers");
    if finalizers.iter().any(|f| f == ORPHAN) && finalizers.iter().any(|f| f == FOREGROUND) {
        let detail = "finalizer \"orphan\" and \"foregroundDeletion\" cannot be both set";
        errors.push(FieldError::invalid("metadata.finalizers", &finalizers.into(), detail));
    }
    validate_owners(object, &mut errors);
    errors
}

fn validate_name(resource: &ApiResource, object: &Object, errors: &mut Vec<FieldError>) {
    static DNS_1035: LazyLock<Regex> =
        LazyLock::new(|| Regex::new("^[a-z]([-a-z0-9]*[a-z0-9])?$").expect("a constant pattern"));
    let name = object.name();
    if name.is_empty() {
        errors.push(FieldError::required("metadata.name", "name or generateName is required"));
        return;
    }
    let too_long = |limit: usize| (name.len() > limit).then(|| format!("must be no more than {limit} bytes"));
    let wrong = match resource.names {
        NameRule::Subdomain => too_long(253).or_else(|| (!is_dns_subdomain(name)).then(|| SUBDOMAIN.into())),
        NameRule::Label => too_long(63).or_else(|| (!is_dns_label(name)).then(|| LABEL.into())),
        NameRule::Label1035 => too_long(63).or_else(|| (!DNS_1035.is_match(name)).then(|| LABEL_1035.into())),
        NameRule::PathSegment if matches!(name, "." | "..") => Some(format!("may not be '{name}'")),
        NameRule::PathSegment => {
            ['/', '%'].into_iter().find(|c| name.contains(*c)).map(|c| format!("may not contain '{c}'"))
        }
    };
    if let Some(detail) = wrong {
        errors.push(FieldError::invalid("metadata.name", &name.into(), detail));
    }
}

fn validate_annotations(annotations: &Map<String, Value>, errors: &mut Vec<FieldError>) {
    for (key, detail) in
        annotations.keys().filter_map(|key| Some((key, qualified_name_fault(&key.to_lowercase())?)))
    {
        errors.push(FieldError::invalid("metadata.annotations", &key.clone().into(), detail));
    }
    let size: usize =
        annotations.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if size > ANNOTATIONS_LIMIT {
        errors.push(FieldError::too_long("metadata.annotations", ANNOTATIONS_LIMIT as u64));
    }
}

fn validate_owners(object: &Object, errors: &mut Vec<FieldError>) {
    let owners =
        object.at(&["metadata", "ownerReferences"]).and_then(Value::as_array).cloned().unwrap_or_default();
    let mut controllers = 0;
    for owner in &owners {
        let text = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default();
        if matches!((text("apiVersion"), text("kind")), ("v1" | "events.k8s.io/v1", "Event")) {
            let detail = format!("{}, Kind=Event is disallowed from being an owner", text("apiVersion"));
            errors.push(FieldError::invalid("metadata.ownerReferences", owner, detail));
        }
        for field in ["apiVersion", "kind", "name", "uid"] {
            if owner.get(field).and_then(Value::as_str).is_none_or(str::is_empty) {
                let path = format!("metadata.ownerReferences.{field}");
                errors.push(FieldError::invalid(
                    path,
                    &"".into(),
                    if field == "apiVersion" { "version must not be empty" } else { "must not be empty" },
                ));
            }
        }
        controllers += usize::from(owner.get("controller").and_then(Value::as_bool).unwrap_or(false));
    }
    if controllers > 1 {
        let detail = "Only one reference can have Controller set to true";
        errors.push(FieldError::invalid("metadata.ownerReferences", &owners.into(), detail));
    }
}

/// Returns the errors in a change of metadata from `old` to `new`.
pub(super) fn validate_update(old: &Object, new: &Object) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for field in ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp"] {
        let (before, after) = (old.at(&["metadata", field]), new.at(&["metadata", field]));
        if before != after {
            errors.push(FieldError::invalid(
                format!("metadata.{field}"),
                after.unwrap_or(&Value::Null),
                "field is immutable",
            ));
        }
    }
    if old.is_terminating() {
        let before: BTreeSet<String> = strings(old, "finalizers").into_iter().collect();
        let added: Vec<_> = strings(new, "finalizers").into_iter().filter(|f| !before.contains(f)).collect();
        if !added.is_empty() {
            let listed: Vec<_> = added.iter().map(|f| format!("{f:?}")).collect();
            let list = listed.join(", ");
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{list}}}"
            );
            errors.push(FieldError::forbidden("metadata.finalizers", detail));
        }
    }
    errors
}

/// Returns a list of strings from the metadata.
pub(super) fn strings(object: &Object, field: &str) -> Vec<String> {
    let list = object.at(&["metadata", field]).and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// An owner reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) object: ObjectRef,
    pub(super) uid: String,
    pub(super) blocks: bool,
}

/// Returns the owner references of an object. Only the kind of an owner shows whether it is cluster-scoped.
pub(super) fn owners(object: &Object) -> Vec<Owner> {
    let list = object.at(&["metadata", "ownerReferences"]).and_then(Value::as_array).into_iter().flatten();
    let text =
        |owner: &Value, field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    list.map(|owner| Owner {
        object: ObjectRef {
            gvk: object::Gvk::parse(&text(owner, "apiVersion"), &text(owner, "kind")),
            key: object::Key::namespaced(object.namespace(), text(owner, "name")),
        },
        uid: text(owner, "uid"),
        blocks: owner.get("blockOwnerDeletion").and_then(Value::as_bool).unwrap_or(false),
    })
    .collect()
}

/// Increases the generation after a change of the desired state. Changes to status and metadata do not count.
pub(super) fn bump_generation(rule: Generation, old: &Object, new: &mut Object) {
    let differs = |field: &str| old.0.get(field) != new.0.get(field);
    let mut fields = old
        .0
        .keys()
        .chain(new.0.keys())
        .filter(|field| !matches!(field.as_str(), "metadata" | "apiVersion" | "kind"));
    let changed = match rule {
        Generation::Never => return,
        Generation::Spec => fields.any(|field| field != "status" && differs(field)),
        Generation::All => fields.any(|field| differs(field)),
    };
    let generation = old.generation() + i64::from(changed);
    new.metadata_mut().insert("generation".into(), generation.into());
}
