use k8s_openapi::api::rbac::v1::ClusterRoleBinding;

use super::binding;
use crate::NameRule;
use crate::builtin::BuiltinKind;

pub(super) static KIND: BuiltinKind = BuiltinKind {
    names: NameRule::PathSegment,
    create_on_update: true,
    never_absent: &[("roleRef", binding::NO_ROLE)],
    validate: binding::check,
    fill: binding::fill,
    columns: binding::COLUMNS,
    ..BuiltinKind::of::<ClusterRoleBinding>()
};
