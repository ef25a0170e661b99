//! Who owns which field: `metadata.managedFields`.

use serde_json::Value;

use crate::object::Object;

use super::ApiError;
use super::write::Call;

/// What an apply came to.
pub(super) struct Applied {
    pub(super) object: Object,
    pub(super) managed_fields: Vec<Value>,
}

/// Server-side apply of a configuration onto what there is.
pub(super) fn apply(_call: &Call<'_>, _old: Option<&Object>, _config: &Object) -> Result<Applied, ApiError> {
    Err(ApiError::unsupported_media_type("the body of the request was in an unknown format - server-side apply is not there yet"))
}

/// The entries after an update that turned `old` into `new`.
pub(super) fn update(_call: &Call<'_>, _old: Option<&Object>, _new: &Object) -> Vec<Value> {
    Vec::new()
}

/// Puts entries into an object.
pub(super) fn write(object: &mut Object, fields: Vec<Value>) {
    if fields.is_empty() {
        object.metadata_mut().remove("managedFields");
    } else {
        object.metadata_mut().insert("managedFields".into(), fields.into());
    }
}
