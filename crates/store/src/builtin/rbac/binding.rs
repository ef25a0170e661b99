//! Role bindings, in a namespace or cluster-wide.

use k8s_openapi::api::rbac::v1::RoleBinding;
use serde_json::Value;

use crate::FieldError;
use crate::builtin::columns::{AGE, NAME, PrinterColumn, column, text, wide};
use object::Object;
use object::names::is_dns_subdomain;

/// The default of a binding without a role.
pub(super) const NO_ROLE: &str = r#"{"apiGroup":"rbac.authorization.k8s.io","kind":"","name":""}"#;

const GROUP: &str = <RoleBinding as k8s_openapi::Resource>::GROUP;

pub(super) const COLUMNS: &[PrinterColumn] = &[
    NAME,
    column("Role", |o, _| {
        format!("{}/{}", text(o, &["roleRef", "kind"]), text(o, &["roleRef", "name"])).into()
    }),
    AGE,
    wide("Users", |o, _| names(o, "User").into()),
    wide("Groups", |o, _| names(o, "Group").into()),
    wide("ServiceAccounts", |o, _| names(o, "ServiceAccount").into()),
];

/// Sets the API group of users and groups.
pub(super) fn fill(binding: &mut Object) {
    let subjects = binding.0.get_mut("subjects").and_then(Value::as_array_mut);
    for subject in subjects.into_iter().flatten().filter_map(Value::as_object_mut) {
        if matches!(subject.get("kind").and_then(Value::as_str), Some("User" | "Group")) {
            subject.entry("apiGroup").or_insert_with(|| GROUP.into());
        }
    }
}

/// Checks the role and the subjects, and that the role does not change.
pub(super) fn check(old: Option<&Object>, new: &Object, errors: &mut Vec<FieldError>) {
    let of_the_cluster = new.kind() == "ClusterRoleBinding";
    let kinds = if of_the_cluster { &["ClusterRole"][..] } else { &["Role", "ClusterRole"] };
    let (group, kind) = (text(new, &["roleRef", "apiGroup"]), text(new, &["roleRef", "kind"]));
    if group != GROUP {
        errors.push(FieldError::unsupported("roleRef.apiGroup", &group.into(), [GROUP].into_iter()));
    }
    if !kinds.contains(&kind) {
        errors.push(FieldError::unsupported("roleRef.kind", &kind.into(), kinds.iter().copied()));
    }
    if text(new, &["roleRef", "name"]).is_empty() {
        errors.push(FieldError::required("roleRef.name", ""));
    }
    check_subjects(new, errors);
    if old.is_some_and(|old| old.0.get("roleRef") != new.0.get("roleRef")) {
        let value = new.0.get("roleRef").cloned().unwrap_or_default();
        errors.push(FieldError::invalid("roleRef", &value, "cannot change roleRef"));
    }
}

fn check_subjects(object: &Object, errors: &mut Vec<FieldError>) {
    for (i, subject) in object.0.get("subjects").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let text = |field: &str| subject.get(field).and_then(Value::as_str).unwrap_or_default();
        if text("name").is_empty() {
            errors.push(FieldError::required(format!("subjects[{i}].name"), ""));
        }
        let kinds = ["ServiceAccount", "User", "Group"];
        if !kinds.contains(&text("kind")) {
            errors.push(FieldError::unsupported(
                format!("subjects[{i}].kind"),
                &text("kind").into(),
                kinds.into_iter(),
            ));
        }
        let is_account = text("kind") == "ServiceAccount";
        if is_account && text("namespace").is_empty() && object.kind() == "ClusterRoleBinding" {
            errors.push(FieldError::required(format!("subjects[{i}].namespace"), ""));
        }
        if is_account && !text("name").is_empty() && !is_dns_subdomain(text("name")) {
            let detail = "a lowercase RFC 1123 subdomain is expected";
            errors.push(FieldError::invalid(format!("subjects[{i}].name"), &text("name").into(), detail));
        }
        let group = if is_account { "" } else { GROUP };
        if kinds.contains(&text("kind")) && text("apiGroup") != group {
            let path = format!("subjects[{i}].apiGroup");
            errors.push(FieldError::unsupported(path, &text("apiGroup").into(), [group].into_iter()));
        }
    }
}

/// Returns the names of the subjects of a kind.
fn names(binding: &Object, kind: &str) -> String {
    let subjects = binding.at(&["subjects"]).and_then(Value::as_array);
    let of_kind =
        subjects.into_iter().flatten().filter(|s| s.get("kind").and_then(Value::as_str) == Some(kind));
    let field = |s: &Value, field: &str| s.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let names = of_kind.map(|s| {
        if kind == "ServiceAccount" {
            format!("{}/{}", field(s, "namespace"), field(s, "name"))
        } else {
            field(s, "name")
        }
    });
    names.collect::<Vec<_>>().join(", ")
}
