//! Reads the fields of kustomizations and other configuration, with the location of every mistake.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::error::{Reason, RenderError, did_you_mean};
use yaml::{Map, Node, Reading, Value};

pub(super) type Result<T> = std::result::Result<T, Box<RenderError>>;

/// A value and its location.
#[derive(Clone, Debug)]
pub(super) struct Located<'a> {
    pub file: &'a str,
    /// Its path in the file, such as `patches[0].target`.
    pub field: String,
    /// The line of its key, or of the value itself.
    pub line: u32,
    pub node: &'a Node,
}

/// The fields of a map. Readers take them one by one, and leftover fields are mistakes.
pub(super) struct Fields<'a> {
    file: &'a str,
    field: String,
    map: &'a Map,
    known: Vec<&'static str>,
}

impl<'a> Located<'a> {
    /// Returns the root of a file.
    pub(super) fn root(file: &'a str, node: &'a Node) -> Self {
        Self { file, field: String::new(), line: node.line, node }
    }

    /// Returns an error at this location.
    pub(super) fn error(&self, reason: Reason, message: impl Into<String>) -> Box<RenderError> {
        let error = RenderError::new(reason, self.file, message).line(self.line);
        Box::new(if self.field.is_empty() { error } else { error.field(self.field.clone()) })
    }

    fn wrong_shape(&self, expected: &str) -> Box<RenderError> {
        self.error(Reason::InvalidValue, format!("must be {expected}, not {}", self.node.kind()))
    }

    /// Returns the fields of this map. `null` has none.
    pub(super) fn fields(&self) -> Result<Fields<'a>> {
        static NOTHING: Map = Map::new();
        let map = if self.node.is_null() {
            &NOTHING
        } else {
            self.node.as_map().ok_or_else(|| self.wrong_shape("a map"))?
        };
        Ok(Fields { file: self.file, field: self.field.clone(), map, known: Vec::new() })
    }

    pub(super) fn items(&self) -> Result<Vec<Located<'a>>> {
        let items = self.node.as_list().ok_or_else(|| self.wrong_shape("a list"))?;
        let item = |(index, node): (usize, &'a Node)| Located {
            file: self.file,
            field: format!("{}[{index}]", self.field),
            line: if node.line > 0 { node.line } else { self.line },
            node,
        };
        Ok(items.iter().enumerate().map(item).collect())
    }

    fn json(&self) -> Result<Json> {
        match &self.node.value {
            Value::Scalar(scalar) => scalar
                .to_json(Reading::Yaml11)
                .map_err(|unreadable| self.error(Reason::InvalidValue, unreadable.0)),
            Value::List(_) | Value::Map(_) => Err(self.wrong_shape("a single value")),
        }
    }

    /// Returns this string. `null` is an empty string.
    pub(super) fn string(&self) -> Result<String> {
        match self.json()? {
            Json::String(text) => Ok(text),
            Json::Null => Ok(String::new()),
            _ => {
                let message =
                    format!("must be a string, and {} reads as {}", self.node.text(), kind_of(&self.json()?));
                Err(Box::new(
                    self.error(Reason::InvalidValue, message)
                        .hint(format!("write it in quotes: \"{}\"", self.node.text())),
                ))
            }
        }
    }

    pub(super) fn bool(&self) -> Result<bool> {
        match self.json()? {
            Json::Bool(value) => Ok(value),
            Json::Null => Ok(false),
            _ => Err(self.wrong_shape("true or false")),
        }
    }

    pub(super) fn integer(&self) -> Result<i64> {
        match self.json()? {
            Json::Number(number) => number.as_i64().ok_or_else(|| self.wrong_shape("an integer")),
            Json::Null => Ok(0),
            _ => Err(self.wrong_shape("an integer")),
        }
    }

    pub(super) fn strings(&self) -> Result<Vec<String>> {
        self.items()?.iter().map(Located::string).collect()
    }

    pub(super) fn string_map(&self) -> Result<BTreeMap<String, String>> {
        let fields = self.fields()?;
        fields.entries().map(|(key, value)| Ok((key, value.string()?))).collect()
    }
}

fn kind_of(json: &Json) -> &'static str {
    match json {
        Json::Bool(_) => "a boolean",
        Json::Number(_) => "a number",
        Json::Null => "null",
        Json::String(_) => "a string",
        Json::Array(_) => "a list",
        Json::Object(_) => "a map",
    }
}

impl<'a> Fields<'a> {
    /// Returns all fields, with keys read as YAML 1.1.
    fn entries(&self) -> impl Iterator<Item = (String, Located<'a>)> {
        self.map.iter().map(|(key, entry)| {
            let field = if self.field.is_empty() { key.clone() } else { format!("{}.{key}", self.field) };
            (key.clone(), Located { file: self.file, field, line: entry.line, node: &entry.node })
        })
    }

    /// Takes a field, ignoring case like kustomize. Returns None if it is absent or `null`.
    pub(super) fn take(&mut self, name: &'static str) -> Option<Located<'a>> {
        self.known.push(name);
        let (key, entry) = self
            .map
            .get_key_value(name)
            .or_else(|| self.map.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)))?;
        let field = if self.field.is_empty() { key.clone() } else { format!("{}.{key}", self.field) };
        (!entry.node.is_null()).then_some(Located {
            file: self.file,
            field,
            line: entry.line.max(1),
            node: &entry.node,
        })
    }

    /// Takes a string. Returns an empty string if it is absent.
    pub(super) fn string(&mut self, name: &'static str) -> Result<String> {
        self.take(name).map_or(Ok(String::new()), |value| value.string())
    }

    /// Takes a boolean. Returns false if it is absent.
    pub(super) fn bool(&mut self, name: &'static str) -> Result<bool> {
        self.take(name).map_or(Ok(false), |value| value.bool())
    }

    pub(super) fn strings(&mut self, name: &'static str) -> Result<Vec<String>> {
        self.take(name).map_or(Ok(Vec::new()), |value| value.strings())
    }

    pub(super) fn string_map(&mut self, name: &'static str) -> Result<BTreeMap<String, String>> {
        self.take(name).map_or(Ok(BTreeMap::new()), |value| value.string_map())
    }

    /// Takes a list and reads its items.
    pub(super) fn list<T>(
        &mut self,
        name: &'static str,
        read: impl Fn(&Located<'a>) -> Result<T>,
    ) -> Result<Vec<T>> {
        self.take(name).map_or(Ok(Vec::new()), |value| value.items()?.iter().map(read).collect())
    }

    /// Takes a value and reads it.
    pub(super) fn one<T>(
        &mut self,
        name: &'static str,
        read: impl Fn(&Located<'a>) -> Result<T>,
    ) -> Result<Option<T>> {
        self.take(name).map(|value| read(&value)).transpose()
    }

    /// Fails if there are fields that were not taken.
    pub(super) fn finish(self) -> Result<()> {
        let is_known = |key: &str| self.known.iter().any(|known| known.eq_ignore_ascii_case(key));
        let Some((key, value)) = self.entries().find(|(key, _)| !is_known(key)) else { return Ok(()) };
        let hint = did_you_mean(&key, self.known.iter().copied());
        Err(Box::new(value.error(Reason::UnknownField, "there is no such field").hint_maybe(hint)))
    }
}
