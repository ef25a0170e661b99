//! Formats numbers as Go does.

use serde_json::Value;

/// Turns every integral float into an integer, as Go's JSON encoder does: `0.0` and `0` are the same value on the
/// wire.
///
/// Floats that do not fit an integer type are unchanged.
pub fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(whole) = number.as_f64().and_then(whole) {
                *value = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns a float as an integer, if it is integral. Floats are exact integers up to 2^53.
fn whole(float: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "the float is integral and below 2^53")]
    (float.fract() == 0.0 && float.abs() <= EXACT).then_some(float as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn integral_floats_become_integers() {
        let mut value = json!({"a": [0.0, -100.0, 1.5], "b": {"c": 1e300, "d": 7}});
        whole_numbers(&mut value);
        assert_eq!(value.to_string(), r#"{"a":[0,-100,1.5],"b":{"c":1e+300,"d":7}}"#);
    }
}
