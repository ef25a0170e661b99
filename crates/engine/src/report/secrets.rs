//! Hides the values of Secrets in reports and messages, also of Secrets inside other objects.

use serde_json::{Map, Value};

/// The text that replaces the value of a Secret.
pub const HIDDEN: &str = "(hidden)";
/// The fields of a Secret that hold none of its values.
const SHOWN_OF_SECRETS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Returns whether a field of an object holds values of a Secret.
pub fn is_hidden(object: &Map<String, Value>, field: &str) -> bool {
    let is = |field, wanted| object.get(field).and_then(Value::as_str) == Some(wanted);
    is("apiVersion", "v1") && is("kind", "Secret") && !SHOWN_OF_SECRETS.contains(&field)
}

/// Returns whether a text, such as a template or an annotation of kubectl, has a Secret as YAML or JSON in
/// it. A template need not parse, so a kind that only begins with the word counts too.
pub fn holds_secret(text: &str) -> bool {
    const SECRET: &[u8] = b"kind:Secret";
    let mut found = 0;
    for char in text.chars().filter(|it| !it.is_whitespace() && !['"', '\'', '\\'].contains(it)) {
        // Its first letter is nowhere else in it, so no other match is under way.
        found = match SECRET.get(found) {
            Some(next) if char::from(*next) == char => found + 1,
            _ => usize::from(char == 'k'),
        };
        if found == SECRET.len() {
            return true;
        }
    }
    false
}
