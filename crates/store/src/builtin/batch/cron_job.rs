use k8s_openapi::api::batch::v1::CronJob;
use serde_json::json;

use crate::Generation;
use crate::builtin::{BuiltinKind, pod_spec, set_status};

pub(super) static KIND: BuiltinKind = BuiltinKind {
    short_names: &["cj"],
    categories: &["all"],
    has_status: true,
    generation: Generation::Spec,
    defaults: &[
        ("batch.v1.CronJobSpec", "concurrencyPolicy", r#""Allow""#),
        ("batch.v1.CronJobSpec", "suspend", "false"),
        ("batch.v1.CronJobSpec", "successfulJobsHistoryLimit", "3"),
        ("batch.v1.CronJobSpec", "failedJobsHistoryLimit", "1"),
    ],
    fill: |object| pod_spec::fill(object, "/spec/jobTemplate/spec/template/spec"),
    prepare_for_create: |_, object| set_status(object, json!({})),
    ..BuiltinKind::of::<CronJob>()
};
