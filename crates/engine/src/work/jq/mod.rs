//! jq path expressions of `ignoreFields`, evaluated within limits.
//!
//! Open Cluster Management runs `del(<expression>)` for at most a second. An engine has no clock, and an
//! interpreter of the whole language also has no limit on memory. So the expression is read as jq, and the
//! part of the language that names fields is evaluated, step by step. Everything else is refused by name:
//! definitions, variables, loops, arithmetic, and functions that are not listed.

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

/// Longest expression in bytes. It also limits how deep the parser recurses: to about a level for a byte.
const MAX_LENGTH: usize = 1024;

/// Returns the fields of an object that an expression names, and takes its steps from those that are left.
///
/// # Errors
/// Says what of the expression is not supported, where it fails on the object, or which limit it exceeds.
pub(super) fn paths(expression: &str, object: &Value, steps: &mut StepsLeft) -> Result<Vec<Path>, String> {
    let length = expression.len();
    if length > MAX_LENGTH {
        return Err(format!("a jq path expression has {length} bytes, at most {MAX_LENGTH} are allowed"));
    }
    let run = || {
        let compiled = compile::compile(expression, steps)?;
        evaluate::paths(&compiled, object, steps).map_err(|stop| match stop {
            Stop::Failed(why) => why,
            Stop::Steps(why) => why.to_string(),
        })
    };
    // Parser and evaluation recurse, and the parser is not ours.
    let found = cel::with_stack_of_parser(|| catch_unwind(AssertUnwindSafe(run)));
    let found = found.unwrap_or_else(|_| Err("it failed unexpectedly".into()));
    found.map_err(|why| format!("the jq path expression {expression:?}: {why}"))
}
