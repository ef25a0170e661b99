//! Human-readable differences between two states of an object.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::report::secrets::{self, HIDDEN, holds_secret};
use api::names::{
    APPLIED_DIGEST_ANNOTATION, CONFIG_FENCE_ANNOTATION, CONFIG_REPO_ANNOTATION, LAST_APPLIED_ANNOTATION,
};
use object::Object;
use object::fields::{Element, FieldSet, Manager, Operation, Owners};

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

impl FieldChange {
    /// Returns the changes of the single values, if a map or a list is added or removed as a whole.
    fn parts(self) -> Vec<Self> {
        let (value, is_added) = match (&self.before, &self.after) {
            (None, Some(after)) => (after, true),
            (Some(before), None) => (before, false),
            (Some(_), Some(_)) | (None, None) => return vec![self],
        };
        let values: Vec<_> = match value {
            Value::Object(fields) => {
                fields.iter().map(|(field, value)| (field_path(&self.path, field), value.clone())).collect()
            }
            Value::Array(items) => {
                let items = named(items).unwrap_or_else(|| numbered(items)).into_iter();
                items.map(|(item, value)| (format!("{}[{item}]", self.path), value.clone())).collect()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
        };
        if values.is_empty() {
            return vec![self];
        }
        let part = |(path, value)| match is_added {
            true => Self { path, before: None, after: Some(value) },
            false => Self { path, before: Some(value), after: None },
        };
        values.into_iter().flat_map(|value| part(value).parts()).collect()
    }
}

/// The position of a value in an object.
#[derive(Default)]
struct FieldContext<'a> {
    path: String,
    /// True if the value belongs to a Secret.
    is_hidden: bool,
    /// The fields that the change removes if the new state does not have them.
    removable: Removable<'a>,
}

/// The fields below a position that a change removes.
#[derive(Clone, Copy, Default)]
enum Removable<'a> {
    /// All fields: the new state is complete.
    #[default]
    All,
    /// The fields of a set, and also the position itself if the flag is true.
    Owned(bool, &'a FieldSet),
    /// No fields, because they belong to others.
    None,
}

impl<'a> Removable<'a> {
    /// Returns the fields below a part of the value, which `entry` looks up in a set.
    fn below(self, entry: impl FnOnce(&'a FieldSet) -> Option<(bool, &'a FieldSet)>) -> Self {
        match self {
            Self::Owned(_, fields) if !fields.is_empty() => match entry(fields) {
                Some((is_member, below)) => Self::Owned(is_member, below),
                None => Self::None,
            },
            // A value that is owned as a whole.
            Self::All | Self::Owned(true, _) => Self::All,
            Self::None | Self::Owned(false, _) => Self::None,
        }
    }
}

/// Returns the fields that differ between two states of an object, except fields written by an API server or a
/// controller. Values of Secrets are hidden, even if the Secret is nested in another object.
pub fn field_changes(before: &Object, after: &Object) -> Vec<FieldChange> {
    let mut found = Vec::new();
    compare(&FieldContext::default(), Some(&content(before)), Some(&content(after)), &mut found);
    found.truncate(MAX_FIELDS);
    found
}

/// Returns the fields of a live object that an apply of `desired` changes, for a manager that applied the object
/// before. Fields of other managers and defaults stay. Values are hidden as in [`field_changes`].
pub fn changes_of_apply(live: &Object, desired: &Object, manager: &str) -> Vec<FieldChange> {
    let owners = Owners::read(live.at(&["metadata", "managedFields"]));
    let applied = owners.fields_of(&Manager::new(Operation::Apply, manager, desired));
    let own = applied.difference(&owners.applied_by_others(manager));
    let context = FieldContext { removable: Removable::Owned(false, &own), ..FieldContext::default() };
    let mut found = Vec::new();
    compare(&context, Some(&content(live)), Some(&content(desired)), &mut found);
    found.into_iter().flat_map(FieldChange::parts).collect()
}

/// Returns the fields of a new object, except those that identify it. Values are hidden as in [`field_changes`].
pub fn fields_of_new(object: &Object) -> Vec<FieldChange> {
    let after = content(object);
    let mut before = Map::new();
    for field in ["apiVersion", "kind"] {
        before.extend(after.get(field).map(|value| (field.to_owned(), value.clone())));
    }
    let identity = |field: &str| after.get("metadata")?.get(field).cloned();
    before.insert("metadata".into(), json!({"name": identity("name"), "namespace": identity("namespace")}));
    let context = FieldContext { removable: Removable::None, ..FieldContext::default() };
    let mut found = Vec::new();
    compare(&context, Some(&Value::Object(before)), Some(&after), &mut found);
    found.into_iter().flat_map(FieldChange::parts).collect()
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
    context: &FieldContext<'_>,
    before: Option<&Value>,
    after: Option<&Value>,
    found: &mut Vec<FieldChange>,
) {
    match (before, after) {
        (before, after) if before == after => {}
        // An API server drops a null.
        (None, Some(Value::Null)) => {}
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            compare_fields(context, before, after, found)
        }
        (Some(Value::Array(before)), Some(Value::Array(after))) => {
            compare_items(context, before, after, found)
        }
        (Some(before), None) => removed(context, before, found),
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

/// Adds what a change removes of a value that the new state does not have.
fn removed(context: &FieldContext<'_>, before: &Value, found: &mut Vec<FieldChange>) {
    match (context.removable, before) {
        (Removable::None, _) => {}
        // A map or a list of which only some parts are removed.
        (Removable::Owned(false, _), Value::Object(fields)) => {
            compare_fields(context, fields, &Map::new(), found);
        }
        (Removable::Owned(false, _), Value::Array(items)) => compare_items(context, items, &[], found),
        (Removable::All | Removable::Owned(..), before) => found.push(FieldChange {
            path: context.path.clone(),
            before: Some(shown(before, context.is_hidden)),
            after: None,
        }),
    }
}

fn compare_fields(
    context: &FieldContext<'_>,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    found: &mut Vec<FieldChange>,
) {
    let new = after.keys().filter(|field| !before.contains_key(*field));
    for field in before.keys().chain(new) {
        let is_of_secret = [before, after].into_iter().any(|fields| secrets::is_hidden(fields, field));
        let context = FieldContext {
            path: field_path(&context.path, field),
            is_hidden: context.is_hidden || is_of_secret,
            removable: context.removable.below(|owned| owned.at(&Element::Field(field.clone()))),
        };
        compare(&context, before.get(field), after.get(field), found);
    }
}

fn compare_items(
    context: &FieldContext<'_>,
    before: &[Value],
    after: &[Value],
    found: &mut Vec<FieldChange>,
) {
    let (before, after) = match (named(before), named(after)) {
        (Some(before), Some(after)) => (before, after),
        _ => (numbered(before), numbered(after)),
    };
    let new = after.keys().filter(|item| !before.contains_key(*item));
    for item in before.keys().chain(new) {
        let old = before.get(item).copied();
        let context = FieldContext {
            path: format!("{}[{item}]", context.path),
            removable: context.removable.below(|owned| owned.of_item(old?)),
            ..*context
        };
        compare(&context, old, after.get(item).copied(), found);
    }
}

/// Returns the path of a field of the value at a path.
fn field_path(path: &str, field: &str) -> String {
    match field.contains(['.', '/', '[']) {
        true => format!("{path}[{field:?}]"),
        false if path.is_empty() => field.to_owned(),
        false => format!("{path}.{field}"),
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

    fn check(before: Value, after: Value, expected: &[&str]) {
        let object = |value| Object::from_value(value).unwrap();
        assert_eq!(lines(&field_changes(&object(before), &object(after))), expected);
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

    /// Returns a Deployment that `manager` applied, with a default and a field of another manager.
    fn applied(fields: &Value) -> Object {
        let theirs = json!({"f:metadata": {"f:labels": {"f:theirs": {}, "f:shared": {}}}});
        let entry = |manager: &str, fields: &Value| {
            json!({"manager": manager, "operation": "Apply", "apiVersion": "apps/v1", "time": "2026-01-02T03:04:05Z",
                "fieldsType": "FieldsV1", "fieldsV1": fields})
        };
        let live = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "n", "uid": "1", "labels": {"own": "1", "theirs": "2", "shared": "3"},
                "managedFields": [entry("gitops", fields), entry("other", &theirs)]},
            "spec": {"replicas": 1, "paused": true, "revisionHistoryLimit": 10, "template": {"spec": {"containers": [
                {"name": "app", "image": "app:1", "imagePullPolicy": "Always"}, {"name": "log", "image": "log:1"}]}}},
            "status": {"replicas": 1}});
        Object::from_value(live).unwrap()
    }

    fn lines(changes: &[FieldChange]) -> Vec<String> {
        let shown = |value: &Option<Value>| value.as_ref().map_or("none".to_owned(), Value::to_string);
        let line =
            |one: &FieldChange| format!("{}: {} to {}", one.path, shown(&one.before), shown(&one.after));
        changes.iter().map(line).collect()
    }

    #[test]
    fn an_apply_changes_its_fields_and_keeps_defaults_and_those_of_others() {
        let item = |name: &str| {
            (format!("k:{{\"name\":\"{name}\"}}"), json!({".": {}, "f:image": {}, "f:name": {}}))
        };
        let containers: Map<String, Value> = [item("app"), item("log")].into_iter().collect();
        let owned = json!({"f:metadata": {"f:labels": {"f:own": {}, "f:shared": {}}}, "f:spec": {"f:paused": {}, "f:replicas": {},
            "f:template": {"f:spec": {"f:containers": containers}}}});
        let live = applied(&owned);
        let wanted = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "n", "annotations": {"note": "new"}},
            "spec": {"replicas": 3, "template": {"spec": {"containers": [{"name": "app", "image": "app:2"}]}}}});
        let wanted = Object::from_value(wanted).unwrap();
        assert_eq!(
            lines(&changes_of_apply(&live, &wanted, "gitops")),
            [
                "metadata.labels.own: \"1\" to none",
                "metadata.annotations.note: none to \"new\"",
                "spec.paused: true to none",
                "spec.replicas: 1 to 3",
                "spec.template.spec.containers[name=app].image: \"app:1\" to \"app:2\"",
                "spec.template.spec.containers[name=log].image: \"log:1\" to none",
                "spec.template.spec.containers[name=log].name: \"log\" to none",
            ]
        );
        // Without a record of the owners, nothing is known to be removed.
        assert_eq!(
            lines(&changes_of_apply(&applied(&json!({})), &wanted, "gitops")),
            [
                "metadata.annotations.note: none to \"new\"",
                "spec.replicas: 1 to 3",
                "spec.template.spec.containers[name=app].image: \"app:1\" to \"app:2\"",
            ]
        );
    }

    #[test]
    fn a_new_object_has_all_its_fields_but_its_name_and_no_value_of_a_secret() {
        let new = |value: Value| lines(&fields_of_new(&Object::from_value(value).unwrap()));
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "namespace": "n", "labels": {"x": "y"}, "annotations": null},
            "data": {"k": "1", "a.b": "2"}, "list": [{"name": "c"}], "empty": {}});
        assert_eq!(
            new(map),
            [
                "metadata.labels.x: none to \"y\"",
                "data[\"a.b\"]: none to \"2\"",
                "data.k: none to \"1\"",
                "empty: none to {}",
                "list[name=c].name: none to \"c\"",
            ]
        );
        assert_eq!(new(secret("YQ==")), ["data.password: none to \"(hidden)\""]);
        let (work, path) = carriers(&json!([secret("YQ==")])).swap_remove(0);
        assert!(new(work).contains(&format!("{path}[0].data.password: none to \"(hidden)\"")));
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
