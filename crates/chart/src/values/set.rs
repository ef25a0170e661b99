//! `--set a.b[0]=c,d=e` (Helm's `strvals`).

use crate::error::Error;
use crate::value::{Fields, Map, Value};

/// Maximum length of a list created by an index, as in Helm.
const MAX_INDEX: usize = 65_536;
/// Maximum number of parts in a key, as in Helm.
const MAX_NESTED: usize = 30;

/// Sets values from a text such as `a.b=1,c={x,y}`. With `as_strings`, all values are strings.
pub(crate) fn set(values: &Map, text: &str, as_strings: bool) -> Result<(), Error> {
    for (key, value) in pairs(text)? {
        let path = path(&key)?;
        let value = typed(&value, as_strings)?;
        let root = Value::Map(values.clone());
        assign(&root, &path, value)
            .map_err(|reason| Error::new(format!("failed parsing --set data: key {key:?} {reason}")))?;
    }
    Ok(())
}

enum Step {
    Key(String),
    Index(usize),
}

/// Splits at commas outside braces. A backslash escapes the next character.
fn pairs(text: &str) -> Result<Vec<(String, String)>, Error> {
    let mut pairs = Vec::new();
    let (mut key, mut value, mut in_value, mut braces) = (String::new(), String::new(), false, 0usize);
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let part = if in_value { &mut value } else { &mut key };
        match c {
            '\\' => {
                part.push('\\');
                part.extend(chars.next());
            }
            '=' if !in_value => in_value = true,
            '{' if in_value => {
                braces += 1;
                part.push(c);
            }
            '}' if in_value => {
                braces = braces.saturating_sub(1);
                part.push(c);
            }
            ',' if braces == 0 => {
                if !in_value {
                    return Err(Error::new(format!("failed parsing --set data: key {key:?} has no value")));
                }
                pairs.push((std::mem::take(&mut key), std::mem::take(&mut value)));
                in_value = false;
            }
            c => part.push(c),
        }
    }
    if in_value {
        pairs.push((key, value));
    } else if !key.is_empty() {
        return Err(Error::new(format!("failed parsing --set data: key {key:?} has no value")));
    }
    Ok(pairs)
}

fn path(key: &str) -> Result<Vec<Step>, Error> {
    let bad = |reason: &str| Error::new(format!("failed parsing --set data: key {key:?} {reason}"));
    let mut steps = Vec::new();
    let mut name = String::new();
    let mut chars = key.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => name.extend(chars.next()),
            '.' => {
                if !name.is_empty() {
                    steps.push(Step::Key(std::mem::take(&mut name)));
                }
            }
            '[' => {
                if !name.is_empty() {
                    steps.push(Step::Key(std::mem::take(&mut name)));
                }
                let digits: String = chars.by_ref().take_while(|c| *c != ']').collect();
                let index = digits.parse().ok().filter(|index| *index <= MAX_INDEX);
                steps.push(Step::Index(
                    index.ok_or_else(|| bad("has an index that is not a number or is too large"))?,
                ));
            }
            c => name.push(c),
        }
    }
    if !name.is_empty() {
        steps.push(Step::Key(name));
    }
    match steps.len() {
        0 => Err(bad("is empty")),
        1..=MAX_NESTED => Ok(steps),
        _ => Err(bad("is nested too deep")),
    }
}

fn typed(text: &str, as_strings: bool) -> Result<Value, Error> {
    if let Some(list) = text.strip_prefix('{') {
        let Some(list) = list.strip_suffix('}') else {
            return Err(Error::new(format!(
                "failed parsing --set data: list must terminate with '}}': {text}"
            )));
        };
        let items = if list.is_empty() { Vec::new() } else { split_list(list) };
        return Ok(Value::list(items.iter().map(|item| scalar(item, as_strings)).collect()));
    }
    Ok(scalar(text, as_strings))
}

fn split_list(list: &str) -> Vec<String> {
    let mut items = vec![String::new()];
    let mut chars = list.chars();
    while let Some(c) = chars.next() {
        if c == ',' {
            items.push(String::new());
        } else if let Some(item) = items.last_mut() {
            item.push(c);
            if c == '\\' {
                item.extend(chars.next());
            }
        }
    }
    items
}

fn scalar(text: &str, as_strings: bool) -> Value {
    let mut plain = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        plain.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    if as_strings {
        return Value::str(plain);
    }
    match plain.as_str() {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        "null" => Value::Nil,
        "0" => Value::Int64(0),
        _ if plain.starts_with('0') => Value::str(plain),
        _ => plain.parse().map_or_else(|_| Value::str(plain.as_str()), Value::Int64),
    }
}

fn assign(at: &Value, path: &[Step], value: Value) -> Result<(), &'static str> {
    let Some((Step::Key(key), rest)) = path.split_first() else { return Err("starts with an index") };
    let Value::Map(map) = at else { return Err("leads through a value that is not a map") };
    let new = placed(map.get(key), rest, value)?;
    map.insert(key, new);
    Ok(())
}

/// Returns the new value at a position, after setting a value below it.
fn placed(old: Option<Value>, path: &[Step], value: Value) -> Result<Value, &'static str> {
    match path.split_first() {
        None => Ok(value),
        Some((Step::Key(_), _)) => {
            let map = match old {
                Some(map @ Value::Map(_)) => map,
                _ => Value::Map(Map::new(Fields::new())),
            };
            assign(&map, path, value)?;
            Ok(map)
        }
        Some((Step::Index(index), rest)) => {
            let mut items = match old {
                Some(Value::List(list)) => list.items.to_vec(),
                _ => Vec::new(),
            };
            if items.len() <= *index {
                items.resize(index + 1, Value::Nil);
            }
            if let Some(slot) = items.get_mut(*index) {
                *slot = placed(Some(slot.clone()), rest, value)?;
            }
            Ok(Value::list(items))
        }
    }
}
