//! The part of a live object that a commit can set.

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::desired::short_hex;
use object::Object;

/// The metadata fields that a commit can set.
const METADATA: [&str; 4] = ["name", "namespace", "labels", "annotations"];

/// Returns an object without its status, and without metadata from the API server and controllers.
pub fn content(object: &Object) -> Object {
    let settable = |(name, value): (&String, &Value)| {
        let value = match (name.as_str(), value) {
            ("status", _) => return None,
            ("metadata", Value::Object(metadata)) => {
                let set = METADATA.iter().filter_map(|name| metadata.get_key_value(*name));
                Value::Object(set.map(|(name, value)| (name.clone(), value.clone())).collect::<Map<_, _>>())
            }
            (_, value) => value.clone(),
        };
        Some((name.clone(), value))
    };
    Object(object.0.iter().filter_map(settable).collect())
}

/// Returns a digest of the [`content`] of a live object.
pub fn content_digest(object: &Object) -> String {
    short_hex(Sha256::new_with_prefix(serde_json::to_vec(&content(object)).unwrap_or_default()))
}
