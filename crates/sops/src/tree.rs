//! The values of a file in order, and how they are opened and authenticated.

use serde_json::Number;
use sha2::{Digest as _, Sha256, Sha512};

use crate::cipher::{DataKey, Failure, open};
use crate::error::Error;
use crate::limits::MAX_PLACE_BYTES;
use crate::metadata::Metadata;

/// A value of a file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Number(Number),
    /// A text. Only texts of binary files may contain any bytes.
    Text(Vec<u8>),
    List(Vec<Value>),
    /// Fields in the order of the file, which the MAC covers.
    Map(Vec<(String, Value)>),
}

impl Value {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into().into_bytes())
    }

    /// Returns a field of a map.
    pub(crate) fn get(&self, field: &str) -> Option<&Self> {
        match self {
            Self::Map(fields) => fields.iter().find(|(key, _)| key == field).map(|(_, value)| value),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::Text(_) | Self::List(_) => None,
        }
    }

    /// Returns a text field of a map.
    pub(crate) fn text_at(&self, field: &str) -> Option<&str> {
        match self.get(field)? {
            Self::Text(text) => std::str::from_utf8(text).ok(),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::List(_) | Self::Map(_) => None,
        }
    }

    /// Returns the fields of a map; none for other values.
    pub(crate) fn into_fields(self) -> Vec<(String, Self)> {
        match self {
            Self::Map(fields) => fields,
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::Text(_) | Self::List(_) => Vec::new(),
        }
    }

    /// Removes a field of a map.
    pub(crate) fn take(&mut self, field: &str) -> Option<Self> {
        let Self::Map(fields) = self else { return None };
        let at = fields.iter().position(|(key, _)| key == field)?;
        Some(fields.remove(at).1)
    }
}

/// Opens the values of all documents of a file. Returns the opened values, except truth values.
///
/// # Errors
/// Fails if a value or the MAC was changed. The values are then partly opened and must not be used.
pub(crate) fn open_all(
    documents: &mut [Value],
    metadata: &Metadata,
    key: &DataKey,
) -> Result<Vec<String>, Error> {
    let mut mac = Sha512::new();
    if metadata.covers_encrypted_only {
        // `sops` starts such a MAC with these bytes, so that it differs from a MAC over all values.
        mac.update(Sha256::digest("sops"));
    }
    let mut walk = Walk { metadata, key, mac, opened: Vec::new() };
    for document in documents {
        walk.open(document, &mut String::new(), false)?;
    }
    let expected = open(&metadata.mac, key, &metadata.last_modified).map_err(|_| Error::Mac)?;
    let mac = object::hex(walk.mac.finalize()).to_uppercase();
    if mac.as_bytes() == expected.bytes { Ok(walk.opened) } else { Err(Error::Mac) }
}

struct Walk<'a> {
    metadata: &'a Metadata,
    key: &'a DataKey,
    mac: Sha512,
    opened: Vec<String>,
}

impl Walk<'_> {
    /// Opens a value in place. Returns false if it is a comment, which `sops` writes as an item of a list.
    ///
    /// `place` is the path of the value, with `:` after each key. Items of a list have the path of the list.
    fn open(&mut self, value: &mut Value, place: &mut String, is_matched: bool) -> Result<bool, Error> {
        match value {
            Value::List(items) => {
                let mut opened = Vec::with_capacity(items.len());
                for mut item in std::mem::take(items) {
                    if self.open(&mut item, place, is_matched)? {
                        opened.push(item);
                    }
                }
                *items = opened;
                Ok(true)
            }
            Value::Map(fields) => {
                for (key, field) in fields {
                    let length = place.len();
                    place.push_str(key);
                    place.push(':');
                    if place.len() > MAX_PLACE_BYTES {
                        return Err(form(place, "has a path that is too long"));
                    }
                    if !self.open(field, place, is_matched || self.metadata.rule.matches(key))? {
                        return Err(form(place, "is a comment"));
                    }
                    place.truncate(length);
                }
                Ok(true)
            }
            Value::Null => Ok(true),
            Value::Bool(_) | Value::Number(_) | Value::Text(_) => self.open_leaf(value, place, is_matched),
        }
    }

    fn open_leaf(&mut self, value: &mut Value, place: &str, is_matched: bool) -> Result<bool, Error> {
        let is_encrypted = self.metadata.rule.encrypts(value, is_matched);
        if is_encrypted {
            match opened(value, self.key, place)? {
                Some(opened) => *value = opened,
                None => return Ok(false),
            }
        }
        if is_encrypted && !matches!(value, Value::Bool(_)) {
            self.opened.push(String::from_utf8_lossy(&authenticated(value)).into_owned());
        }
        if is_encrypted || !self.metadata.covers_encrypted_only {
            self.mac.update(authenticated(value));
        }
        Ok(true)
    }
}

/// Returns the plaintext of a value; `None` for a comment.
fn opened(value: &Value, key: &DataKey, place: &str) -> Result<Option<Value>, Error> {
    const PLAIN: &str = "is not encrypted, but the rule of the SOPS file requires it";
    let Value::Text(text) = value else { return Err(form(place, PLAIN)) };
    if text.is_empty() {
        return Ok(Some(value.clone()));
    }
    let text = std::str::from_utf8(text).map_err(|_| form(place, PLAIN))?;
    let opened = open(text, key, place).map_err(|failure| match failure {
        Failure::Form => form(place, PLAIN),
        Failure::Forged => Error::Value(shown(place)),
    })?;
    let plain = || std::str::from_utf8(&opened.bytes).ok();
    let misfit = || form(place, "does not fit its type");
    Ok(Some(match opened.kind {
        "str" | "bytes" | "time" => Value::Text(opened.bytes),
        "int" => Value::Number(plain().and_then(|text| text.parse::<i64>().ok()).ok_or_else(misfit)?.into()),
        "float" => Value::Number(plain().and_then(float).ok_or_else(misfit)?),
        "bool" => Value::Bool(match plain() {
            Some("True" | "true") => true,
            Some("False" | "false") => false,
            Some(_) | None => return Err(misfit()),
        }),
        "comment" => return Ok(None),
        _ => return Err(form(place, "has an unknown type")),
    }))
}

/// Reads a float. Whole ones become integers, as in the output of `sops`.
fn float(text: &str) -> Option<Number> {
    let float: f64 = text.parse().ok()?;
    let digits = float.to_string();
    digits.parse::<i64>().ok().map(Number::from).or_else(|| Number::from_f64(float))
}

/// Returns the bytes of a value that the MAC covers.
fn authenticated(value: &Value) -> Vec<u8> {
    match value {
        Value::Bool(true) => b"True".to_vec(),
        Value::Bool(false) => b"False".to_vec(),
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(float) => float.to_string().into_bytes(),
            None => number.to_string().into_bytes(),
        },
        Value::Text(text) => text.clone(),
        Value::Null | Value::List(_) | Value::Map(_) => Vec::new(),
    }
}

fn form(place: &str, reason: &'static str) -> Error {
    Error::Form { key: shown(place), reason }
}

fn shown(place: &str) -> String {
    object::text::plain(&place.trim_end_matches(':').replace(':', "."), 200)
}
