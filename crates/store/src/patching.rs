//! Applies patches, except for server-side apply.

use serde_json::Value;

use object::Object;
use object::patch::strategic_merge;

use super::write_request::WriteRequest;
use super::{ApiError, Patch, limits};

/// Returns the object after a patch.
pub(super) fn patched(
    request: &WriteRequest<'_>,
    object: &Object,
    patch: &Patch,
) -> Result<Object, ApiError> {
    let mut value = Value::Object(object.0.clone());
    match patch {
        Patch::Json(operations) => {
            limits::json_patch(&mut value, json_operations(operations)?)?;
        }
        Patch::Merge(patch) => {
            if !patch.is_object() {
                return Err(ApiError::bad_request("error decoding patch: a merge patch has to be an object"));
            }
            json_patch::merge(&mut value, patch);
        }
        Patch::Strategic(patch) => {
            let Value::Object(patch) = patch.clone() else {
                return Err(ApiError::bad_request(
                    "error decoding patch: a strategic merge patch has to be an object",
                ));
            };
            let merged = strategic_merge(object.0.clone(), patch, super::ownership::position(&request.scope));
            return merged.map(Object).map_err(|e| ApiError::unexpected(e.to_string()));
        }
        Patch::Apply(_) => return Err(ApiError::internal("an apply is not a plain patch")),
    }
    Object::from_value(value).map_err(|e| ApiError::bad_request(e.to_string()))
}

/// Parses the operations of a JSON patch like kube-apiserver's library (evanphx/json-patch): an absent value is
/// null, and the text before the first slash of a path is ignored.
fn json_operations(patch: &Value) -> Result<json_patch::Patch, ApiError> {
    let not_a_list = || {
        let message = "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp";
        ApiError::bad_request(format!("error decoding patch: {message}"))
    };
    let mut operations = Vec::new();
    for operation in patch.as_array().ok_or_else(not_a_list)? {
        let mut operation = operation.as_object().cloned().ok_or_else(|| {
            ApiError::bad_request("error decoding patch: json: cannot unmarshal string into an operation")
        })?;
        if operation.get("op").and_then(Value::as_str).is_some_and(|op| op != "remove") {
            operation.entry("value").or_insert(Value::Null);
        }
        for field in ["path", "from"] {
            if let Some(Value::String(path)) = operation.get_mut(field) {
                let start = path.find('/').unwrap_or_default();
                *path = path.split_off(start);
            }
        }
        let read = serde_json::from_value(Value::Object(operation));
        operations.push(read.map_err(|_| ApiError::unprocessable())?);
    }
    Ok(json_patch::Patch(operations))
}

/// Returns 415, because a strategic merge patch needs Go types, which custom resources do not have.
pub(super) fn no_strategic_merge() -> ApiError {
    let message = "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
    ApiError::unsupported_media_type(message)
}
