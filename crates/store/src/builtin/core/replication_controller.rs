use k8s_openapi::api::core::v1::ReplicationController;
use serde_json::json;

use crate::Generation;
use crate::builtin::{BuiltinKind, pod_spec, set_status};

pub(super) static KIND: BuiltinKind = BuiltinKind {
    short_names: &["rc"],
    categories: &["all"],
    has_status: true,
    generation: Generation::Spec,
    has_scale: true,
    selectable_fields: &["status.replicas"],
    defaults: &[("core.v1.ReplicationControllerSpec", "replicas", "1")],
    fill: |object| pod_spec::fill(object, "/spec/template/spec"),
    prepare_for_create: |_, object| set_status(object, json!({ "replicas": 0 })),
    ..BuiltinKind::of::<ReplicationController>()
};
