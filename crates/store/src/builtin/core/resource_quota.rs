//! The kind ResourceQuota.

use k8s_openapi::api::core::v1::ResourceQuota;

use crate::builtin::BuiltinKind;

pub(super) static KIND: BuiltinKind =
    BuiltinKind { short_names: &["quota"], has_status: true, ..BuiltinKind::of::<ResourceQuota>() };
