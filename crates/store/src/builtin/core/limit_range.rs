use k8s_openapi::api::core::v1::LimitRange;

use crate::builtin::BuiltinKind;

pub(super) static KIND: BuiltinKind = BuiltinKind {
    short_names: &["limits"],
    create_on_update: true,
    not_enforced: Some("this API server stores LimitRanges and does not enforce them"),
    ..BuiltinKind::of::<LimitRange>()
};
