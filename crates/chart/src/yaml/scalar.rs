//! Types of plain scalars in go-yaml v2: YAML 1.1 booleans, Go's integers, no base 60, and dates as strings.

use ::yaml::has_float_syntax;

use crate::template::number::{go_float, go_integer};
use crate::value::Value;

/// Returns the value of a plain scalar.
pub(super) fn resolve(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Nil,
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "true" | "True" | "TRUE" => {
            return Value::Bool(true);
        }
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "false" | "False" | "FALSE" => {
            return Value::Bool(false);
        }
        ".nan" | ".NaN" | ".NAN" => return Value::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Value::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Value::Float(f64::NEG_INFINITY),
        _ => {}
    }
    let number = match text.as_bytes().first() {
        Some(b'.') => has_float_syntax(text).then(|| go_float(text)).flatten(),
        Some(b'0'..=b'9' | b'+' | b'-') => number(text),
        _ => None,
    };
    number.map_or_else(|| Value::str(text), Value::Float)
}

fn number(text: &str) -> Option<f64> {
    let plain: String = text.chars().filter(|c| *c != '_').collect();
    if let Some(integer) = go_integer(&plain) {
        return Some(integer as f64);
    }
    if let Ok(integer) = plain.parse::<u64>()
        && !plain.starts_with('+')
    {
        return Some(integer as f64);
    }
    has_float_syntax(&plain).then(|| go_float(&plain)).flatten()
}

/// Returns the text of a scalar key.
pub(super) fn key(value: &Value) -> Result<String, String> {
    match value {
        Value::Str(text) => Ok(text.to_string()),
        Value::Bool(flag) => Ok(flag.to_string()),
        Value::Float(float) if float.fract() == 0.0 && float.abs() < 1e18 => Ok(format!("{float:.0}")),
        Value::Float(float) => Ok(crate::print::float_g(*float)),
        _ => Err("unsupported map key of type: %!s(<nil>), key: <nil>, value: ".into()),
    }
}
