use k8s_openapi::api::scheduling::v1::PriorityClass;

use crate::Generation;
use crate::builtin::BuiltinKind;
use crate::builtin::checks::check_unchanged;

pub(super) static KIND: BuiltinKind = BuiltinKind {
    short_names: &["pc"],
    generation: Generation::Spec,
    defaults: &[("scheduling.v1.PriorityClass", "preemptionPolicy", r#""PreemptLowerPriority""#)],
    validate: |old, new, errors| check_unchanged(old, new, &["value"], errors),
    ..BuiltinKind::of::<PriorityClass>()
};
