//! The kind ClusterRole.

use k8s_openapi::api::rbac::v1::ClusterRole;

use crate::NameRule;
use crate::builtin::BuiltinKind;
use crate::builtin::columns::{CREATED_AT, NAME};

pub(super) static KIND: BuiltinKind = BuiltinKind {
    names: NameRule::PathSegment,
    create_on_update: true,
    columns: &[NAME, CREATED_AT],
    ..BuiltinKind::of::<ClusterRole>()
};
