//! Prints values as TOML, like `BurntSushi/toml`.

use crate::value::{List, Map, Value};
use crate::yaml::json::quote;

pub(crate) fn print(value: &Value) -> Result<String, String> {
    let mut out = String::new();
    match value {
        Value::Map(map) => table(&mut out, map, &mut Vec::new())?,
        other => {
            return Err(format!(
                "toml: top-level values must be Go maps or structs, not {}",
                other.type_name()
            ));
        }
    }
    Ok(out)
}

fn is_table(value: &Value) -> bool {
    match value {
        Value::Map(_) => true,
        Value::List(List { items, .. }) => {
            !items.is_empty() && items.iter().all(|item| matches!(item, Value::Map(_)))
        }
        _ => false,
    }
}

fn table(out: &mut String, map: &Map, path: &mut Vec<String>) -> Result<(), String> {
    if path.len() > crate::print::MAX_DEPTH {
        return Err("toml: the value is nested too deep".into());
    }
    let indent = "  ".repeat(path.len());
    let fields = map.snapshot();
    for (name, value) in fields.iter().filter(|(_, value)| !is_table(value) && !value.is_nil()) {
        out.push_str(&format!("{indent}{} = {}\n", key(name), inline(value, 0)?));
    }
    for (name, value) in fields.iter().filter(|(_, value)| is_table(value)) {
        path.push(key(name));
        let outer = "  ".repeat(path.len() - 1);
        match value {
            Value::Map(inner) => {
                if !out.is_empty() {
                    out.push('\n');
                }
                out.push_str(&format!("{outer}[{}]\n", path.join(".")));
                table(out, inner, path)?;
            }
            Value::List(list) => {
                for item in list.items.iter().filter_map(Value::as_map) {
                    if !out.is_empty() {
                        out.push('\n');
                    }
                    out.push_str(&format!("{outer}[[{}]]\n", path.join(".")));
                    table(out, item, path)?;
                }
            }
            _ => {}
        }
        path.pop();
    }
    Ok(())
}

fn key(name: &str) -> String {
    let is_bare =
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if is_bare { name.to_owned() } else { quoted(name) }
}

fn quoted(text: &str) -> String {
    let mut out = String::new();
    quote(&mut out, text, char::is_control);
    out
}

fn inline(value: &Value, depth: usize) -> Result<String, String> {
    if depth > crate::print::MAX_DEPTH {
        return Err("toml: the value is nested too deep".into());
    }
    Ok(match value {
        Value::Missing | Value::Nil => return Err("toml: cannot encode array with nil element".into()),
        Value::Bool(flag) => flag.to_string(),
        Value::Int(number) | Value::Int64(number) => number.to_string(),
        Value::Float(float) if float.is_nan() => "nan".into(),
        Value::Float(float) if float.is_infinite() => if *float > 0.0 { "inf" } else { "-inf" }.into(),
        Value::Float(float) => {
            let text = crate::print::float_g(*float);
            if text.contains(['.', 'e']) { text } else { format!("{text}.0") }
        }
        Value::Str(text) => quoted(text),
        Value::List(list) => {
            let items: Vec<String> =
                list.items.iter().map(|item| inline(item, depth + 1)).collect::<Result<_, _>>()?;
            format!("[{}]", items.join(", "))
        }
        Value::Map(map) => {
            let fields: Vec<String> = map
                .snapshot()
                .iter()
                .map(|(name, value)| Ok(format!("{} = {}", key(name), inline(value, depth + 1)?)))
                .collect::<Result<_, String>>()?;
            format!("{{{}}}", fields.join(", "))
        }
        Value::Object(object) => quoted(&object.print()),
    })
}
