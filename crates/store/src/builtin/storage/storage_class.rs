use k8s_openapi::api::storage::v1::StorageClass;

use crate::builtin::BuiltinKind;

pub(super) static KIND: BuiltinKind = BuiltinKind {
    returns_deleted: true,
    short_names: &["sc"],
    defaults: &[
        ("storage.v1.StorageClass", "reclaimPolicy", r#""Delete""#),
        ("storage.v1.StorageClass", "volumeBindingMode", r#""Immediate""#),
    ],
    ..BuiltinKind::of::<StorageClass>()
};
