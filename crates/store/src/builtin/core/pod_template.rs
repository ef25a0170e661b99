use k8s_openapi::api::core::v1::PodTemplate;

use crate::builtin::BuiltinKind;

pub(super) static KIND: BuiltinKind =
    BuiltinKind { returns_deleted: true, ..BuiltinKind::of::<PodTemplate>() };
