//! Prints values as JSON, like Go's `encoding/json`.

use serde_json::{Map as Fields, Number, Value as Json};

use crate::print::{MAX_DEPTH, bytes, json_float};
use crate::value::{Element, Value};

/// Converts a value. Floats without a fraction become integers, as in printed JSON.
pub(crate) fn from_value(value: &Value) -> Result<Json, String> {
    convert(value, 0)
}

fn convert(value: &Value, depth: usize) -> Result<Json, String> {
    if depth > MAX_DEPTH {
        return Err("json: unsupported value: encountered a cycle".into());
    }
    Ok(match value {
        Value::Missing | Value::Nil => Json::Null,
        Value::Bool(flag) => Json::Bool(*flag),
        Value::Int(number) | Value::Int64(number) => Json::from(*number),
        Value::Float(number) => Json::Number(number_of(*number)?),
        Value::Str(text) => Json::String(text.to_string()),
        Value::List(list) if list.element == Element::Byte => {
            use base64::Engine as _;
            Json::String(base64::engine::general_purpose::STANDARD.encode(bytes(list)))
        }
        Value::List(list) => {
            Json::Array(list.items.iter().map(|item| convert(item, depth + 1)).collect::<Result<_, _>>()?)
        }
        Value::Map(map) => {
            let mut fields = Fields::new();
            for (key, item) in map.borrow().iter() {
                fields.insert(key.to_string(), convert(item, depth + 1)?);
            }
            Json::Object(fields)
        }
        Value::Object(object) => convert(&object.plain(), depth + 1)?,
    })
}

fn number_of(float: f64) -> Result<Number, String> {
    if !float.is_finite() {
        return Err(format!("json: unsupported value: {}", crate::print::float_g(float)));
    }
    let text = json_float(float);
    if let Ok(number) = text.parse::<i64>() {
        return Ok(number.into());
    }
    if let Ok(number) = text.parse::<u64>() {
        return Ok(number.into());
    }
    Number::from_f64(float).ok_or_else(|| "json: unsupported value".to_owned())
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Single-line, with `<`, `>` and `&` escaped.
    Compact,
    /// Single-line, without these escapes.
    Raw,
    /// Multi-line.
    Pretty,
}

/// Prints a value as JSON.
pub(crate) fn print(value: &Value, style: Style) -> Result<String, String> {
    let json = from_value(value)?;
    let mut out = String::new();
    let indent = (style == Style::Pretty).then_some(0);
    write(&mut out, &json, indent);
    Ok(match style {
        Style::Raw => out,
        Style::Compact | Style::Pretty => {
            out.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
        }
    })
}

fn write(out: &mut String, json: &Json, indent: Option<usize>) {
    let inner = indent.map(|indent| indent + 1);
    match json {
        Json::Null => out.push_str("null"),
        Json::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Json::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (None, None, Some(float)) => out.push_str(&json_float(float)),
            _ => out.push_str(&number.to_string()),
        },
        Json::String(text) => string(out, text),
        Json::Array(items) if items.is_empty() => out.push_str("[]"),
        Json::Object(fields) if fields.is_empty() => out.push_str("{}"),
        Json::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                separator(out, at, inner);
                write(out, item, inner);
            }
            separator(out, 0, indent);
            out.push(']');
        }
        Json::Object(fields) => {
            out.push('{');
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(key, _)| key.as_str());
            for (at, (key, item)) in fields.into_iter().enumerate() {
                separator(out, at, inner);
                string(out, key);
                out.push_str(if indent.is_some() { ": " } else { ":" });
                write(out, item, inner);
            }
            separator(out, 0, indent);
            out.push('}');
        }
    }
}

fn separator(out: &mut String, at: usize, indent: Option<usize>) {
    if at > 0 {
        out.push(',');
    }
    if let Some(indent) = indent {
        out.push('\n');
        out.push_str(&"  ".repeat(indent));
    }
}

fn string(out: &mut String, text: &str) {
    quote(out, text, |c| matches!(c, '\0'..='\u{1f}' | '\u{2028}' | '\u{2029}'));
}

/// Writes a quoted text. `is_escaped` selects characters that have no escape sequence but must be written by
/// number.
pub(crate) fn quote(out: &mut String, text: &str, is_escaped: impl Fn(char) -> bool) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if is_escaped(c) => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Parses JSON. Errors match Go's messages in the cases that charts print.
pub(crate) fn read(text: &str) -> Result<Value, String> {
    match serde_json::from_str::<Json>(text) {
        Ok(json) => Ok(Value::from(&json)),
        Err(error) if error.is_eof() => Err("unexpected end of JSON input".into()),
        Err(_) => {
            let first = text.trim_start().chars().next().unwrap_or_default();
            Err(format!("invalid character '{first}' looking for beginning of value"))
        }
    }
}
