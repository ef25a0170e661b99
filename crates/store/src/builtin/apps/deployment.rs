use k8s_openapi::api::apps::v1::Deployment;
use serde_json::json;

use super::fill_rolling_update;
use crate::Generation;
use crate::builtin::checks::check_not_negative;
use crate::builtin::columns::{AGE, NAME, column, count, ratio};
use crate::builtin::{BuiltinKind, pod_spec, set_status};

pub(super) static KIND: BuiltinKind = BuiltinKind {
    short_names: &["deploy"],
    categories: &["all"],
    has_status: true,
    generation: Generation::Spec,
    has_scale: true,
    defaults: &[
        ("apps.v1.DeploymentSpec", "replicas", "1"),
        ("apps.v1.DeploymentSpec", "revisionHistoryLimit", "10"),
        ("apps.v1.DeploymentSpec", "progressDeadlineSeconds", "600"),
        ("apps.v1.DeploymentSpec", "strategy", "{}"),
        ("apps.v1.DeploymentStrategy", "type", r#""RollingUpdate""#),
        ("apps.v1.RollingUpdateDeployment", "maxUnavailable", r#""25%""#),
        ("apps.v1.RollingUpdateDeployment", "maxSurge", r#""25%""#),
    ],
    fill: |object| {
        fill_rolling_update(object, "strategy", json!({ "maxUnavailable": "25%", "maxSurge": "25%" }));
        pod_spec::fill(object, "/spec/template/spec");
    },
    never_absent: pod_spec::TEMPLATE,
    validate: |old, new, errors| {
        check_not_negative(new, &["spec", "replicas"], errors);
        pod_spec::check_workload(old, new, errors);
    },
    prepare_for_create: |_, object| set_status(object, json!({})),
    columns: &[
        NAME,
        column("Ready", |o, _| ratio(o, "readyReplicas")),
        column("Up-to-date", |o, _| count(o, &["status", "updatedReplicas"]).into()),
        column("Available", |o, _| count(o, &["status", "availableReplicas"]).into()),
        AGE,
    ],
    ..BuiltinKind::of::<Deployment>()
};
