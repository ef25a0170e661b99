//! Values as Go's `fmt` prints them: `%v` and its relatives.

mod float;
mod format;
mod quote;

pub(crate) use float::{float_g, json_float};
pub(crate) use format::sprintf;
pub(crate) use quote::quote;

use crate::value::{Element, List, Value};

/// The depth to which a value is printed. A map that holds itself would never end.
pub(crate) const MAX_DEPTH: usize = 200;

/// Returns the text that an action writes. Helm removes `<no value>` afterwards.
pub(crate) fn printed(value: &Value) -> String {
    match value {
        Value::Missing => "<no value>".into(),
        other => text(other),
    }
}

/// Returns the value as `%v` prints it.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Missing | Value::Nil => "<nil>".into(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) | Value::Int64(value) => value.to_string(),
        Value::Float(value) => float_g(*value),
        Value::Str(text) => text.to_string(),
        Value::List(_) | Value::Map(_) => sprintf("%v", std::slice::from_ref(value)),
        Value::Object(object) => object.print(),
    }
}

/// Returns the value as `%s` prints it.
pub(crate) fn verb_s(value: &Value) -> String {
    sprintf("%s", std::slice::from_ref(value))
}

/// Returns the value as Sprig's `toString`: texts and bytes as they are.
pub(crate) fn strval(value: &Value) -> String {
    match value {
        Value::List(list @ List { element: Element::Byte, .. }) => {
            String::from_utf8_lossy(&bytes(list)).into_owned()
        }
        other => text(other),
    }
}

/// Returns the bytes of a `[]byte`.
pub(crate) fn bytes(list: &List) -> Vec<u8> {
    let byte = |item: &Value| match item {
        Value::Int(byte) => u8::try_from(*byte).unwrap_or(0),
        _ => 0,
    };
    list.items.iter().map(byte).collect()
}

/// Prints operands with a space between two that are not strings, as `fmt.Sprint`.
pub(crate) fn sprint(args: &[Value]) -> String {
    let mut out = String::new();
    let mut after_text = true;
    for (at, arg) in args.iter().enumerate() {
        let is_text = matches!(arg, Value::Str(_));
        if at > 0 && !is_text && !after_text {
            out.push(' ');
        }
        out.push_str(&text(arg));
        after_text = is_text;
    }
    out
}

/// Prints operands with spaces and a newline, as `fmt.Sprintln`.
pub(crate) fn sprintln(args: &[Value]) -> String {
    let mut out = args.iter().map(text).collect::<Vec<_>>().join(" ");
    out.push('\n');
    out
}
