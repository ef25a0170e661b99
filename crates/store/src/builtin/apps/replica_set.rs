use k8s_openapi::api::apps::v1::ReplicaSet;
use serde_json::json;

use crate::Generation;
use crate::builtin::columns::{AGE, NAME, column, count};
use crate::builtin::{BuiltinKind, pod_spec, set_status};

pub(super) static KIND: BuiltinKind = BuiltinKind {
    short_names: &["rs"],
    categories: &["all"],
    has_status: true,
    generation: Generation::Spec,
    has_scale: true,
    selectable_fields: &["status.replicas"],
    defaults: &[("apps.v1.ReplicaSetSpec", "replicas", "1")],
    fill: |object| pod_spec::fill(object, "/spec/template/spec"),
    never_absent: pod_spec::TEMPLATE,
    validate: pod_spec::check_workload,
    prepare_for_create: |_, object| set_status(object, json!({ "replicas": 0 })),
    columns: &[
        NAME,
        column("Desired", |o, _| count(o, &["spec", "replicas"]).into()),
        column("Current", |o, _| count(o, &["status", "replicas"]).into()),
        column("Ready", |o, _| count(o, &["status", "readyReplicas"]).into()),
        AGE,
    ],
    ..BuiltinKind::of::<ReplicaSet>()
};
