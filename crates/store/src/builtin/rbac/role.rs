use k8s_openapi::api::rbac::v1::Role;

use super::rule;
use crate::NameRule;
use crate::builtin::BuiltinKind;
use crate::builtin::columns::{CREATED_AT, NAME};

pub(super) static KIND: BuiltinKind = BuiltinKind {
    names: NameRule::PathSegment,
    create_on_update: true,
    fill: rule::fill,
    validate: |_, new, errors| rule::check(new, false, errors),
    columns: &[NAME, CREATED_AT],
    ..BuiltinKind::of::<Role>()
};
