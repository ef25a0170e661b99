//! Converts nodes to JSON and back.

use serde_json::{Number, Value as Json};

use super::node::{Entry, Node, Scalar, Style, Tag, Value};
use super::print::{float_text, refolded};
use super::scalar::{Reading, bool_11, integer, is_float, tag_of, timestamp, without_underscores};
use super::scalar_style;

/// A scalar that does not fit its explicit type or has no JSON representation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableScalar(pub String);

impl Node {
    /// Converts the node to JSON under the given reading.
    ///
    /// # Errors
    /// Returns the line of the first scalar that has no JSON value, with its [`UnreadableScalar`].
    pub fn to_json(&self, reading: Reading) -> Result<Json, (u32, UnreadableScalar)> {
        Ok(match &self.value {
            Value::Scalar(scalar) => scalar.to_json(reading).map_err(|unreadable| (self.line, unreadable))?,
            Value::List(items) => {
                Json::Array(items.iter().map(|item| item.to_json(reading)).collect::<Result<_, _>>()?)
            }
            Value::Map(map) => {
                let field = |(key, entry): (&String, &Entry)| {
                    Ok((key_text(key, entry.key_style, reading), entry.node.to_json(reading)?))
                };
                Json::Object(map.iter().map(field).collect::<Result<_, _>>()?)
            }
        })
    }

    /// Converts a JSON value as if it had been written and read back.
    pub fn from_json(json: &Json) -> Self {
        let scalar = |text: String, tag| Scalar { text, tag, style: Style::Plain }.into();
        match json {
            Json::Null => Scalar::null().into(),
            Json::Bool(value) => scalar(value.to_string(), Tag::Bool),
            Json::Number(number) => {
                scalar(number_text(number), if number.is_f64() { Tag::Float } else { Tag::Int })
            }
            Json::String(text) => {
                let style = if scalar_style::is_plain(text) { Style::Plain } else { Style::Quoted };
                Scalar { text: text.clone(), tag: Tag::Str, style }.into()
            }
            Json::Array(items) => Value::List(items.iter().map(Self::from_json).collect()).into(),
            Json::Object(map) => Value::Map(
                map.iter().map(|(key, value)| (key.clone(), Self::from_json(value).into())).collect(),
            )
            .into(),
        }
    }
}

impl Scalar {
    /// Converts the scalar to JSON under the given reading.
    ///
    /// # Errors
    /// Returns [`UnreadableScalar`] if the text does not fit its type, or JSON cannot represent the number.
    pub fn to_json(&self, reading: Reading) -> Result<Json, UnreadableScalar> {
        let tag = match (reading, self.style) {
            (Reading::Yaml11, Style::Plain) if self.tag != Tag::Unsettled => {
                tag_of(&self.text, Reading::Yaml11)
            }
            _ => self.settled(),
        };
        let misfit = |what: &str| UnreadableScalar(format!("{:?} is not {what}", self.text));
        Ok(match tag {
            Tag::Str | Tag::Unsettled if reading == Reading::Objects && self.style == Style::Folded => {
                Json::String(refolded(&self.text))
            }
            Tag::Str | Tag::Unsettled => Json::String(self.text.clone()),
            Tag::Timestamp => match reading {
                Reading::Objects => Json::String(timestamp(&self.text).ok_or_else(|| misfit("a date"))?),
                Reading::Yaml11 => Json::String(self.text.clone()),
            },
            Tag::Null if tag_of(&self.text, reading) != Tag::Null => return Err(misfit("null")),
            Tag::Null => Json::Null,
            Tag::Bool => Json::Bool(bool_11(&self.text).ok_or_else(|| misfit("a boolean"))?),
            Tag::Int => {
                Json::Number(integer(&without_underscores(&self.text)).ok_or_else(|| misfit("an integer"))?)
            }
            Tag::Float => {
                let plain = without_underscores(&self.text);
                let float = if is_float(&plain) {
                    plain.parse().ok()
                } else {
                    integer(&plain).and_then(|n| n.as_f64())
                };
                let float = float.ok_or_else(|| misfit("a number"))?;
                number(float).ok_or_else(|| misfit("a number that JSON can represent"))?
            }
            Tag::Binary => Json::String(decode_base64(&self.text).ok_or_else(|| misfit("base64"))?),
        })
    }
}

fn decode_base64(text: &str) -> Option<String> {
    use base64::Engine;
    let packed: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let bytes = base64::engine::general_purpose::STANDARD.decode(packed).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns a JSON number, an integer if its digits allow it; `None` for infinities and NaN.
///
/// Below this limit, Go writes floats as plain digits, padded with zeros, and reads them back as integers.
fn number(float: f64) -> Option<Json> {
    const IN_DIGITS: f64 = 1e21;
    let digits = (float.abs() < IN_DIGITS).then(|| float.to_string());
    let whole = digits.and_then(|digits| {
        digits.parse::<i64>().map(Json::from).or_else(|_| digits.parse::<u64>().map(Json::from)).ok()
    });
    whole.or_else(|| Number::from_f64(float).map(Json::Number))
}

fn number_text(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() => float_text(float),
        _ => number.to_string(),
    }
}

/// Returns a key as JSON text. A key that YAML 1.1 reads as a boolean or a number takes the text of that value.
fn key_text(key: &str, style: Style, reading: Reading) -> String {
    let plain = Scalar { text: key.into(), tag: Tag::Str, style };
    match (reading, style) {
        (Reading::Yaml11, Style::Plain) => match plain.to_json(reading) {
            Ok(Json::Bool(value)) => value.to_string(),
            Ok(Json::Number(number)) => number_text(&number),
            Ok(Json::Null | Json::String(_) | Json::Array(_) | Json::Object(_)) | Err(_) => key.to_owned(),
        },
        (Reading::Objects | Reading::Yaml11, _) => key.to_owned(),
    }
}
