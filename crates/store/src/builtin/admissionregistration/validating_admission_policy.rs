//! The kind ValidatingAdmissionPolicy.

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;

use crate::Generation;
use crate::admission::check_policy;
use crate::builtin::BuiltinKind;

pub(super) static KIND: BuiltinKind = BuiltinKind {
    categories: &["api-extensions"],
    has_status: true,
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
