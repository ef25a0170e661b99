//! Converts nodes to JSON and back.

use serde_json::{Number, Value as Json};

use super::node::{Entry, Node, Scalar, Style, Tag, Value};
use super::print::float_text;
use super::scalar::{Reading, Unreadable};
use super::scalar_style;

impl Node {
    /// Returns the JSON value of this in a reading.
    ///
    /// # Errors
    /// The line, and [`Unreadable`], of the first scalar that has no JSON value.
    pub fn to_json(&self, reading: Reading) -> Result<Json, (u32, Unreadable)> {
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

    /// Takes a JSON value as it would be written and read again.
    pub(crate) fn from_json(json: &Json) -> Self {
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

fn number_text(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() => float_text(float),
        _ => number.to_string(),
    }
}

/// Returns a key as JSON: one that YAML 1.1 reads as a boolean or a number is written as that; others keep
/// their text.
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
