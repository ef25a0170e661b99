use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;

use crate::Generation;
use crate::builtin::BuiltinKind;
use crate::builtin::checks::refuse_webhooks;

pub(super) static KIND: BuiltinKind = BuiltinKind {
    categories: &["api-extensions"],
    generation: Generation::Spec,
    validate: refuse_webhooks,
    defaults: &[
        ("admissionregistration.v1.ValidatingWebhook", "failurePolicy", r#""Fail""#),
        ("admissionregistration.v1.ValidatingWebhook", "matchPolicy", r#""Equivalent""#),
        ("admissionregistration.v1.ValidatingWebhook", "namespaceSelector", "{}"),
        ("admissionregistration.v1.ValidatingWebhook", "objectSelector", "{}"),
        ("admissionregistration.v1.ValidatingWebhook", "timeoutSeconds", "10"),
        ("admissionregistration.v1.ServiceReference", "port", "443"),
        ("admissionregistration.v1.RuleWithOperations", "scope", r#""*""#),
    ],
    ..BuiltinKind::of::<ValidatingWebhookConfiguration>()
};
