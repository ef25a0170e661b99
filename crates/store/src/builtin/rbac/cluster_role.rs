use k8s_openapi::api::rbac::v1::ClusterRole;

use super::rule;
use crate::NameRule;
use crate::builtin::BuiltinKind;
use crate::builtin::columns::{CREATED_AT, NAME};

pub(super) static KIND: BuiltinKind = BuiltinKind {
    names: NameRule::PathSegment,
    create_on_update: true,
    fill: rule::fill,
    validate: |_, new, errors| {
        rule::check(new, true, errors);
        rule::check_selectors(new, errors);
    },
    columns: &[NAME, CREATED_AT],
    ..BuiltinKind::of::<ClusterRole>()
};
