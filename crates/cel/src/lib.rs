//! Parses and evaluates untrusted CEL expressions within limits, on a stack that is large enough.
//!
//! The parser, the evaluator and all code that walks an expression are recursive, and a stack overflow kills the
//! process. Every expression of a Placement, a ManifestWork, an admission policy or a CustomResourceDefinition
//! therefore goes through [`parse`], and every evaluation through [`evaluate`].

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kube_cel::cel::common::ast::IdedExpr;
use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::{Program, Value};

pub use limits::{MAX_RANGE, pattern_steps};
pub use names::{check_names, library};

mod limits;
mod names;
mod tokens;

/// Maximum length of an expression in bytes. Expressions in real policies have a few hundred.
pub const MAX_LENGTH: usize = 8192;
/// Maximum nesting of a parsed expression. A macro takes about four levels.
pub const MAX_DEPTH: usize = 100;

/// Stack size of the parser in bytes. In an unoptimized build, 96 brackets take 17 MiB, and a chain of 4,000
/// fields takes 11 MiB.
const PARSER_STACK: usize = 64 << 20;
/// Stack size of an evaluation in bytes. A level takes up to 2 KiB, or 60 KiB in an unoptimized build. Tokio's
/// threads have 2 MiB, so an optimized build evaluates on them directly.
const EVALUATION_STACK: usize = if cfg!(debug_assertions) { 32 << 20 } else { 1 << 20 };

/// Parses an expression.
///
/// # Errors
/// Fails if the expression is invalid or exceeds a limit.
pub fn parse(source: &str) -> Result<IdedExpr, String> {
    if source.len() > MAX_LENGTH {
        return Err(format!(
            "the expression has {} bytes, but at most {MAX_LENGTH} are allowed",
            source.len()
        ));
    }
    tokens::check(source)?;
    contained(PARSER_STACK, || {
        let program = Program::compile(source).map_err(|e| e.to_string().trim_end().to_owned())?;
        let expression = program.expression();
        limits::check(expression)?;
        Ok(expression.clone())
    })
}

/// Runs a third-party CEL parser on a large stack.
pub fn with_stack_of_parser<T>(parse: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(PARSER_STACK, PARSER_STACK, parse)
}

/// Runs an evaluation of parsed expressions.
///
/// # Errors
/// Returns the error of the evaluation, or an error if it panics.
pub fn evaluate<T>(run: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    contained(EVALUATION_STACK, run)
}

/// Runs a function with the given stack size, and turns a panic into an error: the CEL crates panic on some input.
fn contained<T>(stack: usize, run: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    stacker::maybe_grow(stack, stack, || catch_unwind(AssertUnwindSafe(run)))
        .unwrap_or_else(|_| Err("the expression failed unexpectedly".into()))
}

/// Converts JSON to a CEL value. Integers become `int` if they fit, as in Go; the CEL crate's conversion makes
/// them `uint`.
pub fn value(json: &serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(bool) => Value::Bool(*bool),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(int), _) => Value::Int(int),
            (None, Some(uint)) => Value::UInt(uint),
            (None, None) => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        serde_json::Value::String(text) => Value::String(Arc::new(text.clone())),
        serde_json::Value::Array(list) => Value::List(Arc::new(list.iter().map(value).collect())),
        serde_json::Value::Object(fields) => {
            map(fields.iter().map(|(name, json)| (name.as_str(), value(json))))
        }
    }
}

/// Returns a CEL map with these entries.
pub fn map<'n>(entries: impl IntoIterator<Item = (&'n str, Value)>) -> Value {
    let key = |name: &str| Key::String(Arc::new(name.to_owned()));
    Value::Map(Map { map: Arc::new(entries.into_iter().map(|(name, value)| (key(name), value)).collect()) })
}

#[cfg(test)]
mod tests;
