//! The hash of a generated object's content, which is the suffix of its name.

use serde_json::{Map, Value as Json};
use sha2::{Digest, Sha256};

use object::go_json::write_string;
use object::hex;
use yaml::{Node, Reading, UnreadableScalar};

/// Returns the hash that kustomize appends to the name of an object.
///
/// # Errors
/// Returns the line and the [`UnreadableScalar`] of a value that cannot be represented in JSON.
pub(crate) fn name_hash(node: &Node) -> Result<String, (u32, UnreadableScalar)> {
    let value = |field: &str| match node.get(field) {
        None => Ok(Json::from("")),
        Some(node) if node.as_scalar().is_some() => Ok(Json::from(node.text())),
        Some(node) => node.to_json(Reading::Objects),
    };
    let kind = node.get("kind").map(Node::text).unwrap_or_default();
    let content = match kind {
        "ConfigMap" => {
            // The name is always empty: kustomize looks up a field that is literally called "metadata/name".
            let mut content = Map::from_iter([
                ("kind".into(), kind.into()),
                ("name".into(), "".into()),
                ("data".into(), value("data")?),
            ]);
            content.extend(
                Some(value("binaryData")?).filter(Json::is_object).map(|data| ("binaryData".into(), data)),
            );
            Json::Object(content)
        }
        "Secret" => {
            let mut content = Map::from_iter([
                ("kind".into(), kind.into()),
                ("type".into(), value("type")?),
                ("name".into(), "".into()),
                ("data".into(), value("data")?),
            ]);
            content.extend(
                Some(value("stringData")?).filter(Json::is_object).map(|data| ("stringData".into(), data)),
            );
            Json::Object(content)
        }
        _ => node.to_json(Reading::Objects)?,
    };
    let mut text = String::new();
    write_json(&mut text, &content);
    let digits = hex(Sha256::digest(text));
    // Replaces vowels that could form words, and digits that could be misread.
    let replaced = |c| match c {
        '0' => 'g',
        '1' => 'h',
        '3' => 'k',
        'a' => 'm',
        'e' => 't',
        other => other,
    };
    Ok(digits.chars().take(10).map(replaced).collect())
}

/// Writes JSON as Go does: with sorted keys, and with `<`, `>` and `&` escaped.
pub(crate) fn write_json(out: &mut String, json: &Json) {
    match json {
        Json::Null | Json::Bool(_) | Json::Number(_) => out.push_str(&json.to_string()),
        Json::String(text) => write_string(out, text),
        Json::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_json(out, item);
            }
            out.push(']');
        }
        Json::Object(map) => {
            out.push('{');
            for (index, (key, value)) in map.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_string(out, key);
                out.push(':');
                write_json(out, value);
            }
            out.push('}');
        }
    }
}
