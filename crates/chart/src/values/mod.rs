//! Values from files, `--set` and charts, and how they are merged.

mod coalesce;
mod set;

pub(crate) use coalesce::{coalesce_values, merge_tables, merge_values};
pub(crate) use set::set;

use crate::value::{Map, Value};

/// Merges a values file over another one: maps are merged, all other values are replaced.
pub(crate) fn merged(below: &Map, above: &Map) -> Map {
    let mut fields = below.borrow().clone();
    for (key, value) in above.snapshot() {
        let value = match (fields.get(&key), &value) {
            (Some(Value::Map(below)), Value::Map(above)) => Value::Map(merged(below, above)),
            _ => value,
        };
        fields.insert(key, value);
    }
    Map::new(fields)
}

/// Returns the map at a path such as `a.b`.
pub(crate) fn table(values: &Map, path: &str) -> Option<Map> {
    path.split('.').try_fold(values.clone(), |map, key| match map.get(key)? {
        Value::Map(inner) => Some(inner),
        _ => None,
    })
}

/// Returns the value at a path, unless it is a map.
pub(crate) fn path_value(values: &Map, path: &str) -> Option<Value> {
    let value = match path.rsplit_once('.') {
        Some((path, key)) => table(values, path)?.get(key)?,
        None => values.get(path)?,
    };
    value.as_map().is_none().then_some(value)
}
