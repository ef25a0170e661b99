use k8s_openapi::api::core::v1::Node;

use crate::builtin::BuiltinKind;

pub(super) static KIND: BuiltinKind = BuiltinKind {
    short_names: &["no"],
    has_status: true,
    selectable_fields: &["spec.unschedulable"],
    ..BuiltinKind::of::<Node>()
};
