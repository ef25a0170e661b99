use k8s_openapi::api::apps::v1::DaemonSet;
use serde_json::json;

use super::fill_rolling_update;
use crate::Generation;
use crate::builtin::columns::{AGE, NAME, column, count};
use crate::builtin::{BuiltinKind, pod_spec, set_status};

pub(super) static KIND: BuiltinKind = BuiltinKind {
    short_names: &["ds"],
    categories: &["all"],
    has_status: true,
    generation: Generation::Spec,
    defaults: &[
        ("apps.v1.DaemonSetSpec", "revisionHistoryLimit", "10"),
        ("apps.v1.DaemonSetSpec", "updateStrategy", "{}"),
        ("apps.v1.DaemonSetUpdateStrategy", "type", r#""RollingUpdate""#),
        ("apps.v1.RollingUpdateDaemonSet", "maxUnavailable", "1"),
        ("apps.v1.RollingUpdateDaemonSet", "maxSurge", "0"),
    ],
    fill: |object| {
        fill_rolling_update(object, "updateStrategy", json!({ "maxUnavailable": 1, "maxSurge": 0 }));
        pod_spec::fill(object, "/spec/template/spec");
    },
    never_absent: pod_spec::TEMPLATE,
    validate: pod_spec::check_workload,
    prepare_for_create: |_, object| {
        set_status(
            object,
            json!({ "currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0 }),
        );
    },
    columns: &[
        NAME,
        column("Desired", |o, _| count(o, &["status", "desiredNumberScheduled"]).into()),
        column("Current", |o, _| count(o, &["status", "currentNumberScheduled"]).into()),
        column("Ready", |o, _| count(o, &["status", "numberReady"]).into()),
        column("Up-to-date", |o, _| count(o, &["status", "updatedNumberScheduled"]).into()),
        column("Available", |o, _| count(o, &["status", "numberAvailable"]).into()),
        AGE,
    ],
    ..BuiltinKind::of::<DaemonSet>()
};
