//! Evaluates Kubernetes' JSONPath, based on RFC 9535, within limits.
//!
//! Kubernetes omits the root (`.status.phase`), may wrap the path in braces, and escapes dots inside names with a
//! backslash. Brackets mean the same in both. Kubernetes has no functions, so RFC 9535's functions are rejected.

mod evaluate;
#[cfg(test)]
mod tests;

use std::iter::Peekable;
use std::str::Chars;

use jsonpath_rust::parser::model::Segment;
use jsonpath_rust::parser::parse_json_path;
use serde_json::Value;

use self::evaluate::{Evaluation, LocatedNode};
use crate::steps::StepsLeft;

/// The longest path, in bytes.
const MAX_LENGTH: usize = 1024;

/// An invalid or unsupported path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The path cannot be parsed.
    #[error("{path} is not a valid JSONPath: {reason}")]
    Invalid {
        /// The path as given.
        path: String,
        /// The error in the path.
        reason: String,
    },
    /// The path was not evaluated completely.
    #[error("the path {path}: {reason}")]
    Refused {
        /// The path as given.
        path: String,
        /// The unsupported part, or the limit that it exceeds.
        reason: String,
    },
    /// The path is too long.
    #[error("a path has {0} bytes; the maximum is {MAX_LENGTH}")]
    TooLong(usize),
}

/// Returns the values that a Kubernetes JSONPath selects, in document order. Counts against the remaining steps.
///
/// # Errors
/// Returns an error if the path cannot be parsed or exceeds a limit.
pub fn find<'a>(value: &'a Value, path: &str, steps: &mut StepsLeft) -> Result<Vec<&'a Value>, PathError> {
    Ok(evaluate(value, path, steps)?.into_iter().map(|node| node.value).collect())
}

/// Returns the locations that a Kubernetes JSONPath selects: field names and, in lists, decimal indexes. Counts
/// against the remaining steps.
///
/// # Errors
/// Returns an error if the path cannot be parsed or exceeds a limit.
pub fn locate(value: &Value, path: &str, steps: &mut StepsLeft) -> Result<Vec<Vec<String>>, PathError> {
    let found = evaluate(value, path, steps)?;
    let places = found.iter().map(|node| node.place(steps)).collect::<Result<_, _>>();
    places.map_err(|error| PathError::Refused { path: path.to_owned(), reason: error.to_string() })
}

fn evaluate<'a>(
    value: &'a Value,
    path: &str,
    steps: &mut StepsLeft,
) -> Result<Vec<LocatedNode<'a>>, PathError> {
    let refused = |reason: String| PathError::Refused { path: path.to_owned(), reason };
    let segments = parse(path, steps)?;
    let found = Evaluation { root: value, steps }.query(&segments, value);
    found.map_err(|error| refused(error.to_string()))
}

fn parse(path: &str, steps: &mut StepsLeft) -> Result<Vec<Segment>, PathError> {
    if path.len() > MAX_LENGTH {
        return Err(PathError::TooLong(path.len()));
    }
    let refused = |reason: String| PathError::Refused { path: path.to_owned(), reason };
    steps.take_text(path.len()).map_err(|error| refused(error.to_string()))?;
    let normalized = normalize(path).map_err(|function| refused(format!("{function}() is not supported")))?;
    let query = parse_json_path(&normalized);
    let invalid = |reason: String| PathError::Invalid { path: path.to_owned(), reason };
    query.map(|query| query.segments).map_err(|e| invalid(e.to_string()))
}

/// Converts the path to RFC 9535.
///
/// # Errors
/// Returns the name of a function, because the parser's time is exponential in the depth of function arguments.
fn normalize(path: &str) -> Result<String, String> {
    let path = path.trim();
    let path = path.strip_prefix('{').and_then(|p| p.strip_suffix('}')).unwrap_or(path);
    let path = path.strip_prefix('$').unwrap_or(path);
    let mut result = String::from("$");
    let mut chars = path.chars().peekable();
    let mut at_start = true;
    while let Some(c) = chars.next() {
        match c {
            '[' => {
                result.push('[');
                copy_bracket(&mut result, &mut chars)?;
            }
            '.' if chars.peek() == Some(&'.') => {
                chars.next();
                result.push_str("..");
                copy_name(&mut result, &mut chars, None);
            }
            '.' if chars.peek().is_none_or(|next| *next == '[') => {}
            '.' => copy_name(&mut result, &mut chars, None),
            first if at_start => copy_name(&mut result, &mut chars, Some(first)),
            other => result.push(other),
        }
        at_start = false;
    }
    Ok(result)
}

/// Copies everything up to the closing bracket; quoted text may contain brackets.
///
/// # Errors
/// Returns the name of a function.
fn copy_bracket(result: &mut String, chars: &mut Peekable<Chars<'_>>) -> Result<(), String> {
    let (mut depth, mut quote) = (1, None);
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), '\\') => {
                result.push(c);
                result.extend(chars.next());
                continue;
            }
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') => depth -= 1,
            (None, '(') => {
                let before = result.trim_end();
                let name = before.trim_end_matches(|c: char| c.is_alphanumeric() || c == '_');
                match before.get(name.len()..) {
                    Some("") | None => {}
                    Some(name) => return Err(name.to_owned()),
                }
            }
            (None, _) => {}
        }
        result.push(c);
        if depth == 0 {
            break;
        }
    }
    Ok(())
}

/// Quotes a name, so that its characters have no special meaning; leaves `*` unquoted.
fn copy_name(result: &mut String, chars: &mut Peekable<Chars<'_>>, first: Option<char>) {
    let mut name: String = first.into_iter().collect();
    while let Some(c) = chars.next_if(|c| *c != '.' && *c != '[') {
        match c {
            '\\' => name.extend(chars.next()),
            c => name.push(c),
        }
    }
    match name.as_str() {
        "" => {}
        "*" => result.push_str("[*]"),
        name => {
            result.push_str("['");
            result.push_str(&name.replace('\\', "\\\\").replace('\'', "\\'"));
            result.push_str("']");
        }
    }
}
