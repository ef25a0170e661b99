//! What differs between two states of an object, for people.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use api::names::{APPLIED_DIGEST_ANNOTATION, CONFIG_REPO_ANNOTATION, LAST_APPLIED_ANNOTATION};
use engine::sync::is_secret;
use object::Object;

/// Most changed fields that are told of one object.
const MAX_FIELDS: usize = 100;
/// What is shown instead of the value of a Secret.
const HIDDEN: &str = "(hidden)";
/// Metadata that an API server writes.
const SERVER_METADATA: [&str; 8] = [
    "creationTimestamp",
    "generation",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
    "finalizers",
];

/// A field that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FieldChange {
    /// Its path, such as `spec.template.spec.containers[app].image`.
    pub path: String,
    /// Its value before; absent where there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// Its value after; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// The fields that differ between two states of an object, without those that an API server or a controller
/// writes. Values of Secrets are hidden.
pub(super) fn field_changes(before: &Object, after: &Object) -> Vec<FieldChange> {
    let mut found = Vec::new();
    compare("", Some(&content(before)), Some(&content(after)), &mut found);
    if is_secret(&after.gvk()) {
        for change in found.iter_mut().filter(|change| !change.path.starts_with("metadata.")) {
            for side in [&mut change.before, &mut change.after].into_iter().flatten() {
                *side = HIDDEN.into();
            }
        }
    }
    found.truncate(MAX_FIELDS);
    found
}

/// The part of an object that a commit decides.
fn content(object: &Object) -> Value {
    let mut object = object.clone();
    object.0.remove("status");
    let metadata = object.metadata_mut();
    metadata.retain(|field, _| !SERVER_METADATA.contains(&field.as_str()));
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        for ours in [CONFIG_REPO_ANNOTATION, APPLIED_DIGEST_ANNOTATION, LAST_APPLIED_ANNOTATION] {
            annotations.remove(ours);
        }
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    object.into_value()
}

fn compare(path: &str, before: Option<&Value>, after: Option<&Value>, found: &mut Vec<FieldChange>) {
    match (before, after) {
        (before, after) if before == after => {}
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            compare_fields(path, before, after, found)
        }
        (Some(Value::Array(before)), Some(Value::Array(after))) => {
            let (before, after) = match (named(before), named(after)) {
                (Some(before), Some(after)) => (before, after),
                _ => (numbered(before), numbered(after)),
            };
            for (item, value) in &before {
                compare(&format!("{path}[{item}]"), Some(value), after.get(item).copied(), found);
            }
            for (item, value) in after.iter().filter(|(item, _)| !before.contains_key(*item)) {
                compare(&format!("{path}[{item}]"), None, Some(value), found);
            }
        }
        (before, after) => {
            found.push(FieldChange { path: path.into(), before: before.cloned(), after: after.cloned() });
        }
    }
}

fn compare_fields(
    path: &str,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    found: &mut Vec<FieldChange>,
) {
    let new = after.iter().filter(|(field, _)| !before.contains_key(*field)).map(|(field, _)| field);
    for field in before.keys().chain(new) {
        let step = match field.contains(['.', '/', '[']) {
            true => format!("{path}[{field:?}]"),
            false if path.is_empty() => field.clone(),
            false => format!("{path}.{field}"),
        };
        compare(&step, before.get(field), after.get(field), found);
    }
}

/// The items of a list by their names, where all have one of their own.
fn named(items: &[Value]) -> Option<BTreeMap<String, &Value>> {
    let mut named = BTreeMap::new();
    for item in items {
        named.insert(item.get("name")?.as_str()?.to_owned(), item);
    }
    (named.len() == items.len()).then_some(named)
}

fn numbered(items: &[Value]) -> BTreeMap<String, &Value> {
    items.iter().enumerate().map(|(number, item)| (format!("{number:04}"), item)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(before: Value, after: Value, expected: &[&str]) {
        let object = |value| Object::from_value(value).unwrap();
        let changes = field_changes(&object(before), &object(after));
        let shown = |value: &Option<Value>| value.as_ref().map_or("none".to_owned(), Value::to_string);
        let lines: Vec<_> = changes
            .iter()
            .map(|change| format!("{}: {} to {}", change.path, shown(&change.before), shown(&change.after)))
            .collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_change_names_the_field_and_its_values() {
        check(
            json!({"kind": "A", "spec": {"list": [{"name": "a", "v": 1}, {"name": "b"}], "n": [1, 2]}}),
            json!({"kind": "A", "spec": {"list": [{"name": "c"}, {"name": "a", "v": 2}], "n": [1, 3, 4]}}),
            &[
                "spec.list[a].v: 1 to 2",
                "spec.list[b]: {\"name\":\"b\"} to none",
                "spec.list[c]: none to {\"name\":\"c\"}",
                "spec.n[0001]: 2 to 3",
                "spec.n[0002]: none to 4",
            ],
        );
    }

    #[test]
    fn what_the_api_server_and_we_write_is_no_change() {
        check(
            json!({"kind": "A", "metadata": {"name": "a", "uid": "1", "generation": 1}, "status": {"x": 1}}),
            json!({"kind": "A", "metadata": {"name": "a", "uid": "2", "annotations": {CONFIG_REPO_ANNOTATION: "a/b"}}}),
            &[],
        );
    }

    #[test]
    fn values_of_a_secret_are_hidden() {
        check(
            json!({"apiVersion": "v1", "kind": "Secret", "data": {"password": "YQ=="}}),
            json!({"apiVersion": "v1", "kind": "Secret", "data": {"password": "Yg==", "more": "Yg=="}}),
            &["data.password: \"(hidden)\" to \"(hidden)\"", "data.more: none to \"(hidden)\""],
        );
    }
}
