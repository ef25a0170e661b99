use k8s_openapi::api::core::v1::Event;
use serde_json::Value;

use crate::FieldError;
use crate::builtin::BuiltinKind;
use crate::builtin::columns::{NAME, PrinterColumn, age, column, or, text};

pub(super) static KIND: BuiltinKind = BuiltinKind {
    short_names: &["ev"],
    create_on_update: true,
    selectable_fields: &[
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ],
    never_absent: &[
        ("involvedObject", "{}"),
        ("source", "{}"),
        ("firstTimestamp", "null"),
        ("lastTimestamp", "null"),
        ("eventTime", "null"),
        ("reportingComponent", r#""""#),
        ("reportingInstance", r#""""#),
    ],
    validate: |_, new, errors| {
        // Events about cluster-scoped objects are in `default`.
        let found = new.at(&["involvedObject", "namespace"]).and_then(Value::as_str).unwrap_or_default();
        let fits = found == new.namespace() || (found.is_empty() && new.namespace() == "default");
        if !fits {
            let detail = "does not match event.namespace";
            errors.push(FieldError::invalid("involvedObject.namespace", &found.into(), detail));
        }
    },
    columns: COLUMNS,
    ..BuiltinKind::of::<Event>()
};

/// The columns for both groups that serve events.
pub(in crate::builtin) const COLUMNS: &[PrinterColumn] = &[
    column("Last Seen", |o, now| {
        let times = [&["lastTimestamp"], &["eventTime"], &["deprecatedLastTimestamp"]];
        age(
            times.into_iter().map(|path| text(o, path)).find(|time| !time.is_empty()).unwrap_or_default(),
            now,
        )
    }),
    column("Type", |o, _| text(o, &["type"]).into()),
    column("Reason", |o, _| text(o, &["reason"]).into()),
    column("Object", |o, _| {
        let of = |field| or(text(o, &["involvedObject", field]), text(o, &["regarding", field]));
        format!("{}/{}", of("kind").to_lowercase(), of("name")).into()
    }),
    column("Message", |o, _| or(text(o, &["message"]), text(o, &["note"])).trim().into()),
    PrinterColumn { priority: 1, ..NAME },
];
