//! YAML values with their text, type and line.

use std::collections::BTreeMap;

use crate::limits::VALUE_BYTES;

/// A value of a YAML document.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The line on which it starts, counted from 1; 0 if it is not from a file.
    pub line: u32,
    pub value: Value,
    /// The ID of the text that this value shares with other fields of the object, so that changing one changes
    /// all; 0 if it shares none.
    pub shared: u32,
}

/// The three shapes of YAML values.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A text with a type.
    Scalar(Scalar),
    /// Values in order.
    List(Vec<Node>),
    /// Values by key.
    Map(Map),
}

/// The fields of a map, by key. Reading does not keep their order.
pub type Map = BTreeMap<String, Entry>;

/// A field of a map.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The style of the key. Some readers distinguish a plain `on` from a quoted one.
    pub key_style: Style,
    /// The line of the key.
    pub line: u32,
    /// The field's value.
    pub node: Node,
}

/// A scalar with its text as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scalar {
    /// The text, without quotes and escapes.
    pub text: String,
    pub tag: Tag,
    pub style: Style,
}

/// The type of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// Undecided: the text determines the type at the next read, unless it is quoted.
    Unsettled,
    /// `null`.
    Null,
    /// `true` and `false`.
    Bool,
    Int,
    Float,
    Str,
    /// A date or time, read as a string.
    Timestamp,
    /// Base64 bytes, read as the string that they encode.
    Binary,
}

/// The style of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Without quotes; the text determines the type.
    Plain,
    /// In quotes or as a literal block.
    Quoted,
    /// As a folded block.
    Folded,
    /// With an explicit `!!type`.
    Tagged,
}

impl Scalar {
    /// Returns a string, even if its text looks like another type.
    pub fn string(text: impl Into<String>) -> Self {
        Self { text: text.into(), tag: Tag::Str, style: Style::Plain }
    }

    /// Returns a scalar whose text determines its type.
    pub fn unsettled(text: impl Into<String>) -> Self {
        Self { text: text.into(), tag: Tag::Unsettled, style: Style::Plain }
    }

    /// Returns `null`.
    pub fn null() -> Self {
        Self { text: "null".into(), tag: Tag::Null, style: Style::Plain }
    }
}

impl From<Value> for Node {
    fn from(value: Value) -> Self {
        Self { line: 0, value, shared: 0 }
    }
}

impl From<Scalar> for Node {
    fn from(scalar: Scalar) -> Self {
        Value::Scalar(scalar).into()
    }
}

impl From<Node> for Entry {
    fn from(node: Node) -> Self {
        Self { key_style: Style::Plain, line: node.line, node }
    }
}

impl Node {
    /// Returns a map without fields.
    pub fn empty_map() -> Self {
        Value::Map(Map::new()).into()
    }

    /// Returns a string, even if its text looks like another type.
    pub fn string(text: impl Into<String>) -> Self {
        Scalar::string(text).into()
    }

    /// Returns the fields, if this is a map.
    pub fn as_map(&self) -> Option<&Map> {
        match &self.value {
            Value::Map(map) => Some(map),
            Value::Scalar(_) | Value::List(_) => None,
        }
    }

    /// Returns the fields, if this is a map.
    pub fn as_map_mut(&mut self) -> Option<&mut Map> {
        match &mut self.value {
            Value::Map(map) => Some(map),
            Value::Scalar(_) | Value::List(_) => None,
        }
    }

    /// Returns the items, if this is a list.
    pub fn as_list(&self) -> Option<&[Node]> {
        match &self.value {
            Value::List(items) => Some(items),
            Value::Scalar(_) | Value::Map(_) => None,
        }
    }

    /// Returns the scalar, if this is one.
    pub fn as_scalar(&self) -> Option<&Scalar> {
        match &self.value {
            Value::Scalar(scalar) => Some(scalar),
            Value::List(_) | Value::Map(_) => None,
        }
    }

    /// Returns the text of a scalar as written; empty for lists and maps.
    pub fn text(&self) -> &str {
        self.as_scalar().map(|scalar| scalar.text.as_str()).unwrap_or_default()
    }

    /// Returns a field of a map.
    pub fn get(&self, field: &str) -> Option<&Node> {
        self.as_map()?.get(field).map(|entry| &entry.node)
    }

    /// Returns a field of a map.
    pub fn get_mut(&mut self, field: &str) -> Option<&mut Node> {
        self.as_map_mut()?.get_mut(field).map(|entry| &mut entry.node)
    }

    /// Sets a field; does nothing if this is not a map.
    pub fn set(&mut self, field: &str, node: impl Into<Node>) {
        let node = node.into();
        if let Some(map) = self.as_map_mut() {
            match map.get_mut(field) {
                Some(entry) => entry.node = node,
                None => {
                    map.insert(field.into(), node.into());
                }
            }
        }
    }

    /// Removes a field.
    pub fn remove(&mut self, field: &str) -> Option<Node> {
        self.as_map_mut()?.remove(field).map(|entry| entry.node)
    }

    /// Returns a field of a map, creating it as a map if it is absent; `None` if this is not a map.
    pub fn map_at(&mut self, field: &str) -> Option<&mut Node> {
        let map = self.as_map_mut()?;
        let entry = map.entry(field.into()).or_insert_with(|| Self::empty_map().into());
        if entry.node.is_null() {
            entry.node.value = Value::Map(Map::new());
        }
        Some(&mut entry.node)
    }

    /// Returns true if this is `null`.
    pub fn is_null(&self) -> bool {
        self.as_scalar().is_some_and(|scalar| scalar.tag == Tag::Null)
    }

    /// Returns true if this is `null`, `{}` or `[]`.
    pub fn is_empty(&self) -> bool {
        match &self.value {
            Value::Scalar(scalar) => scalar.tag == Tag::Null,
            Value::List(items) => items.is_empty(),
            Value::Map(map) => map.is_empty(),
        }
    }

    /// Returns the kind of value for messages, such as "a map", "a list" or "a string".
    pub fn kind(&self) -> &'static str {
        match &self.value {
            Value::Map(_) => "a map",
            Value::List(_) => "a list",
            Value::Scalar(scalar) => match scalar.tag {
                Tag::Null => "null",
                Tag::Bool => "a boolean",
                Tag::Int | Tag::Float => "a number",
                Tag::Str | Tag::Unsettled | Tag::Timestamp | Tag::Binary => "a string",
            },
        }
    }

    /// Calls `visit` on this value and every value inside it.
    pub fn for_each(&mut self, visit: &mut dyn FnMut(&mut Node)) {
        visit(self);
        match &mut self.value {
            Value::Scalar(_) => {}
            Value::List(items) => items.iter_mut().for_each(|item| item.for_each(visit)),
            Value::Map(map) => map.values_mut().for_each(|entry| entry.node.for_each(visit)),
        }
    }

    /// Returns a copy that shares no text.
    pub fn unshared(&self) -> Self {
        let mut copy = self.clone();
        copy.for_each(&mut |node| node.shared = 0);
        copy
    }

    /// Returns the number of bytes in the keys and texts of this value.
    pub fn text_bytes(&self) -> usize {
        match &self.value {
            Value::Scalar(scalar) => scalar.text.len(),
            Value::List(items) => items.iter().map(Self::text_bytes).sum(),
            Value::Map(map) => map.iter().map(|(key, entry)| key.len() + entry.node.text_bytes()).sum(),
        }
    }

    /// Returns the memory that this value takes, in bytes.
    pub fn memory(&self) -> usize {
        self.size().saturating_mul(VALUE_BYTES).saturating_add(self.text_bytes())
    }

    /// Returns the number of values in this one, including itself.
    pub fn size(&self) -> usize {
        match &self.value {
            Value::Scalar(_) => 1,
            Value::List(items) => 1 + items.iter().map(Self::size).sum::<usize>(),
            Value::Map(map) => 1 + map.values().map(|entry| entry.node.size()).sum::<usize>(),
        }
    }
}
