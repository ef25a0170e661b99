use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;

use crate::Generation;
use crate::admission::check_binding;
use crate::builtin::BuiltinKind;

pub(super) static KIND: BuiltinKind = BuiltinKind {
    categories: &["api-extensions"],
    generation: Generation::Spec,
    validate: check_binding,
    ..BuiltinKind::of::<ValidatingAdmissionPolicyBinding>()
};
