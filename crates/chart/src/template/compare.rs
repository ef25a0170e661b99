//! `eq`, `ne`, `lt`, `le`, `gt` and `ge`, based on Go's `text/template/funcs.go`.

use std::cmp::Ordering;

use crate::print;
use crate::value::Value;

/// The kinds that Go can compare.
#[derive(PartialEq, Eq)]
enum Basic {
    Bool,
    Int,
    Float,
    Str,
    Nil,
    Other,
}

fn basic(value: &Value) -> Basic {
    match value {
        Value::Missing | Value::Nil => Basic::Nil,
        Value::Bool(_) => Basic::Bool,
        Value::Int(_) | Value::Int64(_) => Basic::Int,
        Value::Float(_) => Basic::Float,
        Value::Str(_) => Basic::Str,
        Value::List(_) | Value::Map(_) | Value::Object(_) => Basic::Other,
    }
}

/// Returns true if the first value equals one of the others.
pub(crate) fn eq(first: &Value, others: &[Value]) -> Result<bool, String> {
    if let Value::List(_) | Value::Map(_) = first {
        return Err(format!("non-comparable type {}: {}", print::verb_s(first), first.type_name()));
    }
    if others.is_empty() {
        return Err("missing argument for comparison".into());
    }
    for other in others {
        let (a, b) = (basic(first), basic(other));
        let same = if a == Basic::Nil || b == Basic::Nil {
            a == b
        } else if a != b {
            return Err(incompatible(first, other));
        } else if let Value::List(_) | Value::Map(_) = other {
            return Err(format!("non-comparable type {}: {}", print::verb_s(other), other.type_name()));
        } else {
            order(first, other) == Some(Ordering::Equal) || first.deep_equal(other)
        };
        if same {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns true if the first value is less than the second.
pub(crate) fn lt(first: &Value, second: &Value) -> Result<bool, String> {
    let (a, b) = (basic(first), basic(second));
    if a == Basic::Nil || b == Basic::Nil || a == Basic::Other || b == Basic::Other {
        return Err("invalid type for comparison".into());
    }
    if a != b {
        return Err(incompatible(first, second));
    }
    if a == Basic::Bool {
        return Err("invalid type for comparison".into());
    }
    Ok(order(first, second) == Some(Ordering::Less))
}

fn incompatible(a: &Value, b: &Value) -> String {
    format!("incompatible types for comparison: {} and {}", a.type_name(), b.type_name())
}

fn order(first: &Value, second: &Value) -> Option<Ordering> {
    match (first, second) {
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::Int(a) | Value::Int64(a), Value::Int(b) | Value::Int64(b)) => Some(a.cmp(b)),
        (Value::Float(a), Value::Float(b)) => a.partial_cmp(b),
        (Value::Str(a), Value::Str(b)) => Some(a.cmp(b)),
        _ => None,
    }
}
