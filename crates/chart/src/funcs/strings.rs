//! Sprig's functions for strings (`strings.go` and the table in `functions.go`).

use super::{Call, Function, Outcome, Type};
use crate::print::{quote, strval};
use crate::value::{List, Map, MapType, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("trim", &[Type::Str], |call| text(call.str(0).trim())),
    Function::new("trimAll", &[Type::Str, Type::Str], trim_all),
    Function::new("trimall", &[Type::Str, Type::Str], trim_all),
    Function::new("trimSuffix", &[Type::Str, Type::Str], |call| {
        text(call.str(1).strip_suffix(call.str(0)).unwrap_or(call.str(1)))
    }),
    Function::new("trimPrefix", &[Type::Str, Type::Str], |call| {
        text(call.str(1).strip_prefix(call.str(0)).unwrap_or(call.str(1)))
    }),
    Function::new("upper", &[Type::Str], |call| text(&call.str(0).to_uppercase())),
    Function::new("lower", &[Type::Str], |call| text(&call.str(0).to_lowercase())),
    Function::new("repeat", &[Type::Int, Type::Str], repeat),
    Function::new("substr", &[Type::Int, Type::Int, Type::Str], substr),
    Function::new("nospace", &[Type::Str], |call| {
        text(&call.str(0).chars().filter(|c| !c.is_whitespace()).collect::<String>())
    }),
    Function::new("trunc", &[Type::Int, Type::Str], trunc),
    Function::new("contains", &[Type::Str, Type::Str], |call| {
        Ok(Value::Bool(call.str(1).contains(call.str(0))))
    }),
    Function::new("hasPrefix", &[Type::Str, Type::Str], |call| {
        Ok(Value::Bool(call.str(1).starts_with(call.str(0))))
    }),
    Function::new("hasSuffix", &[Type::Str, Type::Str], |call| {
        Ok(Value::Bool(call.str(1).ends_with(call.str(0))))
    }),
    Function::new("quote", &[], |call| text(&quoted(call, |value| quote(&strval(value))))).rest(Type::Any),
    Function::new("squote", &[], |call| {
        text(&quoted(call, |value| format!("'{}'", crate::print::text(value))))
    })
    .rest(Type::Any),
    Function::new("cat", &[], |call| {
        let words = call.args.iter().filter(|arg| !arg.is_nil()).map(crate::print::text);
        text(&words.collect::<Vec<_>>().join(" "))
    })
    .rest(Type::Any),
    Function::new("indent", &[Type::Int, Type::Str], |call| Ok(Value::str(indented(call)?))),
    Function::new("nindent", &[Type::Int, Type::Str], |call| {
        Ok(Value::str(format!("\n{}", indented(call)?)))
    }),
    Function::new("replace", &[Type::Str, Type::Str, Type::Str], |call| {
        let grows = call.str(1).len().saturating_sub(call.str(0).len());
        call.env.budget.bytes(call.str(2).len().saturating_add(call.str(2).len().saturating_mul(grows)))?;
        text(&call.str(2).replace(call.str(0), call.str(1)))
    }),
    Function::new("plural", &[Type::Str, Type::Str, Type::Int], |call| {
        text(if call.int(2) == 1 { call.str(0) } else { call.str(1) })
    }),
    Function::new("join", &[Type::Str, Type::Any], join),
    Function::new("splitList", &[Type::Str, Type::Str], |call| {
        Ok(Value::strings(split(call.str(0), call.str(1))))
    }),
    Function::new("split", &[Type::Str, Type::Str], |call| Ok(numbered(split(call.str(0), call.str(1))))),
    Function::new("splitn", &[Type::Str, Type::Int, Type::Str], splitn),
    Function::new("sortAlpha", &[Type::Any], |call| {
        let mut words = strings(call.arg(0));
        call.env.budget.work(words.len() as u64)?;
        words.sort();
        Ok(Value::strings(words))
    }),
    Function::new("toStrings", &[Type::Any], |call| Ok(Value::strings(strings(call.arg(0))))),
    Function::new("toString", &[Type::Any], |call| text(&strval(call.arg(0)))),
    Function::new("hello", &[], |_| text("Hello!")),
];

pub(super) fn text(text: &str) -> Outcome {
    Ok(Value::str(text))
}

/// Returns a part of a text. Replaces characters that were cut in the middle with U+FFFD.
pub(super) fn cut(bytes: &[u8]) -> Outcome {
    Ok(Value::str(String::from_utf8_lossy(bytes)))
}

fn trim_all(call: Call<'_>) -> Outcome {
    text(call.str(1).trim_matches(|c| call.str(0).contains(c)))
}

fn repeat(call: Call<'_>) -> Outcome {
    let Ok(count) = usize::try_from(call.int(0)) else { return Err("strings: negative Repeat count".into()) };
    call.env.budget.bytes(call.str(1).len().saturating_mul(count))?;
    text(&call.str(1).repeat(count))
}

fn substr(call: Call<'_>) -> Outcome {
    let (start, end, bytes) = (call.int(0), call.int(1), call.str(2).as_bytes());
    let length = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
    let (from, to) = match (start, end) {
        (..0, end) => (0, end),
        (start, end) if end < 0 || end > length => (start, length),
        (start, end) => (start, end),
    };
    let range = usize::try_from(from).ok().zip(usize::try_from(to).ok());
    match range.and_then(|(from, to)| bytes.get(from..to)) {
        Some(bytes) => cut(bytes),
        None => Err(format!("runtime error: slice bounds out of range [{from}:{to}]").into()),
    }
}

fn trunc(call: Call<'_>) -> Outcome {
    let (count, bytes) = (call.int(0), call.str(1).as_bytes());
    let length = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if length >= bytes.len() {
        return Ok(call.arg(1).clone());
    }
    let part = if count < 0 { bytes.get(bytes.len() - length..) } else { bytes.get(..length) };
    cut(part.unwrap_or_default())
}

fn quoted(call: Call<'_>, quote: fn(&Value) -> String) -> String {
    call.args.iter().filter(|arg| !arg.is_nil()).map(quote).collect::<Vec<_>>().join(" ")
}

fn indented(call: Call<'_>) -> Result<String, crate::fault::Fault> {
    let text = call.str(1);
    let Ok(width) = usize::try_from(call.int(0)) else { return Err("strings: negative Repeat count".into()) };
    let lines = text.bytes().filter(|byte| *byte == b'\n').count() + 1;
    call.env.budget.bytes(width.saturating_mul(lines).saturating_add(text.len()))?;
    let pad = " ".repeat(width);
    Ok(format!("{pad}{}", text.replace('\n', &format!("\n{pad}"))))
}

/// Returns the items of a list as strings, without nil.
pub(super) fn strings(value: &Value) -> Vec<String> {
    match value {
        Value::List(List { items, .. }) => items.iter().filter(|item| !item.is_nil()).map(strval).collect(),
        Value::Missing | Value::Nil => Vec::new(),
        other => vec![strval(other)],
    }
}

fn join(call: Call<'_>) -> Outcome {
    let words = strings(call.arg(1));
    call.env.budget.bytes(words.len().saturating_mul(call.str(0).len()))?;
    text(&words.join(call.str(0)))
}

fn split<'a>(separator: &str, text: &'a str) -> Vec<&'a str> {
    if separator.is_empty() {
        return text.split("").filter(|part| !part.is_empty()).collect();
    }
    text.split(separator).collect()
}

/// Returns Sprig's map of parts: `_0`, `_1` and so on.
fn numbered(parts: Vec<&str>) -> Value {
    let parts = parts.into_iter().enumerate();
    let map: Map = parts.map(|(at, part)| (format!("_{at}"), Value::str(part))).collect();
    Value::Map(map.typed(MapType::Strings))
}

fn splitn(call: Call<'_>) -> Outcome {
    let parts = match usize::try_from(call.int(1)) {
        Ok(0) => Vec::new(),
        Ok(count) => call.str(2).splitn(count, call.str(0)).collect(),
        Err(_) => split(call.str(0), call.str(2)),
    };
    Ok(numbered(parts))
}
