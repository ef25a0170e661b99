use k8s_openapi::api::core::v1::PersistentVolume;
use serde_json::json;

use crate::builtin::{BuiltinKind, set_status};

pub(super) static KIND: BuiltinKind = BuiltinKind {
    returns_deleted: true,
    short_names: &["pv"],
    has_status: true,
    defaults: &[
        ("core.v1.PersistentVolumeSpec", "volumeMode", r#""Filesystem""#),
        ("core.v1.PersistentVolumeSpec", "persistentVolumeReclaimPolicy", r#""Retain""#),
    ],
    prepare_for_create: |_, object| set_status(object, json!({ "phase": "Pending" })),
    ..BuiltinKind::of::<PersistentVolume>()
};
