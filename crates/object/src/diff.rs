//! Differences between JSON values.

use serde_json::{Map, Value};

/// Returns the JSON merge patch (RFC 7386) that turns `old` into `new`; `None` if they are equal.
///
/// An absent field equals `null`, as in a merge patch. Lists are replaced as a whole.
pub fn merge_diff(old: &Value, new: &Value) -> Option<Value> {
    let (Value::Object(before), Value::Object(after)) = (old, new) else {
        return (old != new).then(|| without_nulls(new));
    };
    let mut patch = Map::new();
    for (field, value) in after {
        if let Some(difference) = merge_diff(before.get(field).unwrap_or(&Value::Null), value) {
            patch.insert(field.clone(), difference);
        }
    }
    for field in before
        .iter()
        .filter(|(field, value)| !value.is_null() && !after.contains_key(*field))
        .map(|(field, _)| field)
    {
        patch.insert(field.clone(), Value::Null);
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// Removes nulls from a new value, because `null` means "remove" in a merge patch.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let non_null =
                fields.iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k.clone(), without_nulls(v)));
            Value::Object(non_null.collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(old: Value, new: Value, patch: Option<Value>) {
        assert_eq!(merge_diff(&old, &new), patch, "{old} to {new}");
    }

    #[test]
    fn a_merge_diff_names_only_what_changed() {
        check(
            json!({"a": 1, "b": {"c": 2, "d": 3}}),
            json!({"a": 1, "b": {"c": 2, "d": 4}}),
            Some(json!({"b": {"d": 4}})),
        );
        check(json!({"a": 1}), json!({}), Some(json!({"a": null})));
        check(json!({"a": [1, 2]}), json!({"a": [1]}), Some(json!({"a": [1]})));
        check(json!(null), json!({"a": {"b": null, "c": 1}}), Some(json!({"a": {"c": 1}})));
        check(json!({"a": {"b": 1}}), json!({"a": "x"}), Some(json!({"a": "x"})));
    }

    #[test]
    fn absent_and_null_are_equal() {
        check(json!({"a": null}), json!({}), None);
        check(json!({}), json!({"a": null}), None);
        check(json!({"a": 1}), json!({"a": 1}), None);
    }
}
