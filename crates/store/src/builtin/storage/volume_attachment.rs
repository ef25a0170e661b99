use k8s_openapi::api::storage::v1::VolumeAttachment;

use crate::builtin::BuiltinKind;

pub(super) static KIND: BuiltinKind =
    BuiltinKind { returns_deleted: true, has_status: true, ..BuiltinKind::of::<VolumeAttachment>() };
