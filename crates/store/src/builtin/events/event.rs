use k8s_openapi::api::events::v1::Event;
use serde_json::Value;

use crate::builtin::BuiltinKind;
use object::Object;

pub(super) static KIND: BuiltinKind = BuiltinKind {
    short_names: &["ev"],
    create_on_update: true,
    selectable_fields: &[
        "regarding.kind",
        "regarding.namespace",
        "regarding.name",
        "regarding.uid",
        "regarding.apiVersion",
        "regarding.resourceVersion",
        "regarding.fieldPath",
        "reason",
        "reportingController",
        "type",
    ],
    never_absent: &[
        ("regarding", "{}"),
        ("deprecatedSource", "{}"),
        ("deprecatedFirstTimestamp", "null"),
        ("deprecatedLastTimestamp", "null"),
        ("eventTime", "null"),
    ],
    stored_as: Some(("", "events")),
    convert: Some(convert),
    columns: crate::builtin::core::EVENT_COLUMNS,
    ..BuiltinKind::of::<Event>()
};

/// Field names in the core group and in `events.k8s.io`.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Converts an event to the field names of another group.
fn convert(event: &Object, api_version: &str) -> Result<Object, String> {
    let mut converted = event.clone();
    for (core, own) in NAMES {
        let (from, to) = if api_version == "v1" { (own, core) } else { (core, own) };
        if let Some(value) = converted.0.remove(from) {
            converted.0.insert(to.into(), value);
        }
    }
    for field in ["reportingComponent", "reportingController", "reportingInstance"] {
        // Only the core group shows these fields if they are empty.
        if api_version != "v1" && converted.0.get(field).and_then(Value::as_str) == Some("") {
            converted.0.remove(field);
        }
    }
    converted.0.insert("apiVersion".into(), api_version.into());
    Ok(converted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn field_names_survive_a_round_trip() {
        let core = json!({ "apiVersion": "v1", "kind": "Event", "message": "m", "reason": "R", "involvedObject": { "name": "x" } });
        let core = Object::from_value(core).unwrap();
        let own = convert(&core, "events.k8s.io/v1").unwrap();
        assert_eq!(
            (own.at(&["note"]), own.at(&["regarding", "name"]), own.at(&["message"])),
            (Some(&json!("m")), Some(&json!("x")), None)
        );
        assert_eq!(convert(&own, "v1").unwrap(), core);
    }
}
