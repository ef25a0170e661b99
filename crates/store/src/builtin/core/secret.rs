//! The kind Secret.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Secret;
use serde_json::Value;

use crate::builtin::BuiltinKind;
use crate::builtin::checks::{check_immutable, check_keys, check_unchanged};
use crate::builtin::columns::{AGE, NAME, column, entries, or, text};
use object::Object;

pub(super) static KIND: BuiltinKind = BuiltinKind {
    selectable_fields: &["type"],
    defaults: &[("core.v1.Secret", "type", r#""Opaque""#)],
    fill: fold_string_data,
    validate: |old, new, errors| {
        check_keys(new, &["data"], errors);
        check_immutable(old, new, &["data"], errors);
        check_unchanged(old, new, &["type"], errors);
    },
    columns: &[
        NAME,
        column("Type", |o, _| or(text(o, &["type"]), "Opaque").into()),
        column("Data", |o, _| entries(o, "data").into()),
        AGE,
    ],
    ..BuiltinKind::of::<Secret>()
};

fn fold_string_data(secret: &mut Object) {
    let Some(Value::Object(texts)) = secret.0.remove("stringData") else { return };
    for (key, text) in texts {
        let encoded = STANDARD.encode(text.as_str().unwrap_or_default());
        secret.field_mut("data").insert(key, encoded.into());
    }
}
