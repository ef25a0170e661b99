//! The kind ValidatingAdmissionPolicy.

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;

use crate::Generation;
use crate::builtin::BuiltinKind;

pub(super) static KIND: BuiltinKind = BuiltinKind {
    categories: &["api-extensions"],
    has_status: true,
    generation: Generation::Spec,
    ..BuiltinKind::of::<ValidatingAdmissionPolicy>()
};
