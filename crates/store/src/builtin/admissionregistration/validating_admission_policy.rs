use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use serde_json::json;

use crate::Generation;
use crate::admission::check_policy;
use crate::builtin::{BuiltinKind, set_status};

pub(super) static KIND: BuiltinKind = BuiltinKind {
    categories: &["api-extensions"],
    has_status: true,
    prepare_for_create: |_, object| set_status(object, json!({})),
    generation: Generation::Spec,
    defaults: &[
        ("admissionregistration.v1.ValidatingAdmissionPolicySpec", "failurePolicy", r#""Fail""#),
        ("admissionregistration.v1.MatchResources", "matchPolicy", r#""Equivalent""#),
        ("admissionregistration.v1.MatchResources", "namespaceSelector", "{}"),
        ("admissionregistration.v1.MatchResources", "objectSelector", "{}"),
        ("admissionregistration.v1.NamedRuleWithOperations", "scope", r#""*""#),
    ],
    validate: check_policy,
    ..BuiltinKind::of::<ValidatingAdmissionPolicy>()
};
