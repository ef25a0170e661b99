use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Secret;
use serde_json::Value;

use crate::FieldError;
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
        check_type(new, errors);
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

/// Checks that a Secret has the keys that its type requires.
fn check_type(secret: &Object, errors: &mut Vec<FieldError>) {
    let has = |key: &str| secret.at(&["data", key]).is_some();
    let wanted: &[&str] = match text(secret, &["type"]) {
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => &["username", "password"],
        _ => &[],
    };
    for key in wanted.iter().filter(|key| !has(key)) {
        errors.push(FieldError::required(format!("data[{key}]"), ""));
    }
    let docker = secret.at(&["data", ".dockerconfigjson"]).and_then(Value::as_str);
    if let (Some(docker), "kubernetes.io/dockerconfigjson") = (docker, text(secret, &["type"])) {
        let bytes = STANDARD.decode(docker).unwrap_or_default();
        if let Err(error) = serde_json::from_slice::<serde_json::Map<String, Value>>(&bytes) {
            let redacted = "<secret contents redacted>".into();
            errors.push(FieldError::invalid("data[.dockerconfigjson]", &redacted, error));
        }
    }
    const ACCOUNT: &str = "kubernetes.io/service-account.name";
    let is_token = text(secret, &["type"]) == "kubernetes.io/service-account-token";
    if is_token && secret.annotations().get(ACCOUNT).is_none_or(|name| name.is_empty()) {
        errors.push(FieldError::required(format!("metadata.annotations[{ACCOUNT}]"), ""));
    }
}

fn fold_string_data(secret: &mut Object) {
    let Some(Value::Object(texts)) = secret.0.remove("stringData") else { return };
    for (key, text) in texts {
        let encoded = STANDARD.encode(text.as_str().unwrap_or_default());
        secret.field_mut("data").insert(key, encoded.into());
    }
}
