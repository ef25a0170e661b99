use k8s_openapi::api::admissionregistration::v1::MutatingAdmissionPolicyBinding;

use crate::Generation;
use crate::builtin::BuiltinKind;

pub(super) static KIND: BuiltinKind = BuiltinKind {
    categories: &["api-extensions"],
    generation: Generation::Spec,
    not_enforced: Some("this API server stores MutatingAdmissionPolicyBindings and does not enforce them"),
    ..BuiltinKind::of::<MutatingAdmissionPolicyBinding>()
};
