//! Template values, with the types that they would have in Go.
//!
//! Charts depend on Go's types: `eq 1 1.0` fails, `printf "%s" 5` prints `%!s(int=5)`, and numbers from YAML are
//! `float64`. They also depend on shared maps: `set` and `merge` change a map for everyone who uses it. Maps are
//! therefore reference-counted cells, and only `deepCopy` copies them.

use std::cell::{Ref, RefCell, RefMut};
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::object::Object;

/// A value in a template.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// No value at all, the result of a pipeline that yields nil: Go's invalid `reflect.Value`.
    Missing,
    /// A nil inside a map, list or argument.
    Nil,
    Bool(bool),
    /// An `int`: literals and the results of `int` and `len`.
    Int(i64),
    /// An `int64`: the results of Sprig's arithmetic.
    Int64(i64),
    /// A `float64`: every number from YAML and JSON.
    Float(f64),
    Str(Rc<str>),
    List(List),
    Map(Map),
    /// A struct of Helm or Go with fields and methods.
    Object(Rc<Object>),
}

/// The element type of a list, which `%T` and `typeOf` print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    Any,
    Str,
    Int,
    Byte,
}

/// An immutable list. Sprig's functions return new lists.
#[derive(Clone, Debug)]
pub(crate) struct List {
    pub(crate) items: Rc<[Value]>,
    pub(crate) element: Element,
}

/// The Go type of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MapType {
    /// `map[string]interface {}`.
    Any,
    /// `common.Values`, Helm's name for the same type.
    Values,
    /// `map[string]string`, whose missing keys are empty strings.
    Strings,
}

pub(crate) type Fields = BTreeMap<Rc<str>, Value>;

/// A map that is shared by all its users.
#[derive(Clone, Debug)]
pub(crate) struct Map {
    fields: Rc<RefCell<Fields>>,
    pub(crate) typ: MapType,
}

impl Map {
    pub(crate) fn new(fields: Fields) -> Self {
        Self { fields: Rc::new(RefCell::new(fields)), typ: MapType::Any }
    }

    pub(crate) fn typed(self, typ: MapType) -> Self {
        Self { typ, ..self }
    }

    pub(crate) fn borrow(&self) -> Ref<'_, Fields> {
        self.fields.borrow()
    }

    pub(crate) fn borrow_mut(&self) -> RefMut<'_, Fields> {
        self.fields.borrow_mut()
    }

    pub(crate) fn get(&self, key: &str) -> Option<Value> {
        self.fields.borrow().get(key).cloned()
    }

    pub(crate) fn insert(&self, key: &str, value: Value) {
        self.fields.borrow_mut().insert(key.into(), value);
    }

    /// Returns a copy of the fields, to iterate while others change the map.
    pub(crate) fn snapshot(&self) -> Vec<(Rc<str>, Value)> {
        self.fields.borrow().iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    pub(crate) fn same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.fields, &other.fields)
    }
}

impl<K: Into<Rc<str>>> FromIterator<(K, Value)> for Map {
    fn from_iter<T: IntoIterator<Item = (K, Value)>>(iter: T) -> Self {
        Self::new(iter.into_iter().map(|(key, value)| (key.into(), value)).collect())
    }
}

impl Value {
    pub(crate) fn str(text: impl Into<Rc<str>>) -> Self {
        Self::Str(text.into())
    }

    pub(crate) fn list(items: Vec<Self>) -> Self {
        Self::List(List { items: items.into(), element: Element::Any })
    }

    pub(crate) fn strings<S: Into<Rc<str>>>(items: impl IntoIterator<Item = S>) -> Self {
        let items = items.into_iter().map(|item| Self::Str(item.into())).collect();
        Self::List(List { items, element: Element::Str })
    }

    pub(crate) fn map(fields: Fields) -> Self {
        Self::Map(Map::new(fields))
    }

    pub(crate) fn is_nil(&self) -> bool {
        matches!(self, Self::Missing | Self::Nil)
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        match self {
            Self::Str(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn as_map(&self) -> Option<&Map> {
        match self {
            Self::Map(map) => Some(map),
            _ => None,
        }
    }

    /// Returns true if Go's templates consider the value true: anything but zero, empty and nil.
    pub(crate) fn truth(&self) -> bool {
        match self {
            Self::Missing | Self::Nil => false,
            Self::Bool(value) => *value,
            Self::Int(value) | Self::Int64(value) => *value != 0,
            Self::Float(value) => *value != 0.0,
            Self::Str(text) => !text.is_empty(),
            Self::List(list) => !list.items.is_empty(),
            Self::Map(map) => !map.borrow().is_empty(),
            Self::Object(object) => object.truth(),
        }
    }

    /// Returns the name of the type, like `%T`.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Missing | Self::Nil => "<nil>",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Int64(_) => "int64",
            Self::Float(_) => "float64",
            Self::Str(_) => "string",
            Self::List(list) => match list.element {
                Element::Any => "[]interface {}",
                Element::Str => "[]string",
                Element::Int => "[]int",
                Element::Byte => "[]uint8",
            },
            Self::Map(map) => match map.typ {
                MapType::Any => "map[string]interface {}",
                MapType::Values => "common.Values",
                MapType::Strings => "map[string]string",
            },
            Self::Object(object) => object.type_name(),
        }
    }

    /// Returns the name of the kind, like `kindOf`.
    pub(crate) fn kind_name(&self) -> &'static str {
        match self {
            Self::Missing | Self::Nil => "invalid",
            Self::List(_) => "slice",
            Self::Map(_) => "map",
            Self::Object(object) => object.kind_name(),
            Self::Bool(_) | Self::Int(_) | Self::Int64(_) | Self::Float(_) | Self::Str(_) => self.type_name(),
        }
    }

    /// Copies maps and lists recursively.
    pub(crate) fn deep_copy(&self) -> Self {
        match self {
            Self::Map(map) => {
                let copy: Map =
                    map.borrow().iter().map(|(key, value)| (key.clone(), value.deep_copy())).collect();
                Self::Map(copy.typed(map.typ))
            }
            Self::List(list) => Self::List(List {
                items: list.items.iter().map(Self::deep_copy).collect(),
                element: list.element,
            }),
            other => other.clone(),
        }
    }

    /// Compares like Go's `reflect.DeepEqual`, including types.
    pub(crate) fn deep_equal(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Missing | Self::Nil, Self::Missing | Self::Nil) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Int(a), Self::Int(b)) | (Self::Int64(a), Self::Int64(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => a == b,
            (Self::Str(a), Self::Str(b)) => a == b,
            (Self::List(a), Self::List(b)) => {
                a.element == b.element
                    && a.items.len() == b.items.len()
                    && a.items.iter().zip(b.items.iter()).all(|(a, b)| a.deep_equal(b))
            }
            (Self::Map(a), Self::Map(b)) => {
                a.same(b) || {
                    let (a, b) = (a.borrow(), b.borrow());
                    a.len() == b.len()
                        && a.iter()
                            .all(|(key, value)| b.get(key).is_some_and(|other| value.deep_equal(other)))
                }
            }
            (Self::Object(a), Self::Object(b)) => a == b,
            _ => false,
        }
    }
}

impl From<&serde_json::Value> for Value {
    fn from(json: &serde_json::Value) -> Self {
        match json {
            serde_json::Value::Null => Self::Nil,
            serde_json::Value::Bool(value) => Self::Bool(*value),
            serde_json::Value::Number(number) => Self::Float(number.as_f64().unwrap_or(f64::INFINITY)),
            serde_json::Value::String(text) => Self::str(text.as_str()),
            serde_json::Value::Array(items) => Self::list(items.iter().map(Self::from).collect()),
            serde_json::Value::Object(fields) => {
                Self::Map(fields.iter().map(|(key, value)| (key.as_str(), Self::from(value))).collect())
            }
        }
    }
}
