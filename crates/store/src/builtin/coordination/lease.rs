use k8s_openapi::api::coordination::v1::Lease;

use crate::FieldError;
use crate::builtin::BuiltinKind;
use crate::builtin::columns::{AGE, NAME, column, text};

pub(super) static KIND: BuiltinKind = BuiltinKind {
    create_on_update: true,
    unconditional_update: false,
    never_absent: &[("spec", "{}")],
    validate: |_, new, errors| {
        let seconds = new.at(&["spec", "leaseDurationSeconds"]);
        if let Some(seconds) = seconds.filter(|seconds| seconds.as_i64().is_some_and(|s| s <= 0)) {
            errors.push(FieldError::invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"));
        }
        let transitions = new.at(&["spec", "leaseTransitions"]);
        if let Some(transitions) = transitions.filter(|count| count.as_i64().is_some_and(|n| n < 0)) {
            let detail = "must be greater than or equal to 0";
            errors.push(FieldError::invalid("spec.leaseTransitions", transitions, detail));
        }
    },
    columns: &[NAME, column("Holder", |o, _| text(o, &["spec", "holderIdentity"]).into()), AGE],
    ..BuiltinKind::of::<Lease>()
};
