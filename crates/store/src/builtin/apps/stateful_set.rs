use k8s_openapi::api::apps::v1::StatefulSet;
use serde_json::json;

use super::fill_rolling_update;
use crate::Generation;
use crate::builtin::columns::{AGE, NAME, column, ratio};
use crate::builtin::{BuiltinKind, pod_spec, set_status};

pub(super) static KIND: BuiltinKind = BuiltinKind {
    short_names: &["sts"],
    categories: &["all"],
    has_status: true,
    generation: Generation::Spec,
    has_scale: true,
    defaults: &[
        ("apps.v1.StatefulSetSpec", "replicas", "1"),
        ("apps.v1.StatefulSetSpec", "podManagementPolicy", r#""OrderedReady""#),
        ("apps.v1.StatefulSetSpec", "revisionHistoryLimit", "10"),
        ("apps.v1.StatefulSetSpec", "updateStrategy", "{}"),
        ("apps.v1.StatefulSetSpec", "persistentVolumeClaimRetentionPolicy", "{}"),
        ("apps.v1.StatefulSetUpdateStrategy", "type", r#""RollingUpdate""#),
        ("apps.v1.RollingUpdateStatefulSetStrategy", "partition", "0"),
        ("apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy", "whenDeleted", r#""Retain""#),
        ("apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy", "whenScaled", r#""Retain""#),
    ],
    fill: |object| {
        fill_rolling_update(object, "updateStrategy", json!({ "partition": 0 }));
        pod_spec::fill(object, "/spec/template/spec");
    },
    never_absent: pod_spec::TEMPLATE,
    validate: pod_spec::check_workload,
    prepare_for_create: |_, object| set_status(object, json!({ "replicas": 0, "availableReplicas": 0 })),
    columns: &[NAME, column("Ready", |o, _| ratio(o, "readyReplicas")), AGE],
    ..BuiltinKind::of::<StatefulSet>()
};
