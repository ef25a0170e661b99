use k8s_openapi::api::core::v1::ResourceQuota;

use crate::builtin::BuiltinKind;

pub(super) static KIND: BuiltinKind = BuiltinKind {
    returns_deleted: true,
    short_names: &["quota"],
    has_status: true,
    not_enforced: Some("this API server stores ResourceQuotas and does not enforce them"),
    ..BuiltinKind::of::<ResourceQuota>()
};
