//! Human-readable differences between two states of an object.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use api::names::{
    APPLIED_DIGEST_ANNOTATION, CONFIG_FENCE_ANNOTATION, CONFIG_REPO_ANNOTATION, LAST_APPLIED_ANNOTATION,
};
use engine::report::secrets::{self, HIDDEN, holds_secret};
use object::Object;

/// Maximum number of changed fields listed per object.
const MAX_FIELDS: usize = 100;
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

/// Annotations that record what was applied. They change with every commit and say nothing about its content.
const OUR_ANNOTATIONS: [&str; 4] =
    [CONFIG_REPO_ANNOTATION, APPLIED_DIGEST_ANNOTATION, LAST_APPLIED_ANNOTATION, CONFIG_FENCE_ANNOTATION];

/// A field that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FieldChange {
    /// The field's path, such as `spec.template.spec.containers[name=app].image`.
    pub path: String,
    /// The value before; absent if the field did not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// The value after; absent if the field no longer exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// The position of a value in an object.
#[derive(Default)]
struct FieldContext {
    path: String,
    /// True if the value belongs to a Secret.
    is_hidden: bool,
}

/// Returns the fields that differ between two states of an object, except fields written by an API server or a
/// controller. Values of Secrets are hidden, even if the Secret is nested in another object.
pub(super) fn field_changes(before: &Object, after: &Object) -> Vec<FieldChange> {
    let mut found = Vec::new();
    compare(&FieldContext::default(), Some(&content(before)), Some(&content(after)), &mut found);
    found.truncate(MAX_FIELDS);
    found
}

/// Returns the part of an object that a commit determines.
fn content(object: &Object) -> Value {
    let mut object = object.clone();
    object.0.remove("status");
    let metadata = object.metadata_mut();
    metadata.retain(|field, _| !SERVER_METADATA.contains(&field.as_str()));
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        for ours in OUR_ANNOTATIONS {
            annotations.remove(ours);
        }
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    object.into_value()
}

fn compare(
    context: &FieldContext,
    before: Option<&Value>,
    after: Option<&Value>,
    found: &mut Vec<FieldChange>,
) {
    match (before, after) {
        (before, after) if before == after => {}
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            compare_fields(context, before, after, found)
        }
        (Some(Value::Array(before)), Some(Value::Array(after))) => {
            let (before, after) = match (named(before), named(after)) {
                (Some(before), Some(after)) => (before, after),
                _ => (numbered(before), numbered(after)),
            };
            let new = after.keys().filter(|item| !before.contains_key(*item));
            for item in before.keys().chain(new) {
                let context = FieldContext { path: format!("{}[{item}]", context.path), ..*context };
                compare(&context, before.get(item).copied(), after.get(item).copied(), found);
            }
        }
        (before, after) => {
            let shown = |value| shown(value, context.is_hidden);
            found.push(FieldChange {
                path: context.path.clone(),
                before: before.map(shown),
                after: after.map(shown),
            });
        }
    }
}

fn compare_fields(
    context: &FieldContext,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    found: &mut Vec<FieldChange>,
) {
    let new = after.keys().filter(|field| !before.contains_key(*field));
    for field in before.keys().chain(new) {
        let path = match field.contains(['.', '/', '[']) {
            true => format!("{}[{field:?}]", context.path),
            false if context.path.is_empty() => field.clone(),
            false => format!("{}.{field}", context.path),
        };
        let is_of_secret = [before, after].into_iter().any(|fields| secrets::is_hidden(fields, field));
        let is_hidden = context.is_hidden || is_of_secret;
        compare(&FieldContext { path, is_hidden }, before.get(field), after.get(field), found);
    }
}

/// Returns a value with the values of Secrets hidden.
fn shown(value: &Value, is_hidden: bool) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(field, value)| {
                let is_hidden = is_hidden || secrets::is_hidden(fields, field);
                (field.clone(), shown(value, is_hidden))
            });
            fields.collect()
        }
        Value::Array(items) => items.iter().map(|item| shown(item, is_hidden)).collect(),
        Value::String(text) if holds_secret(text) => HIDDEN.into(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) if is_hidden => HIDDEN.into(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// A list item: its name, or its index if not all items have a unique name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ListItem<'a> {
    Number(usize),
    Name(&'a str),
}

impl std::fmt::Display for ListItem<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Name(name) => write!(f, "name={name}"),
        }
    }
}

/// Returns the items of a list by name if all have a unique name.
fn named(items: &[Value]) -> Option<BTreeMap<ListItem<'_>, &Value>> {
    let mut named = BTreeMap::new();
    for item in items {
        named.insert(ListItem::Name(item.get("name")?.as_str()?), item);
    }
    (named.len() == items.len()).then_some(named)
}

fn numbered(items: &[Value]) -> BTreeMap<ListItem<'_>, &Value> {
    items.iter().enumerate().map(|(number, item)| (ListItem::Number(number), item)).collect()
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
                "spec.list[name=a].v: 1 to 2",
                "spec.list[name=b]: {\"name\":\"b\"} to none",
                "spec.list[name=c]: none to {\"name\":\"c\"}",
                "spec.n[1]: 2 to 3",
                "spec.n[2]: none to 4",
            ],
        );
    }

    #[test]
    fn fields_that_the_api_server_or_the_operator_writes_are_not_changes() {
        check(
            json!({"kind": "A", "metadata": {"name": "a", "uid": "1", "generation": 1}, "status": {"x": 1}}),
            json!({"kind": "A", "metadata": {"name": "a", "uid": "2", "annotations": {CONFIG_REPO_ANNOTATION: "a/b", CONFIG_FENCE_ANNOTATION: "c"}}}),
            &[],
        );
    }

    fn secret(password: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Secret", "data": {"password": password}})
    }

    /// Returns an object of each kind that holds manifests, filled with the given ones, and the path to the
    /// manifests.
    fn carriers(manifests: &Value) -> Vec<(Value, &'static str)> {
        let workload = json!({"workload": {"manifests": manifests}});
        vec![
            (json!({"kind": "ManifestWork", "spec": workload}), "spec.workload.manifests"),
            (
                json!({"kind": "ManifestWorkReplicaSet", "spec": {"manifestWorkTemplate": workload}}),
                "spec.manifestWorkTemplate.workload.manifests",
            ),
            (
                json!({"kind": "AddOnTemplate", "spec": {"agentSpec": workload}}),
                "spec.agentSpec.workload.manifests",
            ),
        ]
    }

    fn check_carriers(before: &Value, after: &Value, expected: &[&str]) {
        for ((before, path), (after, _)) in carriers(before).into_iter().zip(carriers(after)) {
            let expected: Vec<_> = expected.iter().map(|line| format!("{path}{line}")).collect();
            check(before, after, &expected.iter().map(String::as_str).collect::<Vec<_>>());
        }
    }

    #[test]
    fn values_of_a_secret_are_hidden() {
        check(
            secret("YQ=="),
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"labels": {"a": "b"}},
                "data": {"password": "Yg==", "more": "Yg=="}, "stringData": {"token": "c"}}),
            &[
                "data.password: \"(hidden)\" to \"(hidden)\"",
                "data.more: none to \"(hidden)\"",
                "metadata.labels: none to {\"a\":\"b\"}",
                "stringData: none to {\"token\":\"(hidden)\"}",
            ],
        );
    }

    #[test]
    fn values_of_a_secret_inside_another_object_are_hidden() {
        let token =
            |token: &str| json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"token": token}});
        check_carriers(
            &json!([secret("YQ=="), token("a")]),
            &json!([secret("Yg=="), token("b")]),
            &[
                "[0].data.password: \"(hidden)\" to \"(hidden)\"",
                "[1].stringData.token: \"(hidden)\" to \"(hidden)\"",
            ],
        );
    }

    #[test]
    fn a_secret_that_enters_or_leaves_another_object_is_shown_without_its_values() {
        let hidden = secret(HIDDEN).to_string();
        let (none, one) = (json!([]), json!([secret("YQ==")]));
        check_carriers(&none, &one, &[&format!("[0]: none to {hidden}")]);
        check_carriers(&one, &none, &[&format!("[0]: {hidden} to none")]);
        check(
            json!({"kind": "ManifestWork"}),
            json!({"kind": "ManifestWork", "spec": {"manifests": one}}),
            &[&format!("spec: none to {{\"manifests\":[{hidden}]}}")],
        );
    }

    #[test]
    fn values_are_hidden_if_another_object_replaces_a_secret() {
        let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"password": "no"}});
        check_carriers(
            &json!([secret("YQ==")]),
            &json!([other]),
            &["[0].data.password: \"(hidden)\" to \"(hidden)\"", "[0].kind: \"Secret\" to \"ConfigMap\""],
        );
    }

    #[test]
    fn text_that_holds_a_secret_is_hidden() {
        let json = secret("YQ==").to_string();
        for text in [
            "kind: Secret\ndata: {password: YQ==}",
            "{{ if .on }}\n'kind' : \"Secret\"\n{{ end }}",
            &json,
            &Value::from(json.as_str()).to_string(),
        ] {
            check(
                json!({"kind": "ConfigMap", "data": {"a": "kind: ConfigMap"}}),
                json!({"kind": "ConfigMap", "data": {"a": text}}),
                &["data.a: \"kind: ConfigMap\" to \"(hidden)\""],
            );
        }
    }

    #[test]
    fn the_name_of_a_secret_is_shown() {
        check(
            json!({"kind": "A", "spec": {"ref": {"kind": "Secret", "name": "a"}}}),
            json!({"kind": "A", "spec": {"ref": {"kind": "Secret", "name": "b"}}}),
            &["spec.ref.name: \"a\" to \"b\""],
        );
    }
}
