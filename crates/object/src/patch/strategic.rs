//! Applies strategic merge patches like the API server.
//!
//! The rules for each list come from a [`Position`]: the table of built-in kinds, or a schema. Without a rule,
//! lists are replaced and objects are merged, as in a JSON merge patch.
//!
//! The renderer does not use this, because kustomize's dialect prepends items, matches by all keys of a list, and
//! has fewer directives. The renderer has its own merge with its other transformers.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::builtin_lists::{PatchStrategy, Position};

const PATCH: &str = "$patch";
/// The directive that lists the only fields to keep, including fields of the patch.
pub const RETAIN_KEYS: &str = "$retainKeys";
/// The directive that removes values from a list, whose name follows.
pub const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
/// The directive that sets the order of a list, whose name follows.
pub const SET_ORDER: &str = "$setElementOrder/";

/// A strategic merge patch that cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StrategicError {
    /// `$patch` is not `merge`, `replace` or `delete`, or has a value that is not allowed here.
    #[error("{field}: $patch does not support {found} here")]
    UnknownDirective {
        /// The place, as a dotted path.
        field: String,
        /// The value, as JSON.
        found: String,
    },
    /// An item of a list that merges by key lacks the key.
    #[error("{field}: an item lacks {key:?}, which identifies the items of this list")]
    NoMergeKey {
        /// The list, as a dotted path.
        field: String,
        /// The key that its items need.
        key: String,
    },
    /// The value of a directive, or the items of a list, have the wrong shape.
    #[error("{field}: {reason}")]
    WrongShape {
        /// The place, as a dotted path.
        field: String,
        /// The expected value.
        reason: &'static str,
    },
}

type Result<T> = std::result::Result<T, StrategicError>;

/// Applies a strategic merge patch to an object with the schema at `at`.
///
/// # Errors
/// Returns [`StrategicError`] with the field of the patch that cannot be applied.
pub fn strategic_merge(
    original: Map<String, Value>,
    patch: Map<String, Value>,
    at: Position<'_>,
) -> Result<Map<String, Value>> {
    Merge { path: Vec::new() }.map(original, patch, at)
}

/// The walk over both documents, with the current path for errors.
struct Merge {
    path: Vec<String>,
}

impl Merge {
    fn map(
        &mut self,
        mut original: Map<String, Value>,
        mut patch: Map<String, Value>,
        at: Position<'_>,
    ) -> Result<Map<String, Value>> {
        match patch.remove(PATCH) {
            None => {}
            Some(Value::String(word)) if word == "merge" => {}
            Some(Value::String(word)) if word == "replace" => return Ok(patch),
            Some(Value::String(word)) if word == "delete" => return Ok(Map::new()),
            Some(found) => {
                return Err(StrategicError::UnknownDirective {
                    field: self.place(PATCH),
                    found: found.to_string(),
                });
            }
        }
        self.retain_keys(&mut original, &mut patch)?;
        self.ordered_lists(&mut original, &mut patch, at)?;
        for (field, value) in patch {
            if let Some(list) = field.strip_prefix(DELETE_FROM) {
                self.delete_from(&mut original, list, value)?;
            } else {
                self.path.push(field.clone());
                let merged = self.value(original.remove(&field), value, at.field(&field))?;
                self.path.pop();
                original.extend(merged.map(|merged| (field, merged)));
            }
        }
        Ok(original)
    }

    fn value(&mut self, original: Option<Value>, patch: Value, at: Position<'_>) -> Result<Option<Value>> {
        let strategy = at.patch_strategy();
        Ok(match (original, patch) {
            (_, Value::Null) => None,
            (Some(Value::Object(_)), Value::Object(patch)) if strategy.replace => Some(Value::Object(patch)),
            (Some(Value::Object(original)), Value::Object(patch)) => {
                Some(Value::Object(self.map(original, patch, at)?))
            }
            (Some(Value::Array(original)), Value::Array(patch)) if strategy.merge => {
                Some(Value::Array(self.list(original, patch, &strategy, at.items())?))
            }
            (Some(Value::Array(_)), Value::Array(patch)) => Some(Value::Array(patch)),
            (_, patch) => fresh(patch),
        })
    }

    /// Removes the fields that `$retainKeys` does not list.
    fn retain_keys(&self, original: &mut Map<String, Value>, patch: &mut Map<String, Value>) -> Result<()> {
        let Some(keys) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
        let keys = keys.as_array().ok_or_else(|| self.shape(RETAIN_KEYS, "must be a list of field names"))?;
        let keys: BTreeSet<&str> = keys.iter().filter_map(Value::as_str).collect();
        let is_named = |field: &str| {
            keys.contains(field) || field.starts_with(DELETE_FROM) || field.starts_with(SET_ORDER)
        };
        if patch.iter().any(|(field, value)| !value.is_null() && !is_named(field)) {
            return Err(self.shape(RETAIN_KEYS, "must name every other field that the patch sets"));
        }
        original.retain(|field, _| keys.contains(field.as_str()));
        Ok(())
    }

    fn delete_from(&self, original: &mut Map<String, Value>, list: &str, items: Value) -> Result<()> {
        let Value::Array(items) = items else {
            return Err(self.shape(list, "$deleteFromPrimitiveList must be a list"));
        };
        if let Some(Value::Array(current)) = original.get_mut(list) {
            let gone: BTreeSet<String> = items.iter().map(Value::to_string).collect();
            current.retain(|item| !gone.contains(&item.to_string()));
        }
        Ok(())
    }

    /// Merges each list that has a `$setElementOrder` directive, then sorts it into that order.
    fn ordered_lists(
        &mut self,
        original: &mut Map<String, Value>,
        patch: &mut Map<String, Value>,
        at: Position<'_>,
    ) -> Result<()> {
        let lists: Vec<String> =
            patch.keys().filter_map(|field| field.strip_prefix(SET_ORDER)).map(String::from).collect();
        for list in lists {
            let order = match patch.remove(&format!("{SET_ORDER}{list}")) {
                Some(Value::Array(order)) => order,
                Some(_) | None => return Err(self.shape(&list, "$setElementOrder must be a list")),
            };
            if matches!(patch.get(&list), Some(Value::Null)) {
                continue;
            }
            let items = patch.remove(&list);
            self.path.push(list.clone());
            let merged = self.ordered_list(original.get(&list), items, &order, at.field(&list))?;
            self.path.pop();
            original.extend(merged.map(|merged| (list, Value::Array(merged))));
        }
        Ok(())
    }

    fn ordered_list(
        &mut self,
        original: Option<&Value>,
        patch: Option<Value>,
        order: &[Value],
        at: Position<'_>,
    ) -> Result<Option<Vec<Value>>> {
        let strategy = at.patch_strategy();
        let before = match original {
            Some(Value::Array(items)) => Some(items.clone()),
            Some(_) => return Err(self.here("is not a list in the object")),
            None => None,
        };
        let patch = match patch {
            Some(Value::Array(items)) => Some(items),
            Some(_) => return Err(self.here("must be a list")),
            None => None,
        };
        self.check_order(patch.as_deref().unwrap_or_default(), order, strategy.merge_key)?;
        let merged = match (before.clone(), patch) {
            (None, None) => return Ok(None),
            (Some(before), None) => before,
            (None, Some(patch)) => patch.into_iter().filter_map(fresh).collect(),
            (Some(before), Some(patch)) if strategy.merge => {
                self.list(before, patch, &strategy, at.items())?
            }
            (Some(_), Some(patch)) => patch,
        };
        Ok(Some(in_order(merged, order, &before.unwrap_or_default(), strategy.merge_key)))
    }

    /// Checks that `$setElementOrder` lists all items of the patch, in the order of the patch.
    fn check_order(&self, patch: &[Value], order: &[Value], key: Option<&str>) -> Result<()> {
        if order.is_empty() {
            return Ok(());
        }
        let mut rest = order.iter();
        for item in patch.iter().filter(|item| item.get(PATCH).is_none()) {
            if !rest.any(|ordered| identity(ordered, key) == identity(item, key)) {
                return Err(self.here("the order of its items does not match $setElementOrder"));
            }
        }
        Ok(())
    }

    fn list(
        &mut self,
        original: Vec<Value>,
        patch: Vec<Value>,
        strategy: &PatchStrategy<'_>,
        at: Position<'_>,
    ) -> Result<Vec<Value>> {
        let objects = original.iter().chain(&patch).filter(|item| item.is_object()).count();
        match (objects, strategy.merge_key) {
            (0, key) => {
                let order = patch.clone();
                let mut seen = BTreeSet::new();
                let all = original.iter().cloned().chain(patch);
                let merged = all.filter(|item| seen.insert(item.to_string())).collect();
                Ok(in_order(merged, &order, &original, key))
            }
            (some, Some(key)) if some == original.len() + patch.len() => {
                self.list_of_maps(original, patch, key, at)
            }
            (_, Some(_)) => Err(self.here("mixes objects with other items")),
            (_, None) => Err(self.here("merges objects, but its schema names no key that tells them apart")),
        }
    }

    fn list_of_maps(
        &mut self,
        mut original: Vec<Value>,
        patch: Vec<Value>,
        key: &str,
        at: Position<'_>,
    ) -> Result<Vec<Value>> {
        let mut additions = Vec::new();
        let mut gone = BTreeSet::new();
        let mut replace = false;
        for item in patch {
            match item.get(PATCH) {
                None => additions.push(item),
                Some(Value::String(word)) if word == "replace" => replace = true,
                Some(Value::String(word)) if word == "delete" => {
                    let id = item.get(key).ok_or_else(|| self.no_key(key))?;
                    gone.insert(id.to_string());
                }
                Some(found) => {
                    return Err(StrategicError::UnknownDirective {
                        field: self.place(PATCH),
                        found: found.to_string(),
                    });
                }
            }
        }
        if replace {
            return Ok(additions);
        }
        original.retain(|item| item.get(key).is_none_or(|id| !gone.contains(&id.to_string())));
        let (before, order) = (original.clone(), additions.clone());
        let mut places = first_places(&original, Some(key));
        for item in additions {
            let id = item.get(key).ok_or_else(|| self.no_key(key))?.to_string();
            let place = *places.entry(Some(id)).or_insert(original.len());
            match (original.get_mut(place), item) {
                (Some(Value::Object(slot)), Value::Object(item)) => {
                    self.path.push(format!("[{key}={}]", item.get(key).unwrap_or(&Value::Null)));
                    *slot = self.map(std::mem::take(slot), item, at)?;
                    self.path.pop();
                }
                (_, item) => original.extend(fresh(item)),
            }
        }
        Ok(in_order(original, &order, &before, Some(key)))
    }

    fn place(&self, field: &str) -> String {
        let names = self.path.iter().map(String::as_str).chain([field]);
        names.collect::<Vec<_>>().join(".").replace(".[", "[")
    }

    fn here(&self, reason: &'static str) -> StrategicError {
        StrategicError::WrongShape { field: self.path.join(".").replace(".[", "["), reason }
    }

    fn shape(&self, field: &str, reason: &'static str) -> StrategicError {
        StrategicError::WrongShape { field: self.place(field), reason }
    }

    fn no_key(&self, key: &str) -> StrategicError {
        StrategicError::NoMergeKey { field: self.path.join(".").replace(".[", "["), key: key.into() }
    }
}

/// Returns a value of the patch that has no live counterpart. Nulls and directives are removed, because there is
/// nothing for them to change.
fn fresh(value: Value) -> Option<Value> {
    match value {
        Value::Object(fields) if fields.contains_key(PATCH) => None,
        Value::Object(fields) => {
            let is_directive = |field: &str| {
                field == RETAIN_KEYS || field.starts_with(DELETE_FROM) || field.starts_with(SET_ORDER)
            };
            let present =
                fields.into_iter().filter(|(field, value)| !value.is_null() && !is_directive(field));
            Some(Value::Object(present.filter_map(|(field, value)| Some((field, fresh(value)?))).collect()))
        }
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(fresh).collect())),
        value @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => Some(value),
    }
}

/// Returns the identity of an item: the value of its key, or the item itself.
fn identity<'a>(item: &'a Value, key: Option<&str>) -> Option<&'a Value> {
    match (item, key) {
        (Value::Object(fields), Some(key)) => fields.get(key),
        (item, _) => Some(item),
    }
}

/// Returns the index of the first item with each identity, so that a merge visits each item once. Identities are
/// JSON texts, because values have no order.
fn first_places(list: &[Value], key: Option<&str>) -> BTreeMap<Option<String>, usize> {
    let places = list.iter().enumerate().rev();
    places.map(|(place, item)| (identity(item, key).map(Value::to_string), place)).collect()
}

/// Sorts the items of `order` accordingly, and keeps the others at their places relative to them.
fn in_order(merged: Vec<Value>, order: &[Value], before: &[Value], key: Option<&str>) -> Vec<Value> {
    let (in_patch, in_original) = (first_places(order, key), first_places(before, key));
    let (mut patched, mut others) = (Vec::new(), Vec::new());
    for item in merged {
        let id = identity(&item, key).map(Value::to_string);
        let before = in_original.get(&id).copied();
        match in_patch.get(&id) {
            Some(place) => patched.push((*place, before, item)),
            None => others.push((before, item)),
        }
    }
    patched.sort_by_key(|(place, ..)| *place);
    others.sort_by_key(|(before, _)| before.unwrap_or(usize::MAX));
    let mut woven = Vec::with_capacity(patched.len() + others.len());
    let mut others = others.into_iter().peekable();
    for (_, right, item) in patched {
        let stood_before = |left: Option<usize>| left.zip(right).is_some_and(|(left, right)| left < right);
        while let Some((_, other)) = others.next_if(|(left, _)| stood_before(*left)) {
            woven.push(other);
        }
        woven.push(item);
    }
    woven.extend(others.map(|(_, other)| other));
    woven
}

#[cfg(test)]
mod tests;
