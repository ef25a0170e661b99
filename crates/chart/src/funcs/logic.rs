//! The built-in functions of Go's `text/template/funcs.go`.

use super::{Call, Function, Outcome, Type};
use crate::print;
use crate::template::compare::{eq, lt};
use crate::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("and", &[Type::Any], short_circuit).rest(Type::Any),
    Function::new("or", &[Type::Any], short_circuit).rest(Type::Any),
    Function::new("not", &[Type::Any], |call| Ok(Value::Bool(!call.arg(0).truth()))),
    Function::new("eq", &[Type::Any], |call| Ok(Value::Bool(eq(call.arg(0), call.from(1))?))).rest(Type::Any),
    Function::new("ne", &[Type::Any, Type::Any], |call| Ok(Value::Bool(!eq(call.arg(0), call.from(1))?))),
    Function::new("lt", &[Type::Any, Type::Any], |call| Ok(Value::Bool(lt(call.arg(0), call.arg(1))?))),
    Function::new("le", &[Type::Any, Type::Any], |call| Ok(Value::Bool(le(call)?))),
    Function::new("gt", &[Type::Any, Type::Any], |call| Ok(Value::Bool(!le(call)?))),
    Function::new("ge", &[Type::Any, Type::Any], |call| Ok(Value::Bool(!lt(call.arg(0), call.arg(1))?))),
    Function::new("len", &[Type::Any], len),
    Function::new("index", &[Type::Any], index).rest(Type::Any),
    Function::new("call", &[Type::Any], |call| {
        Err(format!("non-function of type {}", call.arg(0).type_name()).into())
    })
    .rest(Type::Any),
    Function::new("print", &[], |call| Ok(Value::str(print::sprint(call.args)))).rest(Type::Any),
    Function::new("println", &[], |call| Ok(Value::str(print::sprintln(call.args)))).rest(Type::Any),
    Function::new("printf", &[Type::Str], |call| Ok(Value::str(print::sprintf(call.str(0), call.from(1)))))
        .rest(Type::Any),
    Function::new("html", &[], |call| Ok(Value::str(html(&print::sprint(call.args))))).rest(Type::Any),
    Function::new("js", &[], |call| Ok(Value::str(js(&print::sprint(call.args))))).rest(Type::Any),
    Function::new("urlquery", &[], |call| {
        Ok(Value::str(super::paths::query_escape(&print::sprint(call.args))))
    })
    .rest(Type::Any),
];

/// Never called: the executor evaluates the arguments of `and` and `or` one by one.
fn short_circuit(call: Call<'_>) -> Outcome {
    Ok(call.arg(0).clone())
}

fn le(call: Call<'_>) -> Result<bool, String> {
    Ok(lt(call.arg(0), call.arg(1))? || eq(call.arg(0), call.from(1))?)
}

fn len(call: Call<'_>) -> Outcome {
    let length = match call.arg(0) {
        Value::Str(text) => text.len(),
        Value::List(list) => list.items.len(),
        Value::Map(map) => map.borrow().len(),
        Value::Missing | Value::Nil => return Err("len of nil pointer".into()),
        Value::Object(object) => match object.plain() {
            Value::List(list) => list.items.len(),
            Value::Map(map) => map.borrow().len(),
            _ => return Err(format!("len of type {}", object.type_name()).into()),
        },
        other => return Err(format!("len of type {}", other.type_name()).into()),
    };
    Ok(Value::Int(i64::try_from(length).unwrap_or(i64::MAX)))
}

fn index(call: Call<'_>) -> Outcome {
    let mut value = call.arg(0).clone();
    if value.is_nil() {
        return Err("index of untyped nil".into());
    }
    for key in call.from(1) {
        value = match &value {
            Value::Missing | Value::Nil => return Err("index of nil pointer".into()),
            Value::List(list) => item(&list.items, key)?,
            Value::Str(text) => {
                let at = position(text.len(), key)?;
                Value::Int(i64::from(text.as_bytes().get(at).copied().unwrap_or(0)))
            }
            Value::Map(map) => match key {
                Value::Str(key) => map.get(key).unwrap_or(match map.typ {
                    crate::value::MapType::Strings => Value::str(""),
                    _ => Value::Nil,
                }),
                Value::Missing | Value::Nil => return Err("value is nil; should be of type string".into()),
                other => return Err(format!("value has type {}; should be string", other.type_name()).into()),
            },
            Value::Object(object) => match (object.plain(), key) {
                (Value::Map(map), Value::Str(key)) => map.get(key).unwrap_or(Value::Nil),
                (Value::List(list), key) => item(&list.items, key)?,
                _ => return Err(format!("can't index item of type {}", object.type_name()).into()),
            },
            other => return Err(format!("can't index item of type {}", other.type_name()).into()),
        };
    }
    Ok(value)
}

fn item(items: &[Value], key: &Value) -> Result<Value, String> {
    let at = position(items.len(), key)?;
    Ok(items.get(at).cloned().unwrap_or(Value::Nil))
}

fn position(length: usize, key: &Value) -> Result<usize, String> {
    match key {
        Value::Int(at) | Value::Int64(at) => usize::try_from(*at)
            .ok()
            .filter(|at| *at < length)
            .ok_or_else(|| format!("index out of range: {at}")),
        Value::Missing | Value::Nil => Err("cannot index slice/array with nil".into()),
        other => Err(format!("cannot index slice/array with type {}", other.type_name())),
    }
}

fn html(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\0' => out.push('\u{fffd}'),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            c => out.push(c),
        }
    }
    out
}

fn js(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\'' => out.push_str("\\'"),
            '"' => out.push_str("\\\""),
            '<' | '>' | '&' | '=' | '\0'..='\u{1f}' => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}
