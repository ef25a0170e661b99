use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;

use crate::Generation;
use crate::builtin::BuiltinKind;
use crate::builtin::checks::refuse_webhooks;

pub(super) static KIND: BuiltinKind = BuiltinKind {
    categories: &["api-extensions"],
    generation: Generation::Spec,
    validate: refuse_webhooks,
    defaults: &[
        ("admissionregistration.v1.MutatingWebhook", "failurePolicy", r#""Fail""#),
        ("admissionregistration.v1.MutatingWebhook", "matchPolicy", r#""Equivalent""#),
        ("admissionregistration.v1.MutatingWebhook", "namespaceSelector", "{}"),
        ("admissionregistration.v1.MutatingWebhook", "objectSelector", "{}"),
        ("admissionregistration.v1.MutatingWebhook", "timeoutSeconds", "10"),
        ("admissionregistration.v1.MutatingWebhook", "reinvocationPolicy", r#""Never""#),
    ],
    ..BuiltinKind::of::<MutatingWebhookConfiguration>()
};
