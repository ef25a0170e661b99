//! Compares a live object with its applied configuration.
//!
//! There are two ways. `metadata.managedFields` is exact: a client that changes an applied field takes it from the
//! applier, and a value that the server stores in another form, such as a quantity, stays with the applier.
//! Without these entries, values are compared by the rules of the kind: the keys that identify list items, and the
//! maps that are atomic.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::Value;

use super::walk::{self, key_of, set_of};
use super::{Element, FieldSet, Owners};
use crate::Object;
use crate::builtin_lists::{BUILTIN, ListType, MapKey, MapType, Position};

/// The metadata that an applier can set. The rest identifies the object or belongs to the server.
const METADATA: [&str; 4] = ["annotations", "finalizers", "labels", "ownerReferences"];

/// Returns true if `live` is still as `manager` last applied it, with the configuration `desired`.
///
/// The caller has to know that `desired` was applied last, for example from a digest, because fields of an earlier
/// configuration are not detected. If `metadata.managedFields` has no entry of the manager in this `apiVersion`,
/// returns the result of [`covers`].
pub fn is_as_applied(live: &Object, desired: &Object, manager: &str) -> bool {
    let owners = Owners::read(live.at(&["metadata", "managedFields"]));
    let Some(owned) = owners.applied_by(manager, desired.api_version()) else {
        return covers(live, desired);
    };
    desired.0.iter().all(|(name, value)| match (name.as_str(), field(owned, name)) {
        ("apiVersion" | "kind", _) | ("status", None) => true,
        ("metadata", metadata) => {
            let settable = METADATA.iter().filter_map(|name| Some((*name, value.get(name)?)));
            settable.into_iter().all(|(name, value)| {
                is_empty(value) || metadata.is_some_and(|owned| owns_field(owned, name, value))
            })
        }
        (name, _) => owns_field(owned, name, value),
    })
}

/// Returns true if `live` has every value of `desired`. Other values do not matter.
///
/// If the API server stores a value in another form than it was sent, such as a quantity, the result is false.
pub fn covers(live: &Object, desired: &Object) -> bool {
    first_difference(live, desired).is_none()
}

/// Returns the path of the first field of `desired` that is absent or different in `live`.
pub fn first_difference(live: &Object, desired: &Object) -> Option<String> {
    let root = BUILTIN.root_of(&desired.gvk());
    desired.0.iter().find_map(|(name, value)| {
        // Metadata has the same fields in every kind, so any kind in the table will do.
        let parent = if name == "metadata" { BUILTIN.root("v1", "ConfigMap") } else { root };
        let path = field_difference(
            live.0.get(name),
            value,
            FieldContext { at: parent.field(name), in_atomic: false },
        )?;
        Some(format!("{name}{path}"))
    })
}

/// Returns true if a list in an object of a built-in kind has two entries with the same key, such as a duplicate
/// variable in `env`. Server-side apply rejects such a list; an update does not.
pub fn has_entry_twice(object: &Object) -> bool {
    let root = BUILTIN.root_of(&object.gvk());
    root.is_known() && object.0.iter().any(|(name, value)| walk::has_entry_twice(value, root.field(name)))
}

/// Returns the managers other than `manager` that own fields of `desired`, with the paths of these fields. They
/// changed a live object that `manager` had applied.
pub fn owned_by_others(live: &Object, desired: &Object, manager: &str) -> Vec<(String, Vec<String>)> {
    let owners = Owners::read(live.at(&["metadata", "managedFields"]));
    let wanted = set_of(&Value::Object(desired.0.clone()), BUILTIN.root_of(&desired.gvk()));
    let mine = owners.applied_by(manager, desired.api_version()).cloned().unwrap_or_default();
    let lost = wanted.difference(&mine);
    let others = owners.among(&lost).into_iter().filter(|(owner, _)| owner.name != manager);
    others.map(|(owner, fields)| (owner.name.clone(), fields.paths())).collect()
}

/// A place in an object, and whether it is inside an atomic value.
#[derive(Clone, Copy)]
struct FieldContext<'a> {
    at: Position<'a>,
    in_atomic: bool,
}

fn field_difference(live: Option<&Value>, desired: &Value, context: FieldContext<'_>) -> Option<String> {
    match live {
        _ if desired.is_null() => None,
        Some(live) => difference(live, desired, context),
        None => (!is_empty(desired)).then(String::new),
    }
}

/// Returns the path from here to the first difference; empty if this value itself differs.
fn difference(live: &Value, desired: &Value, context: FieldContext<'_>) -> Option<String> {
    let FieldContext { at, in_atomic } = context;
    let differs = |differs: bool| differs.then(String::new);
    match (live, desired) {
        (Value::Object(live), Value::Object(desired)) => {
            let is_atomic = in_atomic || at.map_type() == MapType::Atomic;
            if is_atomic && !at.has_declared_fields() {
                return differs(live != desired);
            }
            // The server may add defaults to an object with declared fields, even to an atomic one.
            desired.iter().find_map(|(name, value)| {
                let context = FieldContext { at: at.field(name), in_atomic: is_atomic };
                field_difference(live.get(name), value, context).map(|path| format!(".{name}{path}"))
            })
        }
        (Value::Array(live), Value::Array(desired)) => {
            let items = FieldContext { at: at.items(), in_atomic: false };
            match at.list_type() {
                ListType::Set => differs(!desired.iter().all(|item| live.contains(item))),
                ListType::Map(keys) => {
                    let (live, desired) = (by_key(live, &keys), by_key(desired, &keys));
                    let mut desired = desired.iter();
                    differs(!desired.all(|(key, desired)| {
                        live.get(key).is_some_and(|live| has_entries(live, desired, items))
                    }))
                }
                ListType::Atomic if live.len() != desired.len() => Some(String::new()),
                ListType::Atomic => live.iter().zip(desired).enumerate().find_map(|(i, (live, item))| {
                    difference(live, item, items).map(|path| format!("[{i}]{path}"))
                }),
            }
        }
        (live, desired) => differs(live != desired),
    }
}

/// Groups the entries of a keyed list by key, in list order.
fn by_key<'a>(items: &'a [Value], keys: &[MapKey<'_>]) -> BTreeMap<Element, Vec<&'a Value>> {
    let mut entries: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for item in items {
        entries.entry(key_of(item, keys)).or_default().push(item);
    }
    entries
}

/// Returns true if a list has the desired entries of one key. Only one of several entries takes effect, such as
/// the last of two variables, so several must be the same in the same order.
fn has_entries(live: &[&Value], desired: &[&Value], items: FieldContext<'_>) -> bool {
    let is_as = |live: &Value, desired: &Value| difference(live, desired, items).is_none();
    match desired {
        [desired] => live.iter().any(|live| is_as(live, desired)),
        several => {
            live.len() == several.len()
                && live.iter().zip(several).all(|(live, desired)| is_as(live, desired))
        }
    }
}

/// Returns true if API servers may drop the value instead of storing it.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn field<'a>(owned: &'a FieldSet, name: &str) -> Option<&'a FieldSet> {
    owned.at(&Element::Field(name.to_owned())).map(|(_, below)| below)
}

fn owns_field(owned: &FieldSet, name: &str, value: &Value) -> bool {
    let node = owned.at(&Element::Field(name.to_owned()));
    is_empty(value) || node.is_some_and(|(member, below)| owns(member, below, value))
}

/// Returns true if a set contains every part of a value. `member` and `below` are the set's entry for the value.
fn owns(member: bool, below: &FieldSet, value: &Value) -> bool {
    match value {
        _ if below.is_empty() => member,
        Value::Object(fields) => fields.iter().all(|(name, value)| owns_field(below, name, value)),
        Value::Array(items) => items.iter().all(|item| {
            let mut same = below.elements().filter(|(element, ..)| element.is_item(item));
            same.any(|(_, member, below)| owns(member, below, item))
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => member,
    }
}
