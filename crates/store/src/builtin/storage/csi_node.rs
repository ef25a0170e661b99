use k8s_openapi::api::storage::v1::CSINode;

use crate::builtin::BuiltinKind;

pub(super) static KIND: BuiltinKind = BuiltinKind { returns_deleted: true, ..BuiltinKind::of::<CSINode>() };
