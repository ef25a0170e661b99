//! Hides the values of Secrets in reports and messages, including Secrets inside other objects.

use serde_json::{Map, Value};

/// The replacement for the value of a Secret.
pub const HIDDEN: &str = "(hidden)";
/// The fields of a Secret that contain no secret values.
const SHOWN_OF_SECRETS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Returns true if a field of an object contains the values of a Secret.
pub fn is_hidden(object: &Map<String, Value>, field: &str) -> bool {
    let is = |field, wanted| object.get(field).and_then(Value::as_str) == Some(wanted);
    is("apiVersion", "v1") && is("kind", "Secret") && !SHOWN_OF_SECRETS.contains(&field)
}

/// Returns true if a text, such as a template or an annotation by kubectl, contains a Secret as YAML or JSON. A
/// template may not be parseable, so a kind that only starts with the word counts too.
pub fn holds_secret(text: &str) -> bool {
    const SECRET: &str = "kind:Secret";
    text.match_indices('k').any(|(at, _)| {
        let rest = text.get(at..).unwrap_or_default().chars();
        let mut rest = rest.filter(|char| !char.is_whitespace() && !['"', '\'', '\\'].contains(char));
        SECRET.chars().all(|char| rest.next() == Some(char))
    })
}
