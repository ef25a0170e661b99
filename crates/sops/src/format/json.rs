use std::collections::BTreeSet;
use std::fmt;

use object::go_json::write_string;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value as Json};

use super::{File, METADATA, no_metadata, text_of};
use crate::error::Error;
use crate::tree::Value;

/// The field with the content of a binary file.
const DATA: &str = "data";
/// The kind of objects that are applied encrypted.
const APPLIED_ENCRYPTED: &str = "SopsSecret";

/// Returns true if a file has metadata with a MAC.
pub(super) fn is_marked(text: &str) -> bool {
    if !text.trim_start().starts_with('{') || !text.contains("\"sops\"") {
        return false;
    }
    let Ok(value) = serde_json::from_str::<Value>(text) else { return false };
    let has_mac = value.get(METADATA).is_some_and(|metadata| metadata.text_at("mac").is_some());
    has_mac && value.text_at("kind") != Some(APPLIED_ENCRYPTED)
}

pub(super) fn parse(text: &str) -> Result<File, Error> {
    // The message of the parser may quote the file.
    let malformed = |error: serde_json::Error| Error::Malformed(format!("line {} is not JSON", error.line()));
    let mut value: Value = serde_json::from_str(text).map_err(malformed)?;
    let metadata = value.take(METADATA).ok_or_else(no_metadata)?;
    Ok(File::new(vec![value], metadata))
}

pub(super) fn print(documents: Vec<Value>) -> Result<Vec<u8>, Error> {
    let mut out = String::new();
    for document in documents {
        write(&mut out, document, "", 0)?;
        out.push('\n');
    }
    Ok(out.into_bytes())
}

/// Returns the content of a binary file.
pub(super) fn print_binary(documents: Vec<Value>) -> Result<Vec<u8>, Error> {
    match documents.into_iter().find_map(|mut document| document.take(DATA)) {
        Some(Value::Text(bytes)) => Ok(bytes),
        _ => Err(Error::Malformed("it is a binary file without \"data\"".into())),
    }
}

/// Converts a value to JSON. `key` is its key for messages.
pub(super) fn to_json(value: Value, key: &str) -> Result<Json, Error> {
    Ok(match value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::Bool(value),
        Value::Number(number) => Json::Number(number),
        Value::Text(_) => Json::String(text_of(value, key)?),
        Value::List(items) => {
            Json::Array(items.into_iter().map(|item| to_json(item, key)).collect::<Result<_, _>>()?)
        }
        Value::Map(fields) => {
            let field = |(key, value): (String, Value)| {
                let json = to_json(value, &key)?;
                Ok((key, json))
            };
            Json::Object(fields.into_iter().map(field).collect::<Result<_, Error>>()?)
        }
    })
}

/// Writes a value like `sops`, with tabs.
fn write(out: &mut String, value: Value, key: &str, depth: usize) -> Result<(), Error> {
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        (0..depth).for_each(|_| out.push('\t'));
    };
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(_) | Value::Number(_) => out.push_str(&text_of(value, key)?),
        Value::Text(_) => write_string(out, &text_of(value, key)?),
        Value::List(items) if items.is_empty() => out.push_str("[]"),
        Value::List(items) => {
            for (at, item) in items.into_iter().enumerate() {
                out.push(if at == 0 { '[' } else { ',' });
                line(out, depth + 1);
                write(out, item, key, depth + 1)?;
            }
            line(out, depth);
            out.push(']');
        }
        Value::Map(fields) if fields.is_empty() => out.push_str("{}"),
        Value::Map(fields) => {
            for (at, (key, field)) in fields.into_iter().enumerate() {
                out.push(if at == 0 { '{' } else { ',' });
                line(out, depth + 1);
                write_string(out, &key);
                out.push_str(": ");
                write(out, field, &key, depth + 1)?;
            }
            line(out, depth);
            out.push('}');
        }
    }
    Ok(())
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(InOrder)
    }
}

/// Reads JSON with its fields in the order of the file.
struct InOrder;

impl<'de> Visitor<'de> for InOrder {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("not a finite number"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Value::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let (mut fields, mut keys) = (Vec::new(), BTreeSet::new());
        while let Some((key, value)) = map.next_entry::<String, Value>()? {
            if !keys.insert(key.clone()) {
                return Err(A::Error::custom("a key occurs twice"));
            }
            fields.push((key, value));
        }
        Ok(Value::Map(fields))
    }
}
