//! Compact encoding for similar objects: one complete object, and the values in which the others differ.
//!
//! The objects of a fleet repeat for each cluster, except for names, uids and times. A value is a string,
//! number, boolean or null. Its place is its index among all values of the object, in the order of the field
//! names.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::de::Error as _;
use serde::{Deserialize, Serialize};
use serde_json::{Error, Value};

use object::Object;

/// A value, and the places at which an object has it.
#[derive(Serialize, Deserialize)]
struct Difference(Value, Vec<usize>);

/// Encodes objects with the same fields.
#[derive(Default)]
pub(super) struct AlikeWriter {
    /// The encoded text so far: the first object, then the differences of each other object with a leading
    /// comma.
    text: String,
    /// The values of the first object.
    values: Vec<Value>,
}

impl AlikeWriter {
    /// Adds an object with the same fields as the previous ones.
    pub(super) fn add(&mut self, object: &Value) -> serde_json::Result<()> {
        let mut values = Vec::new();
        values_of(object, &mut values);
        if self.text.is_empty() {
            self.text = format!("{{\"object\":{},\"others\":[", serde_json::to_string(object)?);
            self.values = values.into_iter().cloned().collect();
            return Ok(());
        }
        let mut differences: Vec<Difference> = Vec::new();
        for (place, (value, first)) in values.into_iter().zip(&self.values).enumerate() {
            if value == first {
                continue;
            }
            match differences.iter_mut().find(|known| known.0 == *value) {
                Some(known) => known.1.push(place),
                None => differences.push(Difference(value.clone(), vec![place])),
            }
        }
        let comma = if self.text.ends_with('[') { "" } else { "," };
        self.text.push_str(comma);
        self.text.push('\n');
        self.text.push_str(&serde_json::to_string(&differences)?);
        Ok(())
    }

    /// Returns the number of bytes written.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// Returns the text, which [`Alike`] can parse.
    pub(super) fn finish(mut self) -> String {
        self.text.push_str("]}");
        self.text
    }
}

/// Returns the field structure of an object without its values. Objects with the same fields have equal results.
pub(super) fn fields_of(value: &Value) -> String {
    let mut fields = String::new();
    add_fields(value, &mut fields);
    fields
}

fn add_fields(value: &Value, fields: &mut String) {
    match value {
        Value::Object(map) => {
            fields.push('{');
            for (name, value) in map {
                // The length prefix makes names unambiguous.
                let _ = write!(fields, "{}:{name}", name.len());
                add_fields(value, fields);
            }
            fields.push('}');
        }
        Value::Array(items) => {
            fields.push('[');
            items.iter().for_each(|item| add_fields(item, fields));
            fields.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => fields.push(','),
    }
}

/// Objects with the same fields.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Alike {
    object: Object,
    others: Vec<Vec<Difference>>,
}

impl Alike {
    /// Returns the objects whose part `takes` accepts. `part` must select the same fields from each object.
    /// `left` is the number of bytes of JSON that may still be read.
    ///
    /// # Errors
    /// Fails if an object does not differ from the first, has a value at a place that does not exist there, or
    /// exceeds `left`.
    pub(super) fn objects(
        self,
        part: impl Fn(&Object) -> Option<Object>,
        mut takes: impl FnMut(&Object) -> bool,
        left: &mut usize,
    ) -> serde_json::Result<Vec<Object>> {
        let first = Value::Object(self.object.0);
        let mut values = Vec::new();
        values_of(&first, &mut values);
        let mut numbered = first.clone();
        let mut places = 0..;
        each_value(&mut numbered, &mut |value| {
            *value = places.next().map_or(Value::Null, |place: usize| place.to_string().into());
        });
        let part = part(&object_of(numbered.clone())?).map_or_else(|| numbered.clone(), Object::into_value);
        let [bytes, bytes_of_part] = [&first, &part].map(|value| value.to_string().len());
        let mut objects = Vec::new();
        for (number, differences) in std::iter::once(Vec::new()).chain(self.others).enumerate() {
            take(left, bytes_of_part)?;
            let all = differences.iter().flat_map(|it| it.1.iter().map(|place| (*place, &it.0)));
            let changed: BTreeMap<usize, &Value> = all.collect();
            let last = changed.keys().next_back();
            if number > 0 && last.is_none_or(|place| *place >= values.len()) {
                let places = values.len();
                return Err(Error::custom(format!("difference {number} has no place in {places} values")));
            }
            let at = |place: usize| changed.get(&place).or_else(|| values.get(place)).copied();
            if takes(&filled(&part, at)?) {
                take(left, bytes)?;
                objects.push(filled(&numbered, at)?);
            }
        }
        Ok(objects)
    }
}

/// Returns an object in which each place is replaced by its value.
fn filled<'v>(numbered: &Value, at: impl Fn(usize) -> Option<&'v Value>) -> serde_json::Result<Object> {
    let mut object = numbered.clone();
    each_value(&mut object, &mut |value| {
        if let Some(known) = value.as_str().and_then(|place| at(place.parse().ok()?)) {
            known.clone_into(value);
        }
    });
    object_of(object)
}

fn take(left: &mut usize, bytes: usize) -> serde_json::Result<()> {
    *left = left.checked_sub(bytes).ok_or_else(|| Error::custom("the objects are too large in total"))?;
    Ok(())
}

fn object_of(value: Value) -> serde_json::Result<Object> {
    Object::from_value(value).map_err(Error::custom)
}

fn values_of<'v>(value: &'v Value, values: &mut Vec<&'v Value>) {
    match value {
        Value::Object(fields) => fields.values().for_each(|value| values_of(value, values)),
        Value::Array(items) => items.iter().for_each(|item| values_of(item, values)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => values.push(value),
    }
}

/// Calls `edit` for the values in the order of their places.
fn each_value(value: &mut Value, edit: &mut impl FnMut(&mut Value)) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(|value| each_value(value, edit)),
        Value::Array(items) => items.iter_mut().for_each(|item| each_value(item, edit)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => edit(value),
    }
}
