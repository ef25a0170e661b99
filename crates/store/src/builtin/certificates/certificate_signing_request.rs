use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use serde_json::{Map, Value, json};

use crate::FieldError;
use crate::builtin::columns::{AGE, NAME, column, human_duration, text};
use crate::builtin::{BuiltinKind, Subresource, set_status};
use crate::subresource::take;
use object::Object;

pub(super) static KIND: BuiltinKind = BuiltinKind {
    short_names: &["csr"],
    has_status: true,
    selectable_fields: &["spec.signerName"],
    subresources: &[Subresource { name: "approval", verbs: &["get", "patch", "update"], other_kind: None }],
    validate: |_, new, errors| check(new, errors),
    validate_update: check_decisions,
    prepare_for_create: |creation, request| {
        let user = creation.user;
        let spec = request.field_mut("spec");
        spec.insert("username".into(), user.name.clone().into());
        spec.insert("groups".into(), user.groups.clone().into());
        if !user.uid.is_empty() {
            spec.insert("uid".into(), user.uid.clone().into());
        }
        if !user.extra.is_empty() {
            spec.insert("extra".into(), json!(user.extra));
        }
        set_status(request, json!({}));
    },
    prepare_for_update: keep_decisions,
    columns: &[
        NAME,
        AGE,
        column("SignerName", |o, _| text(o, &["spec", "signerName"]).into()),
        column("Requestor", |o, _| text(o, &["spec", "username"]).into()),
        column("RequestedDuration", |o, _| {
            let seconds = o.at(&["spec", "expirationSeconds"]).and_then(Value::as_i64);
            seconds.map_or("<none>".to_owned(), human_duration).into()
        }),
        column("Condition", |o, _| condition(o).into()),
    ],
    ..BuiltinKind::of::<CertificateSigningRequest>()
};

/// The shortest lifetime that can be requested, in seconds (KEP-2784).
const SHORTEST: i64 = 600;

/// The usages of a key (`certificates.k8s.io/v1`, `KeyUsage`).
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// The conditions that decide a request.
const DECISIONS: [&str; 2] = ["Approved", "Denied"];

fn conditions(request: &Object) -> &[Value] {
    let conditions = request.at(&["status", "conditions"]).and_then(Value::as_array);
    conditions.map(Vec::as_slice).unwrap_or_default()
}

fn type_of(condition: &Value) -> &str {
    condition.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn decides(condition: &&Value) -> bool {
    DECISIONS.contains(&type_of(condition))
}

/// Keeps the decision unless the write is through `/approval`, which can only change the decision. The spec never
/// changes.
fn keep_decisions(subresource: &str, old: &Object, new: &mut Object) {
    take(new, old, "spec");
    let (deciding, other) = if subresource == "approval" { (&*new, old) } else { (old, &*new) };
    let decisions = conditions(deciding).iter().filter(decides);
    let others = conditions(other).iter().filter(|condition| !decides(condition));
    let merged: Vec<Value> = decisions.chain(others).cloned().collect();
    if subresource == "approval" {
        take(new, old, "status");
    }
    if merged.is_empty() {
        if let Some(status) = new.0.get_mut("status").and_then(Value::as_object_mut) {
            status.remove("conditions");
        }
        return;
    }
    let status = new.0.entry("status").or_insert_with(|| Value::Object(Map::new()));
    if let Some(status) = status.as_object_mut() {
        status.insert("conditions".into(), merged.into());
    }
}

/// Checks that a request has at most one decision, and keeps it.
fn check_decisions(old: &Object, new: &Object, errors: &mut Vec<FieldError>) {
    let decisions =
        |object| -> Vec<&str> { conditions(object).iter().filter(decides).map(type_of).collect() };
    let (before, after) = (decisions(old), decisions(new));
    let stay: BTreeSet<&str> = after.iter().copied().collect();
    if after.len() > 1 {
        let detail = "Approved and Denied conditions are mutually exclusive";
        errors.push(FieldError::invalid("status.conditions", &after.into(), detail));
    } else if before.iter().any(|decision| !stay.contains(decision)) {
        let removed = before.first().copied().unwrap_or_default();
        let detail = format!("updates may not remove a condition of type {removed:?}");
        errors.push(FieldError::forbidden("status.conditions", detail));
    }
}

fn check(request: &Object, errors: &mut Vec<FieldError>) {
    let encoded = text(request, &["spec", "request"]);
    let decoded = STANDARD.decode(encoded).unwrap_or_default();
    if !decoded.starts_with(b"-----BEGIN CERTIFICATE REQUEST-----") {
        let detail = "PEM block type must be CERTIFICATE REQUEST";
        errors.push(FieldError::invalid("spec.request", &encoded.into(), detail));
    }
    let signer = text(request, &["spec", "signerName"]);
    if signer.is_empty() {
        errors.push(FieldError::required("spec.signerName", ""));
    } else if signer.split_once('/').is_none_or(|(domain, path)| !domain.contains('.') || path.is_empty()) {
        let detail = "should be a fully qualified domain and path of the form 'example.com/signer-name'";
        errors.push(FieldError::invalid("spec.signerName", &signer.into(), detail));
    }
    let seconds = request.at(&["spec", "expirationSeconds"]).unwrap_or(&Value::Null);
    if seconds.as_i64().is_some_and(|seconds| seconds < SHORTEST) {
        let detail = format!("may not specify a duration less than {SHORTEST} seconds (10 minutes)");
        errors.push(FieldError::invalid("spec.expirationSeconds", seconds, detail));
    }
    let usages = request.at(&["spec", "usages"]).and_then(Value::as_array).cloned().unwrap_or_default();
    if usages.is_empty() {
        errors.push(FieldError::required("spec.usages", ""));
    }
    let mut seen = BTreeSet::new();
    for (i, usage) in usages.iter().enumerate() {
        if !usage.as_str().is_some_and(|usage| USAGES.contains(&usage)) {
            errors.push(FieldError::unsupported(format!("spec.usages[{i}]"), usage, USAGES.into_iter()));
        }
        if !seen.insert(usage.as_str()) {
            errors.push(FieldError::duplicate(format!("spec.usages[{i}]"), usage));
        }
    }
}

fn condition(request: &Object) -> String {
    let types: Vec<&str> = conditions(request).iter().map(type_of).collect();
    let decision = ["Denied", "Approved"].into_iter().find(|t| types.contains(t)).unwrap_or("Pending");
    let failed = types.contains(&"Failed").then_some("Failed");
    let issued = (!text(request, &["status", "certificate"]).is_empty()).then_some("Issued");
    [Some(decision), failed, issued].into_iter().flatten().collect::<Vec<_>>().join(",")
}
