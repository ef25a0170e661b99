use k8s_openapi::api::batch::v1::Job;
use serde_json::{Value, json};

use crate::Generation;
use crate::builtin::checks::check_unchanged;
use crate::builtin::columns::{AGE, NAME, column, count};
use crate::builtin::{BuiltinKind, pod_spec, set_status};
use object::Object;

pub(super) static KIND: BuiltinKind = BuiltinKind {
    categories: &["all"],
    has_status: true,
    generation: Generation::Spec,
    selectable_fields: &["status.successful"],
    fill: |object| {
        fill(object);
        pod_spec::fill(object, "/spec/template/spec");
    },
    never_absent: pod_spec::TEMPLATE,
    validate: |old, new, errors| check_unchanged(old, new, &["spec", "template"], errors),
    prepare_for_create: |_, object| {
        set_status(object, json!({}));
        identify(object);
    },
    columns: &[
        NAME,
        column("Completions", |o, _| {
            let wanted = o.at(&["spec", "completions"]).and_then(Value::as_i64).unwrap_or(1);
            format!("{}/{wanted}", count(o, &["status", "succeeded"])).into()
        }),
        AGE,
    ],
    ..BuiltinKind::of::<Job>()
};

fn fill(job: &mut Object) {
    let Some(spec) = job.0.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if spec.get("completions").is_none() && spec.get("parallelism").is_none() {
        spec.insert("completions".into(), 1.into());
    }
    for (field, default) in [
        ("parallelism", json!(1)),
        ("backoffLimit", json!(6)),
        ("completionMode", json!("NonIndexed")),
        ("suspend", json!(false)),
        ("manualSelector", json!(false)),
        ("podReplacementPolicy", json!("TerminatingOrFailed")),
    ] {
        spec.entry(field).or_insert(default);
    }
}

/// Sets the labels and the selector that identify the pods of a job.
fn identify(job: &mut Object) {
    if job.at(&["spec", "manualSelector"]) == Some(&Value::Bool(true)) {
        return;
    }
    let (uid, name) = (job.uid().to_owned(), job.name().to_owned());
    let labels = [
        ("batch.kubernetes.io/controller-uid", &uid),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("job-name", &name),
    ];
    let mark = |metadata: Option<&mut Value>| {
        let all = metadata
            .and_then(Value::as_object_mut)
            .map(|metadata| metadata.entry("labels").or_insert_with(|| json!({})));
        if let Some(all) = all.and_then(Value::as_object_mut) {
            all.extend(labels.iter().map(|(key, value)| ((*key).to_owned(), Value::from(value.as_str()))));
        }
    };
    mark(job.0.get_mut("metadata"));
    let spec = job.field_mut("spec");
    spec.insert("selector".into(), json!({ "matchLabels": { "batch.kubernetes.io/controller-uid": uid } }));
    let template = spec.get_mut("template").and_then(Value::as_object_mut);
    mark(template.map(|template| template.entry("metadata").or_insert_with(|| json!({}))));
}
