use k8s_openapi::api::core::v1::Namespace;
use serde_json::json;

use crate::builtin::columns::{AGE, NAME, column, text};
use crate::builtin::{BuiltinKind, Subresource};
use crate::{FieldError, NameRule};
use object::Object;

pub(super) static KIND: BuiltinKind = BuiltinKind {
    short_names: &["ns"],
    has_status: true,
    names: NameRule::Label,
    has_collection_delete: false,
    selectable_fields: &["status.phase"],
    subresources: &[Subresource { name: "finalize", verbs: &["update"], other_kind: None }],
    unowned_fields: &["spec"],
    prepare_for_create: |_, object| {
        object.0.insert("spec".into(), json!({ "finalizers": ["kubernetes"] }));
        object.0.insert("status".into(), json!({ "phase": "Active" }));
        label(object);
    },
    prepare_for_update: |subresource, old, new| {
        if subresource.is_empty() {
            if let Some(spec) = old.0.get("spec") {
                new.0.insert("spec".into(), spec.clone());
            }
            label(new);
        }
    },
    validate_update: |_, new, errors| {
        let (phase, is_going) = (text(new, &["status", "phase"]), new.is_terminating());
        let (wanted, deleted) = if is_going { ("Terminating", "not empty") } else { ("Active", "empty") };
        if phase != wanted {
            let detail = format!("may only be '{wanted}' if `deletionTimestamp` is {deleted}");
            errors.push(FieldError::invalid("status.Phase", &phase.into(), detail));
        }
    },
    columns: &[NAME, column("Status", |o, _| text(o, &["status", "phase"]).into()), AGE],
    ..BuiltinKind::of::<Namespace>()
};

/// Adds the name of a namespace as a label.
fn label(namespace: &mut Object) {
    let name = namespace.name().to_owned();
    let labels = namespace.metadata_mut().entry("labels").or_insert_with(|| json!({}));
    if let Some(labels) = labels.as_object_mut() {
        labels.insert("kubernetes.io/metadata.name".into(), name.into());
    }
}
