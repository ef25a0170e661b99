//! Values of files, of `--set` and of charts, each over the next.

mod coalesce;
mod set;

pub(crate) use coalesce::{coalesce_values, merge_tables, merge_values};
pub(crate) use set::set;

use crate::value::{Map, Value};

/// Puts a values file over another: maps are merged, everything else is replaced.
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

/// Follows a path such as `a.b` to a map.
pub(crate) fn table(values: &Map, path: &str) -> Option<Map> {
    path.split('.').try_fold(values.clone(), |map, key| match map.get(key)? {
        Value::Map(inner) => Some(inner),
        _ => None,
    })
}

/// Follows a path to a value that is not a map.
pub(crate) fn path_value(values: &Map, path: &str) -> Option<Value> {
    let value = match path.rsplit_once('.') {
        Some((path, key)) => table(values, path)?.get(key)?,
        None => values.get(path)?,
    };
    value.as_map().is_none().then_some(value)
}
