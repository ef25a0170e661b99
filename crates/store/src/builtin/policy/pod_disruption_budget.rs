use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::json;

use crate::Generation;
use crate::builtin::{BuiltinKind, set_status};

pub(super) static KIND: BuiltinKind = BuiltinKind {
    short_names: &["pdb"],
    has_status: true,
    generation: Generation::Spec,
    prepare_for_create: |_, object| {
        set_status(
            object,
            json!({ "disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0 }),
        );
    },
    not_enforced: Some("this API server stores PodDisruptionBudgets and does not enforce them"),
    ..BuiltinKind::of::<PodDisruptionBudget>()
};
