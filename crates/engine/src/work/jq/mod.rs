//! jq path expressions in `ignoreFields`, evaluated within limits.
//!
//! OCM runs `del(<expression>)` for at most a second. An engine has no clock, and an interpreter for the whole
//! language also has no memory limit. This module therefore parses the expression as jq, but evaluates only the
//! part of the language that selects fields, step by step. Everything else is rejected by name: definitions,
//! variables, loops, arithmetic, and unlisted functions.

mod compare;
mod compile;
mod evaluate;
mod make;
#[cfg(test)]
mod tests;

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::Value;

use self::evaluate::Stop;
use crate::applier::Path;
use object::steps::StepsLeft;

/// The maximum length of an expression in bytes. It also limits the recursion of the parser, which is about one
/// level per byte.
const MAX_LENGTH: usize = 1024;

/// Returns the fields of an object that an expression selects. Its evaluation consumes steps.
///
/// # Errors
/// Describes the unsupported part, the failure on the object, or the exceeded limit.
pub(super) fn paths(expression: &str, object: &Value, steps: &mut StepsLeft) -> Result<Vec<Path>, String> {
    let length = expression.len();
    if length > MAX_LENGTH {
        return Err(format!("a jq path expression has {length} bytes, at most {MAX_LENGTH} are allowed"));
    }
    let run = || {
        let compiled = compile::compile(expression, steps)?;
        evaluate::paths(&compiled, object, steps).map_err(|stop| match stop {
            Stop::Failed(error) => error,
            Stop::Steps(error) => error.to_string(),
        })
    };
    // The parser and the evaluation recurse, and the parser is third-party code.
    let found = cel::with_stack_of_parser(|| catch_unwind(AssertUnwindSafe(run)));
    let found = found.unwrap_or_else(|_| Err("it failed unexpectedly".into()));
    found.map_err(|error| format!("the jq path expression {expression:?}: {error}"))
}
