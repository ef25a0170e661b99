//! Walks values to compute and apply field sets, like upstream's `typed` package.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{Element, FieldSet};
use crate::builtin_lists::{ListType, MapKey, MapType, Position};

/// The difference between two values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Fields that only the new value has.
    pub added: FieldSet,
    /// Fields that both have, with different values.
    pub modified: FieldSet,
    /// Fields that only the old value has.
    pub removed: FieldSet,
}

/// A value, split into separately owned parts.
enum Parts<'a> {
    /// One value: a scalar, or a list or map that is owned as a whole.
    Leaf,
    Map(&'a Map<String, Value>),
    /// Items with their identities, in list order.
    List(Vec<(Element, &'a Value)>),
}

fn parts<'a>(value: &'a Value, at: Position<'_>) -> Parts<'a> {
    match value {
        Value::Object(fields) if at.map_type() == MapType::Granular => Parts::Map(fields),
        Value::Array(items) => match at.list_type() {
            ListType::Atomic => Parts::Leaf,
            ListType::Set => {
                Parts::List(items.iter().map(|item| (Element::Value(item.to_string()), item)).collect())
            }
            ListType::Map(keys) => {
                Parts::List(items.iter().map(|item| (key_of(item, &keys), item)).collect())
            }
        },
        Value::Object(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Parts::Leaf,
    }
}

/// Returns the identity of a list item: its keys that are present or have a default.
pub(super) fn key_of(item: &Value, keys: &[MapKey<'_>]) -> Element {
    let field = |key: &MapKey<'_>| {
        item.get(key.name).filter(|value| !value.is_null()).or(key.default.as_ref()).cloned()
    };
    let fields: Map<_, _> = keys.iter().filter_map(|key| Some((key.name.to_owned(), field(key)?))).collect();
    Element::Key(Value::Object(fields).to_string())
}

fn child<'a>(at: Position<'a>, element: &Element) -> Position<'a> {
    match element {
        Element::Field(name) => at.field(name),
        Element::Key(_) | Element::Value(_) | Element::Index(_) => at.items(),
    }
}

/// Returns true if a field is a map entry rather than a declared field. Then the entry itself is owned, not only
/// its content.
fn is_entry(at: Position<'_>, name: &str) -> bool {
    match at {
        Position::Schema { schema, .. } => {
            schema.get("properties").and_then(|fields| fields.get(name)).is_none()
        }
        Position::Unknown | Position::Builtin(_) => false,
    }
}

/// Returns true if a list has two entries with the same key, or a set repeats a value.
pub(super) fn has_entry_twice(value: &Value, at: Position<'_>) -> bool {
    match parts(value, at) {
        Parts::Leaf => false,
        Parts::Map(fields) => fields.iter().any(|(name, value)| has_entry_twice(value, at.field(name))),
        Parts::List(items) => {
            let mut seen = BTreeSet::new();
            items.into_iter().any(|(key, item)| has_entry_twice(item, at.items()) || !seen.insert(key))
        }
    }
}

/// Returns the fields of a value, as an apply owns them.
pub(crate) fn set_of(value: &Value, at: Position<'_>) -> FieldSet {
    let mut set = FieldSet::default();
    match parts(value, at) {
        Parts::Leaf => {}
        Parts::Map(fields) => {
            for (name, value) in fields {
                let here = at.field(name);
                let empty = value.as_object().is_some_and(Map::is_empty);
                let member = matches!(parts(value, here), Parts::Leaf) || empty || is_entry(at, name);
                set.put(Element::Field(name.clone()), member, set_of(value, here));
            }
        }
        Parts::List(items) => {
            for (element, value) in items {
                set.put(element, true, set_of(value, at.items()));
            }
        }
    }
    set
}

/// Compares `old` with `new`.
pub fn compare(old: &Value, new: &Value, at: Position<'_>) -> Comparison {
    let mut comparison = Comparison::default();
    let mut path = Vec::new();
    Compare { path: &mut path, into: &mut comparison }.both(Some(old), Some(new), at);
    comparison
}

struct Compare<'p, 'c> {
    path: &'p mut Vec<Element>,
    into: &'c mut Comparison,
}

impl Compare<'_, '_> {
    fn both(&mut self, old: Option<&Value>, new: Option<&Value>, at: Position<'_>) {
        let old_parts = old.map(|old| children(old, at));
        let new_parts = new.map(|new| children(new, at));
        match (old_parts, new_parts) {
            (None, None) => {}
            // An absent side takes the form of the other. Two empty containers count as one value, so that null
            // and empty differ.
            (Some(Some(before)), Some(Some(after))) if before.is_empty() && after.is_empty() => {
                self.leaf(old, new)
            }
            (Some(Some(before)), Some(Some(after))) => self.children(&before, &after, at),
            (None, Some(Some(after))) if !after.is_empty() => {
                self.into.added.insert(self.path);
                self.children(&BTreeMap::new(), &after, at);
            }
            (Some(Some(before)), None) if !before.is_empty() => {
                self.into.removed.insert(self.path);
                self.children(&before, &BTreeMap::new(), at);
            }
            // A single value became a container, or vice versa. Null is an empty map or list.
            (Some(Some(before)), Some(None)) => {
                self.children(&before, &BTreeMap::new(), at);
                if before.is_empty() || !new.is_some_and(Value::is_null) {
                    self.leaf(old, new);
                }
            }
            (Some(None), Some(Some(after))) => {
                self.children(&BTreeMap::new(), &after, at);
                if after.is_empty() || !old.is_some_and(Value::is_null) {
                    self.leaf(old, new);
                }
            }
            (_, _) => self.leaf(old, new),
        }
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (None, Some(_)) => self.into.added.insert(self.path),
            (Some(_), None) => self.into.removed.insert(self.path),
            (Some(old), Some(new)) if old != new => self.into.modified.insert(self.path),
            (Some(_), Some(_)) | (None, None) => {}
        }
    }

    fn children(
        &mut self,
        before: &BTreeMap<Element, &Value>,
        after: &BTreeMap<Element, &Value>,
        at: Position<'_>,
    ) {
        let elements: BTreeSet<_> = before.keys().chain(after.keys()).collect();
        for element in elements {
            let (old, new) = (before.get(element).copied(), after.get(element).copied());
            if old == new {
                continue;
            }
            self.path.push(element.clone());
            self.both(old, new, child(at, element));
            self.path.pop();
        }
    }
}

/// Returns the parts of a value by identity; `None` if the value is owned as a whole.
fn children<'a>(value: &'a Value, at: Position<'_>) -> Option<BTreeMap<Element, &'a Value>> {
    match parts(value, at) {
        Parts::Leaf => None,
        Parts::Map(fields) => {
            Some(fields.iter().map(|(name, value)| (Element::Field(name.clone()), value)).collect())
        }
        Parts::List(items) => Some(items.into_iter().collect()),
    }
}

/// Merges `config` into `live`. Lists follow the order of `config` for its items.
pub fn merged(live: &Value, config: &Value, at: Position<'_>) -> Value {
    match (parts(live, at), parts(config, at)) {
        (Parts::Map(live), Parts::Map(config)) => {
            let mut fields = live.clone();
            for (name, value) in config {
                let value = match live.get(name) {
                    Some(old) => merged(old, value, at.field(name)),
                    None => value.clone(),
                };
                fields.insert(name.clone(), value);
            }
            Value::Object(fields)
        }
        (Parts::List(live), Parts::List(config)) => Value::Array(merged_list(live, config, at)),
        // Null is an empty map or list.
        (Parts::Map(_) | Parts::List(_), Parts::Leaf) if config.is_null() => live.clone(),
        (_, _) => config.clone(),
    }
}

/// Merges two lists in upstream's order. Items of `config` keep their order; items only in `live` come as early as
/// their neighbors allow.
fn merged_list(live: Vec<(Element, &Value)>, config: Vec<(Element, &Value)>, at: Position<'_>) -> Vec<Value> {
    let ours: BTreeMap<_, _> = live.iter().map(|(element, value)| (element.clone(), *value)).collect();
    let wanted: BTreeSet<_> = config.iter().map(|(element, _)| element.clone()).collect();
    let mut shared =
        config.iter().map(|(element, _)| element).filter(|element| ours.contains_key(*element)).peekable();
    let mut live = live.into_iter().peekable();
    let mut out = Vec::new();
    for (element, value) in &config {
        // Skips an item that has another place in `config`. The next shared item waits until `config` reaches it.
        while let Some((other, old)) = live.next_if(|(other, _)| shared.peek() != Some(&other)) {
            if !wanted.contains(&other) {
                out.push(old.clone());
            }
        }
        if shared.next_if_eq(&element).is_some() {
            live.next_if(|(other, _)| other == element);
        }
        out.push(match ours.get(element) {
            Some(old) => merged(old, value, at.items()),
            None => Value::clone(value),
        });
    }
    out.extend(live.filter(|(element, _)| !wanted.contains(element)).map(|(_, old)| old.clone()));
    out
}

/// Removes the fields of `last` from `value`, except those that a manager in `owned` still has.
///
/// Removing a field removes its content, unless a manager owns part of it. A map or list that loses its last part
/// this way becomes null, as in upstream's `removingWalker`.
pub fn without(value: &Value, last: &FieldSet, owned: &FieldSet, at: Position<'_>) -> Value {
    let stays = |element: &Element, value: &Value| match (last.at(element), owned.at(element)) {
        (None, _) => Some(value.clone()),
        (Some((member, _)), None) if member || matches!(element, Element::Field(_)) => None,
        (Some((_, below)), None) => Some(without(value, below, &FieldSet::default(), child(at, element))),
        (Some((_, below)), Some((_, owned))) => Some(without(value, below, owned, child(at, element))),
    };
    match parts(value, at) {
        Parts::Leaf => value.clone(),
        Parts::Map(fields) => {
            let stay = fields.iter().filter_map(|(name, value)| {
                Some((name.clone(), stays(&Element::Field(name.clone()), value)?))
            });
            let rest: Map<_, _> = stay.collect();
            if rest.len() < fields.len() && rest.is_empty() { Value::Null } else { rest.into() }
        }
        Parts::List(items) => {
            let count = items.len();
            let stay = items.into_iter().filter_map(|(element, value)| stays(&element, value));
            let rest: Vec<_> = stay.collect();
            if rest.len() < count && rest.is_empty() { Value::Null } else { rest.into() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin_lists::BUILTIN;
    use serde_json::json;

    fn service() -> Position<'static> {
        BUILTIN.root("v1", "Service")
    }

    #[test]
    fn an_apply_owns_leaves_and_items_but_not_the_objects_around_them() {
        let value = json!({"metadata": {"labels": {"a": "b"}, "annotations": {}}, "spec": {"selector": {"x": "y"},
            "ports": [{"port": 80}], "externalIPs": ["1.2.3.4"]}});
        let expected = [
            ".metadata.annotations",
            ".metadata.labels.a",
            ".spec.externalIPs",
            ".spec.ports[port=80,protocol=\"TCP\"]",
            ".spec.ports[port=80,protocol=\"TCP\"].port",
            ".spec.selector",
        ];
        assert_eq!(set_of(&value, service()).paths(), expected);
    }

    fn check(old: Value, new: Value, added: &[&str], modified: &[&str], removed: &[&str]) {
        let comparison = compare(&old, &new, service());
        assert_eq!(comparison.added.paths(), added, "added {old} {new}");
        assert_eq!(comparison.modified.paths(), modified, "modified {old} {new}");
        assert_eq!(comparison.removed.paths(), removed, "removed {old} {new}");
    }

    #[test]
    fn a_comparison_names_added_and_removed_containers() {
        check(
            json!({}),
            json!({"metadata": {"labels": {"a": "b"}}}),
            &[".metadata", ".metadata.labels", ".metadata.labels.a"],
            &[],
            &[],
        );
        check(
            json!({"metadata": {"labels": {"a": "b"}}}),
            json!({"metadata": {}}),
            &[],
            &[],
            &[".metadata.labels", ".metadata.labels.a"],
        );
        check(
            json!({"metadata": {"labels": {"a": "b"}}}),
            json!({"metadata": {"labels": {"a": "c"}}}),
            &[],
            &[".metadata.labels.a"],
            &[],
        );
        check(
            json!({"spec": {"ports": [{"port": 1}, {"port": 2}]}}),
            json!({"spec": {"ports": [{"port": 2}, {"port": 1}]}}),
            &[],
            &[],
            &[],
        );
        check(
            json!({"spec": {"selector": {"a": "b"}}}),
            json!({"spec": {"selector": {}}}),
            &[],
            &[".spec.selector"],
            &[],
        );
        check(json!({"spec": {}}), json!({"spec": {}}), &[], &[], &[]);
    }

    #[test]
    fn merging_keeps_what_the_configuration_does_not_say() {
        let live = json!({"spec": {"ports": [{"port": 1, "name": "a"}, {"port": 2}, {"port": 3}], "selector": {"a": "b"}, "type": "ClusterIP"}});
        let config = json!({"spec": {"ports": [{"port": 3, "name": "c"}, {"port": 4}, {"port": 1}], "selector": {"c": "d"}}});
        let expected = json!({"spec": {"ports": [{"port": 2}, {"port": 3, "name": "c"}, {"port": 4}, {"port": 1, "name": "a"}],
            "selector": {"c": "d"}, "type": "ClusterIP"}});
        assert_eq!(merged(&live, &config, service()), expected);
    }

    #[test]
    fn lists_merge_in_the_order_of_upstream() {
        let check = |live: &str, config: &str, expected: &str| {
            let list = |ports: &str| json!({"spec": {"ports": ports.bytes().map(|port| json!({ "port": port })).collect::<Vec<_>>()}});
            assert_eq!(merged(&list(live), &list(config), service()), list(expected), "{live} {config}");
        };
        check("abc", "ca", "bca");
        check("a", "b", "ab");
        check("abcd", "cea", "bcdea");
        check("abc", "", "abc");
        check("", "ab", "ab");
        check("ab", "axb", "axb");
        check("ab", "ba", "ba");
    }

    #[test]
    fn fields_are_removed_when_their_last_owner_drops_them() {
        let value = json!({"spec": {"ports": [{"port": 1, "name": "a"}, {"port": 2}], "type": "x"}, "metadata": {"labels": {"a": "b", "c": "d"}}});
        let last = set_of(
            &json!({"spec": {"ports": [{"port": 1, "name": "a"}]}, "metadata": {"labels": {"a": "b"}}}),
            service(),
        );
        let nobody = without(&value, &last, &FieldSet::default(), service());
        assert_eq!(nobody, Value::Null, "what is in a field goes with it, and nothing is left");
        let other = set_of(
            &json!({"spec": {"ports": [{"port": 2}], "type": "x"}, "metadata": {"labels": {"c": "d"}}}),
            service(),
        );
        let shared = without(&value, &last, &other, service());
        assert_eq!(
            shared,
            json!({"spec": {"ports": [{"port": 2}], "type": "x"}, "metadata": {"labels": {"c": "d"}}})
        );
        let around = [[Element::Field("spec".into())]].into_iter().collect();
        let emptied = without(
            &json!({"spec": {"type": "x"}}),
            &set_of(&json!({"spec": {"type": "x"}}), service()),
            &around,
            service(),
        );
        assert_eq!(emptied, json!({"spec": null}), "a map that another one owns stays, without a value");
    }
}
