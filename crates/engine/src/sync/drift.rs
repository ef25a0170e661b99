//! Differences between a live object and a desired one.

use serde_json::{Map, Value};

use crate::applier::covers;
use object::Object;

/// Whether a live object has every field of a desired one, whatever else it has.
pub fn is_covered(live: &Object, desired: &Object) -> bool {
    uncovered(&live.0, &desired.0).is_none()
}

/// The path of the first desired field that a live object lacks or has with another value.
pub(super) fn first_difference(live: &Object, desired: &Object) -> Option<String> {
    let (mut live, mut desired) = (&live.0, &desired.0);
    let mut path: Vec<&str> = Vec::new();
    loop {
        let (field, value) = uncovered(live, desired)?;
        path.push(field);
        match (live.get(field), value) {
            (Some(Value::Object(below)), Value::Object(wanted)) => (live, desired) = (below, wanted),
            _ => return Some(path.join(".")),
        }
    }
}

/// The first desired field that is not covered. An API server drops empty fields, so their absence is no difference.
fn uncovered<'a>(live: &Map<String, Value>, desired: &'a Map<String, Value>) -> Option<(&'a str, &'a Value)> {
    let is_covered = |field: &str, value: &Value| match live.get(field) {
        Some(live) => covers(live, value),
        None => {
            value.as_object().is_some_and(Map::is_empty)
                || value.as_array().is_some_and(Vec::is_empty)
                || value.is_null()
        }
    };
    desired
        .iter()
        .find(|(field, value)| !is_covered(field, value))
        .map(|(field, value)| (field.as_str(), value))
}
