//! Patches other than apply.

use serde_json::Value;

use object::Object;
use object::patch::strategic_merge;

use super::write_request::WriteRequest;
use super::{ApiError, Patch, limits};

/// The object after a patch.
pub(super) fn patched(
    request: &WriteRequest<'_>,
    object: &Object,
    patch: &Patch,
) -> Result<Object, ApiError> {
    let mut value = Value::Object(object.0.clone());
    match patch {
        Patch::Json(operations) => {
            let why = "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp";
            let operations: json_patch::Patch = serde_json::from_value(operations.clone()).map_err(|e| {
                ApiError::bad_request(if operations.is_array() {
                    format!("error decoding patch: {e}")
                } else {
                    why.into()
                })
            })?;
            limits::json_patch(&mut value, &operations)?;
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
            return merged.map(Object).map_err(|e| ApiError::bad_request(e.to_string()));
        }
        Patch::Apply(_) => return Err(ApiError::internal("an apply is no plain patch")),
    }
    Object::from_value(value).map_err(|e| ApiError::bad_request(e.to_string()))
}

/// 415: a strategic merge needs the types of Go, which custom resources do not have.
pub(super) fn no_strategic_merge() -> ApiError {
    let why = "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
    ApiError::unsupported_media_type(why)
}
