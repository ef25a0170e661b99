//! `admissionregistration.k8s.io`: admission webhooks and policies.

mod mutating_admission_policy;
mod mutating_admission_policy_binding;
mod mutating_webhook_configuration;
mod validating_admission_policy;
mod validating_admission_policy_binding;
mod validating_webhook_configuration;

use super::BuiltinKind;

pub(super) static KINDS: &[&BuiltinKind] = &[
    &mutating_admission_policy::KIND,
    &mutating_admission_policy_binding::KIND,
    &mutating_webhook_configuration::KIND,
    &validating_admission_policy::KIND,
    &validating_admission_policy_binding::KIND,
    &validating_webhook_configuration::KIND,
];
