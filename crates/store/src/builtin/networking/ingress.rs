use k8s_openapi::api::networking::v1::Ingress;
use serde_json::json;

use crate::Generation;
use crate::builtin::{BuiltinKind, set_status};

pub(super) static KIND: BuiltinKind = BuiltinKind {
    short_names: &["ing"],
    has_status: true,
    generation: Generation::Spec,
    prepare_for_create: |_, object| set_status(object, json!({ "loadBalancer": {} })),
    ..BuiltinKind::of::<Ingress>()
};
