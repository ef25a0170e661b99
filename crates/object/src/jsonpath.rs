//! JSONPath as Kubernetes writes it, on top of RFC 9535.
//!
//! Kubernetes leaves out the root (`.status.phase`), may wrap the path in braces and escapes dots inside
//! names with a backslash; brackets mean the same in both.

use jsonpath_rust::JsonPath as _;
use serde_json::Value;

/// The error of a path that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the path {path} is not a JSONPath: {why}")]
pub struct PathError {
    /// The path as it was given.
    pub path: String,
    /// The error in the path.
    pub why: String,
}

/// Returns the values a Kubernetes JSONPath leads to, in document order.
///
/// # Errors
/// A path that cannot be read.
pub fn find<'a>(value: &'a Value, path: &str) -> Result<Vec<&'a Value>, PathError> {
    value.query(&normalise(path)).map_err(|e| PathError { path: path.to_owned(), why: e.to_string() })
}

/// Returns the places that a Kubernetes JSONPath leads to: names of fields and, in lists, indexes in decimal.
///
/// # Errors
/// A path that cannot be read.
pub fn locate(value: &Value, path: &str) -> Result<Vec<Vec<String>>, PathError> {
    let found = value
        .query_with_path(&normalise(path))
        .map_err(|e| PathError { path: path.to_owned(), why: e.to_string() })?;
    Ok(found.into_iter().map(|found| steps(&found.path())).collect())
}

/// Returns the steps of a normalised path of RFC 9535, such as `$['a'][0]`.
fn steps(path: &str) -> Vec<String> {
    let mut steps = Vec::new();
    let mut chars = path.chars().skip(1);
    while chars.next() == Some('[') {
        let mut step = String::new();
        let mut quoted = false;
        while let Some(c) = chars.next() {
            match c {
                '\'' => quoted = !quoted,
                '\\' if quoted => step.extend(chars.next()),
                ']' if !quoted => break,
                c => step.push(c),
            }
        }
        steps.push(step);
    }
    steps
}

fn normalise(path: &str) -> String {
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
                copy_bracket(&mut result, &mut chars);
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
    result
}

/// Copies a bracket whole; a quoted text in it may contain brackets.
fn copy_bracket(result: &mut String, chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    let (mut depth, mut quote) = (1, None);
    for c in chars.by_ref() {
        result.push(c);
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') => depth -= 1,
            (None, _) => {}
        }
        if depth == 0 {
            return;
        }
    }
}

/// Quotes a name, so that its characters have no special meaning; `*` stays as it is.
fn copy_name(result: &mut String, chars: &mut std::iter::Peekable<std::str::Chars<'_>>, first: Option<char>) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn kubernetes_paths_find_what_they_name() {
        let object = json!({
            "metadata": {"annotations": {"a.b/c": "x"}},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}, {"type": "Complete", "status": "False"}]},
            "items": [{"n": 1}, {"n": 2}],
        });
        let cases = [
            (".status.phase", json!(["Running"])),
            ("{.status.phase}", json!(["Running"])),
            ("status.phase", json!(["Running"])),
            ("$.status.phase", json!(["Running"])),
            (r".metadata.annotations.a\.b/c", json!(["x"])),
            (".metadata.annotations['a.b/c']", json!(["x"])),
            (r#".status.conditions[?(@.type=="Complete")].status"#, json!(["False"])),
            (".items[*].n", json!([1, 2])),
            (".items[1].n", json!([2])),
            ("..n", json!([1, 2])),
            (".no.such", json!([])),
        ];
        for (path, want) in cases {
            assert_eq!(json!(find(&object, path).unwrap()), want, "{path}");
        }
        assert!(find(&object, ".a[").is_err());
        let places = |path: &str| {
            locate(&object, path).unwrap().iter().map(|steps| steps.join("|")).collect::<Vec<_>>()
        };
        assert_eq!(places(".items[*].n"), ["items|0|n", "items|1|n"]);
        assert_eq!(places(r".metadata.annotations.a\.b/c"), ["metadata|annotations|a.b/c"]);
        assert_eq!(places(".no.such"), [""; 0]);
    }
}
