use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::Generation;
use crate::builtin::columns::{AGE, NAME, column, text};
use crate::builtin::{BuiltinKind, pod_spec, set_status};

pub(super) static KIND: BuiltinKind = BuiltinKind {
    returns_deleted: true,
    short_names: &["po"],
    categories: &["all"],
    has_status: true,
    generation: Generation::Spec,
    selectable_fields: &[
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.phase",
        "status.podIP",
    ],
    defaults: pod_spec::DEFAULTS,
    fill: |object| pod_spec::fill(object, "/spec"),
    validate: |_, new, errors| pod_spec::check_containers(new, "/spec", errors),
    prepare_for_create: |_, object| set_status(object, json!({ "phase": "Pending" })),
    columns: &[NAME, column("Status", |o, _| text(o, &["status", "phase"]).into()), AGE],
    ..BuiltinKind::of::<Pod>()
};
