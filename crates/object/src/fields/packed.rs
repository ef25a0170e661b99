//! Managed fields as text, as caches store them. As maps, one per field, they would take more memory than the rest
//! of the object.

use std::borrow::Cow;

use serde_json::Value;

use crate::Object;

/// Converts the fields of each manager to text.
pub fn pack(object: &mut Object) {
    let entries = object.metadata_mut().get_mut("managedFields").and_then(Value::as_array_mut);
    for entry in entries.into_iter().flatten() {
        if let Some(fields) = entry.get_mut("fieldsV1").filter(|fields| fields.is_object()) {
            *fields = Value::String(fields.to_string());
        }
    }
}

/// Returns the fields of an entry of `managedFields`, even if they are text.
pub fn fields_v1(entry: &Value) -> Option<Cow<'_, Value>> {
    match entry.get("fieldsV1")? {
        Value::String(text) => serde_json::from_str(text).ok().map(Cow::Owned),
        fields => Some(Cow::Borrowed(fields)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn packed_fields_are_read_as_they_were() {
        let fields = json!({"f:data": {"f:a": {}, "k:{\"name\":\"b\"}": {".": {}}}});
        let entry =
            json!({"manager": "m", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": fields});
        let object =
            json!({"kind": "A", "metadata": {"name": "a", "managedFields": [entry, {"manager": "n"}]}});
        let mut packed = Object::from_value(object).unwrap();
        pack(&mut packed);
        let entries = packed.at(&["metadata", "managedFields"]).unwrap();
        assert!(entries[0]["fieldsV1"].is_string());
        assert_eq!(fields_v1(&entries[0]).as_deref(), Some(&fields));
        assert_eq!(fields_v1(&entries[1]), None);
    }
}
