//! The kind MutatingAdmissionPolicy.

use k8s_openapi::api::admissionregistration::v1::MutatingAdmissionPolicy;

use crate::Generation;
use crate::builtin::BuiltinKind;

pub(super) static KIND: BuiltinKind = BuiltinKind {
    categories: &["api-extensions"],
    generation: Generation::Spec,
    ..BuiltinKind::of::<MutatingAdmissionPolicy>()
};
