//! JSON bodies, and detection of duplicate fields.

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use store::{ApiError, FieldError, FieldValidation};

/// The maximum number of reported duplicate fields, and the maximum length of each: a body may repeat a long
/// path many times.
const MOST_REPEATED: usize = 100;
const LONGEST_PATH: usize = 200;
/// The maximum number of maps in a body. Each takes 650 bytes of memory, however short its text is. No object
/// that fits in etcd has more.
const MOST_MAPS: usize = 60_000;

/// A parsed body. The last of several duplicate fields wins.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) value: Value,
    /// Warnings about duplicate fields.
    repeated: Vec<String>,
}

/// The role of a body in its request, which decides how duplicate fields are rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Object,
    /// A patch of the object.
    Patch,
    /// A configuration to apply.
    Apply,
}

impl Body {
    /// Parses JSON.
    ///
    /// # Errors
    /// Fails if the text is not valid JSON, or has too many maps.
    pub(super) fn json(text: &[u8], role: Role) -> Result<Self, serde_json::Error> {
        let mut found = Found::default();
        let mut json = serde_json::Deserializer::from_slice(text);
        let value = Reader(&mut found).deserialize(&mut json)?;
        json.end()?;
        let repeated = found.repeated;
        let line = if text.contains(&b'\n') { "" } else { "line 1: " };
        let sentence = |path: String| match role {
            Role::Object | Role::Patch => format!("duplicate field {path:?}"),
            Role::Apply => {
                let key = path.rsplit(['.', ']']).next().unwrap_or_default().to_owned();
                format!("{line}key {key:?} already set in map")
            }
        };
        Ok(Self { value, repeated: repeated.into_iter().map(sentence).collect() })
    }

    /// Creates a body from a value that was parsed elsewhere.
    pub(super) fn from_value(value: Value) -> Self {
        Self { value, repeated: Vec::new() }
    }

    /// Returns the warnings for the client.
    ///
    /// # Errors
    /// 400, or 422 for a patch, if the validation is strict and a field is duplicated.
    pub(super) fn warnings(&self, role: Role, validation: FieldValidation) -> Result<Vec<String>, ApiError> {
        if self.repeated.is_empty() {
            return Ok(Vec::new());
        }
        let message = format!("strict decoding error: {}", self.repeated.join(", "));
        match (validation, role) {
            (FieldValidation::Ignore, _) => Ok(Vec::new()),
            (FieldValidation::Warn, _) => Ok(self.repeated.clone()),
            (FieldValidation::Strict, Role::Patch) => {
                let error = FieldError::invalid("patch", &self.value.to_string().into(), message);
                Err(ApiError::invalid("", "", "", &[error]))
            }
            (FieldValidation::Strict, Role::Object | Role::Apply) => Err(ApiError::bad_request(message)),
        }
    }
}

/// The state of a reader: the current path, and its findings so far.
#[derive(Default)]
struct Found {
    path: String,
    repeated: Vec<String>,
    maps: usize,
}

/// Reads the value at the current path.
struct Reader<'r>(&'r mut Found);

impl Reader<'_> {
    /// Reads a value one level deeper.
    fn below<T>(&mut self, step: &str, read: impl FnOnce(Reader<'_>) -> T) -> T {
        let here = self.0.path.len();
        self.0.path.push_str(step);
        let read = read(Reader(self.0));
        self.0.path.truncate(here);
        read
    }
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        let step = |list: &Vec<Value>| format!("[{}]", list.len());
        while let Some(item) = self.below(&step(&list), |reader| items.next_element_seed(reader))? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<Value, A::Error> {
        self.0.maps += 1;
        if self.0.maps > MOST_MAPS {
            return Err(A::Error::custom(format_args!("it has more than {MOST_MAPS} maps")));
        }
        let mut map = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            let step = if self.0.path.is_empty() { name.clone() } else { format!(".{name}") };
            let value = self.below(&step, |reader| fields.next_value_seed(reader))?;
            if map.insert(name, value).is_some() && self.0.repeated.len() < MOST_REPEATED {
                let path = self.0.path.chars().chain(step.chars()).take(LONGEST_PATH).collect();
                self.0.repeated.push(path);
            }
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn duplicate_fields_are_reported_by_their_paths() {
        let text = br#"{"a": 1, "b": {"c": [{}, {"d": 1, "d": [2.5, null, true, "x"]}]}, "a": -3}"#;
        let body = Body::json(text, Role::Object).unwrap();
        assert_eq!(body.value, json!({ "a": -3, "b": { "c": [{}, { "d": [2.5, null, true, "x"] }] } }));
        let warnings = body.warnings(Role::Object, FieldValidation::Warn).unwrap();
        assert_eq!(warnings, [r#"duplicate field "b.c[1].d""#, r#"duplicate field "a""#]);
        assert_eq!(body.warnings(Role::Object, FieldValidation::Strict).unwrap_err().code(), 400);
        assert_eq!(body.warnings(Role::Patch, FieldValidation::Strict).unwrap_err().code(), 422);
        assert!(body.warnings(Role::Object, FieldValidation::Ignore).unwrap().is_empty());
    }

    #[test]
    fn a_body_that_repeats_a_long_path_or_is_full_of_maps_takes_little_memory() {
        let repeats = format!("{{\"{}\":{{{}\"a\":1}}}}", "x".repeat(1 << 20), "\"a\":1,".repeat(10_000));
        let repeated = Body::json(repeats.as_bytes(), Role::Object).unwrap().repeated;
        let bytes: usize = repeated.iter().map(String::len).sum();
        assert!(repeated.len() == MOST_REPEATED && bytes < 100 * 300, "{bytes}");
        let maps =
            |count: usize| Body::json(format!("[{}{{}}]", "{},".repeat(count - 1)).as_bytes(), Role::Object);
        assert!(maps(MOST_MAPS).is_ok());
        assert!(maps(MOST_MAPS + 1).unwrap_err().to_string().starts_with("it has more than 60000 maps"));
    }

    #[test]
    fn text_after_the_value_and_values_nested_too_deeply_are_refused() {
        assert!(Body::json(b"{} {}", Role::Object).is_err());
        assert!(Body::json("[".repeat(200).as_bytes(), Role::Object).is_err());
    }
}
