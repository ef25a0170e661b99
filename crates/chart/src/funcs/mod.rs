//! The functions of templates, from Go, Sprig and Helm. Each module has a table of its functions.

mod certificates;
mod crypto;
pub(crate) mod date;
mod dicts;
mod encoding;
mod helm;
mod lists;
mod logic;
mod math;
mod merge;
mod passwords;
mod paths;
pub(crate) mod regexes;
mod strings;
mod types;
mod versions;
mod words;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::LazyLock;

use crate::fault::Fault;
use crate::object::Object;
use crate::random::Random;
use crate::template::node::Pos;
use crate::template::parse::Tree;
use crate::template::{Env, Set};
use crate::value::{List, Map, Value};

/// The Go type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Any,
    Str,
    Bool,
    Int,
    Float,
    Map,
    List,
    Time,
    Certificate,
}

impl Type {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Any => "interface {}",
            Self::Str => "string",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Float => "float64",
            Self::Map => "map[string]interface {}",
            Self::List => "[]interface {}",
            Self::Time => "time.Time",
            Self::Certificate => "sprig.certificate",
        }
    }

    pub(crate) fn takes(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Any, _)
            | (Self::Str, Value::Str(_))
            | (Self::Bool, Value::Bool(_))
            | (Self::Int, Value::Int(_))
            | (Self::Float, Value::Float(_))
            | (Self::Map, Value::Map(_))
            | (Self::List, Value::List(_)) => true,
            (Self::Time, Value::Object(object)) => matches!(**object, Object::Time(_)),
            (Self::Certificate, Value::Object(object)) => matches!(**object, Object::Certificate(_)),
            _ => false,
        }
    }
}

pub(crate) type Outcome = Result<Value, Fault>;

/// A function and the types of its parameters.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) params: &'static [Type],
    /// The type of variadic arguments.
    pub(crate) rest: Option<Type>,
    pub(crate) run: fn(Call<'_>) -> Outcome,
}

impl Function {
    const fn new(name: &'static str, params: &'static [Type], run: fn(Call<'_>) -> Outcome) -> Self {
        Self { name, params, rest: None, run }
    }

    const fn rest(self, typ: Type) -> Self {
        Self { rest: Some(typ), ..self }
    }

    pub(crate) fn parameter(&self, at: usize) -> Type {
        self.params.get(at).copied().or(self.rest).unwrap_or(Type::Any)
    }
}

/// A function call. The arguments match the types of the parameters.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) env: &'a Env,
    pub(crate) set: &'a Rc<Set>,
    pub(crate) args: &'a [Value],
    /// The location of the call.
    pub(crate) site: (&'a Tree, Pos),
}

impl<'a> Call<'a> {
    fn arg(&self, at: usize) -> &'a Value {
        self.args.get(at).unwrap_or(&Value::Nil)
    }

    fn str(&self, at: usize) -> &'a str {
        self.arg(at).as_str().unwrap_or_default()
    }

    fn int(&self, at: usize) -> i64 {
        match self.arg(at) {
            Value::Int(number) | Value::Int64(number) => *number,
            _ => 0,
        }
    }

    fn bool(&self, at: usize) -> bool {
        matches!(self.arg(at), Value::Bool(true))
    }

    fn map(&self, at: usize) -> Option<&'a Map> {
        self.arg(at).as_map()
    }

    /// Returns the map of an argument, or the error for writing to a nil map.
    fn writable(&self, at: usize) -> Result<&'a Map, Fault> {
        self.map(at).ok_or_else(|| Fault::text("assignment to entry in nil map"))
    }

    /// Returns the random bytes of the call.
    ///
    /// They depend on the rendered file, on the action in this file, and on the action with the call, which may be
    /// in another template. They do not depend on line numbers, so that most upgrades of a chart keep the values.
    fn random(&self) -> Result<Random, Fault> {
        let output = self.env.output.borrow();
        let outer = self.set.get(&output).map(|tree| tree.action(self.env.action.get()));
        let (tree, pos) = self.site;
        let key = [output.as_bytes(), outer.unwrap_or_default(), tree.name.as_bytes(), tree.action(pos)];
        self.env.budget.work(key.iter().map(|part| part.len() as u64 / 64).sum())?;
        Ok(self.env.fresh.random(&key))
    }

    fn from(&self, at: usize) -> &'a [Value] {
        self.args.get(at..).unwrap_or_default()
    }

    /// Returns the items of a list of any type, or Sprig's error.
    fn list(&self, at: usize, verb: &str) -> Result<&'a List, Fault> {
        match self.arg(at) {
            Value::List(list) => Ok(list),
            other => Err(Fault::text(format!("Cannot {verb} on type {}", other.kind_name()))),
        }
    }
}

static FUNCTIONS: LazyLock<BTreeMap<&'static str, &'static Function>> = LazyLock::new(|| {
    [
        logic::FUNCTIONS,
        strings::FUNCTIONS,
        words::FUNCTIONS,
        lists::FUNCTIONS,
        dicts::FUNCTIONS,
        merge::FUNCTIONS,
        math::FUNCTIONS,
        types::FUNCTIONS,
        regexes::FUNCTIONS,
        encoding::FUNCTIONS,
        certificates::FUNCTIONS,
        crypto::FUNCTIONS,
        passwords::FUNCTIONS,
        date::FUNCTIONS,
        paths::FUNCTIONS,
        versions::FUNCTIONS,
        helm::FUNCTIONS,
    ]
    .into_iter()
    .flatten()
    .map(|function| (function.name, function))
    .collect()
});

pub(crate) fn function(name: &str) -> Option<&'static Function> {
    FUNCTIONS.get(name).copied()
}

pub(crate) fn is_function(name: &str) -> bool {
    FUNCTIONS.contains_key(name)
}
