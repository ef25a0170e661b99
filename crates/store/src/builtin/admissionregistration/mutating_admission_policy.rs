use k8s_openapi::api::admissionregistration::v1::MutatingAdmissionPolicy;

use crate::Generation;
use crate::builtin::BuiltinKind;
use crate::builtin::checks::refuse_mutations;

pub(super) static KIND: BuiltinKind = BuiltinKind {
    categories: &["api-extensions"],
    generation: Generation::Spec,
    validate: refuse_mutations,
    ..BuiltinKind::of::<MutatingAdmissionPolicy>()
};
