use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use serde_json::json;

use crate::builtin::{BuiltinKind, set_status};

pub(super) static KIND: BuiltinKind = BuiltinKind {
    returns_deleted: true,
    short_names: &["pvc"],
    has_status: true,
    defaults: &[("core.v1.PersistentVolumeClaimSpec", "volumeMode", r#""Filesystem""#)],
    prepare_for_create: |_, object| set_status(object, json!({ "phase": "Pending" })),
    ..BuiltinKind::of::<PersistentVolumeClaim>()
};
