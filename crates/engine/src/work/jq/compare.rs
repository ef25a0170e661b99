//! The order of jq values, and their containment.

use std::cmp::Ordering;

use serde_json::Value;

use super::evaluate::Stop;
use object::steps::StepsLeft;

/// Returns jq's name for the type of a value.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Compares two values. Values of different types are ordered as null, false, true, numbers, strings, arrays,
/// objects.
pub(super) fn compare(left: &Value, right: &Value, budget: &mut StepsLeft) -> Result<Ordering, Stop> {
    budget.take(1)?;
    match (left, right) {
        (Value::Number(a), Value::Number(b)) => Ok(match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(Ordering::Equal),
        }),
        (Value::String(a), Value::String(b)) => {
            budget.take_text(a.len().min(b.len()))?;
            Ok(a.cmp(b))
        }
        (Value::Array(a), Value::Array(b)) => {
            for (a, b) in a.iter().zip(b) {
                match compare(a, b, budget)? {
                    Ordering::Equal => {}
                    differs => return Ok(differs),
                }
            }
            Ok(a.len().cmp(&b.len()))
        }
        (Value::Object(a), Value::Object(b)) => {
            budget.take(a.len().min(b.len()))?;
            let mut names = a.keys().zip(b.keys());
            names.try_for_each(|(a, b)| budget.take_text(a.len().min(b.len())))?;
            match a.keys().cmp(b.keys()) {
                Ordering::Equal => {}
                differs => return Ok(differs),
            }
            for (a, b) in a.values().zip(b.values()) {
                match compare(a, b, budget)? {
                    Ordering::Equal => {}
                    differs => return Ok(differs),
                }
            }
            Ok(Ordering::Equal)
        }
        _ => Ok(rank(left).cmp(&rank(right))),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(false) => 1,
        Value::Bool(true) => 2,
        Value::Number(_) => 3,
        Value::String(_) => 4,
        Value::Array(_) => 5,
        Value::Object(_) => 6,
    }
}

/// Returns true if a value contains another: a substring, items of an array, or fields of an object.
pub(super) fn contains(value: &Value, part: &Value, budget: &mut StepsLeft) -> Result<bool, Stop> {
    budget.take(1)?;
    match (value, part) {
        (Value::String(text), Value::String(part)) => {
            budget.take_text(text.len())?;
            Ok(text.contains(part.as_str()))
        }
        (Value::Array(items), Value::Array(parts)) => {
            for part in parts {
                if !has_part(items, part, budget)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Value::Object(fields), Value::Object(parts)) => {
            for (name, part) in parts {
                budget.take_text(name.len())?;
                match fields.get(name) {
                    Some(value) if kind(value) == kind(part) && contains(value, part, budget)? => {}
                    Some(_) | None => return Ok(false),
                }
            }
            Ok(true)
        }
        _ if kind(value) == kind(part) => Ok(compare(value, part, budget)? == Ordering::Equal),
        _ => Err(Stop::Failed(format!(
            "a value of type {} cannot contain one of type {}",
            kind(value),
            kind(part)
        ))),
    }
}

fn has_part(items: &[Value], part: &Value, budget: &mut StepsLeft) -> Result<bool, Stop> {
    for item in items {
        budget.take(1)?;
        if kind(item) == kind(part) && contains(item, part, budget)? {
            return Ok(true);
        }
    }
    Ok(false)
}
