//! Prints values like Go's `fmt`: `%v` and related verbs.

mod float;
mod format;
mod quote;

pub(crate) use float::{float_g, json_float};
pub(crate) use format::sprintf;
pub(crate) use quote::quote;

use crate::value::{Element, List, Value};

/// Maximum depth of printed values. Printing a map that contains itself would never end.
pub(crate) const MAX_DEPTH: usize = 200;

/// Returns the output of an action. Helm removes `<no value>` afterwards.
pub(crate) fn printed(value: &Value) -> String {
    match value {
        Value::Missing => "<no value>".into(),
        other => text(other),
    }
}

/// Prints the value like `%v`.
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

/// Prints the value like `%s`.
pub(crate) fn verb_s(value: &Value) -> String {
    sprintf("%s", std::slice::from_ref(value))
}

/// Prints the value like Sprig's `toString`, which returns strings and bytes unchanged.
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

/// Prints operands like `fmt.Sprint`, with a space between two that are not strings.
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

/// Prints operands like `fmt.Sprintln`, with spaces and a newline.
pub(crate) fn sprintln(args: &[Value]) -> String {
    let mut out = args.iter().map(text).collect::<Vec<_>>().join(" ");
    out.push('\n');
    out
}
