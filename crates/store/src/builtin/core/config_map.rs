use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::ConfigMap;

use serde_json::Value;

use crate::FieldError;
use crate::builtin::BuiltinKind;
use crate::builtin::checks::{check_immutable, check_keys};
use crate::builtin::columns::{AGE, NAME, column, entries};
use object::Object;

pub(super) static KIND: BuiltinKind = BuiltinKind {
    short_names: &["cm"],
    validate: |old, new, errors| {
        check_keys(new, &["data", "binaryData"], errors);
        check_keys_stand_once(new, errors);
        check_immutable(old, new, &["data", "binaryData"], errors);
    },
    columns: &[NAME, column("Data", |o, _| (entries(o, "data") + entries(o, "binaryData")).into()), AGE],
    ..BuiltinKind::of::<ConfigMap>()
};

/// Checks that no key is in both `data` and `binaryData`.
fn check_keys_stand_once(map: &Object, errors: &mut Vec<FieldError>) {
    let keys =
        |field: &str| map.0.get(field).and_then(Value::as_object).into_iter().flatten().map(|(key, _)| key);
    let binary: BTreeSet<&String> = keys("binaryData").collect();
    for key in keys("data").filter(|key| binary.contains(key)) {
        let detail = "duplicate of key present in binaryData";
        errors.push(FieldError::invalid(format!("data[{key}]"), &key.clone().into(), detail));
    }
}
