use ::yaml::{Node, Reading, documents, print_value};
use serde_json::Value as Json;

use super::{File, METADATA, json, no_metadata};
use crate::error::Error;
use crate::tree::Value;

/// The kind of objects that are applied encrypted.
const APPLIED_ENCRYPTED: &str = "kind: SopsSecret";

/// Returns true if a file has metadata as `sops` writes it. A malformed file counts, so that it is not used.
pub(super) fn is_marked(text: &str) -> bool {
    let has_line = |wanted: &str| text.lines().any(|line| line.trim_end() == wanted);
    let has_mac = text.lines().any(|line| line.trim_start().starts_with("mac: ENC["));
    has_line("sops:") && has_mac && !has_line(APPLIED_ENCRYPTED)
}

pub(super) fn parse(text: &str) -> Result<File, Error> {
    let nodes = documents(text.as_bytes());
    let nodes = nodes.map_err(|it| Error::Malformed(format!("line {}: {}", it.line, it.reason)))?;
    let mut values = nodes.iter().map(value).collect::<Result<Vec<_>, _>>()?;
    // Each document has a copy of the metadata, and the first one counts.
    let copies: Vec<Option<Value>> = values.iter_mut().map(|value| value.take(METADATA)).collect();
    let metadata = copies.into_iter().next().flatten().ok_or_else(no_metadata)?;
    Ok(File::new(values, metadata))
}

pub(super) fn print(documents: Vec<Value>) -> Result<Vec<u8>, Error> {
    let printed = documents.into_iter().map(|value| Ok(print_value(&json::to_json(value, "")?)));
    Ok(printed.collect::<Result<Vec<String>, Error>>()?.join("---\n").into_bytes())
}

/// Converts a node with its fields in the order of the file. `sops` writes each on its own line.
fn value(node: &Node) -> Result<Value, Error> {
    let malformed = |line: u32, reason: &str| Error::Malformed(format!("line {line}: {reason}"));
    match &node.value {
        ::yaml::Value::List(items) => Ok(Value::List(items.iter().map(value).collect::<Result<_, _>>()?)),
        ::yaml::Value::Map(map) => {
            let mut fields: Vec<_> = map.iter().collect();
            fields.sort_by_key(|(_, entry)| entry.line);
            let lines = fields.iter().zip(fields.iter().skip(1));
            if let Some(((_, entry), _)) = lines.clone().find(|((_, one), (_, next))| one.line == next.line) {
                return Err(malformed(entry.line, "two keys are on one line, which sops does not write"));
            }
            let field = |(key, entry): (&String, &::yaml::Entry)| Ok((key.clone(), value(&entry.node)?));
            Ok(Value::Map(fields.into_iter().map(field).collect::<Result<_, Error>>()?))
        }
        ::yaml::Value::Scalar(scalar) => match scalar.to_json(Reading::Objects) {
            Ok(Json::Null) => Ok(Value::Null),
            Ok(Json::Bool(value)) => Ok(Value::Bool(value)),
            Ok(Json::Number(number)) => Ok(Value::Number(number)),
            Ok(Json::String(text)) => Ok(Value::text(text)),
            Ok(Json::Array(_) | Json::Object(_)) | Err(_) => {
                Err(malformed(node.line, "a value does not fit its type"))
            }
        },
    }
}
