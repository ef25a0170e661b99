use k8s_openapi::api::networking::v1::NetworkPolicy;
use serde_json::{Value, json};

use crate::Generation;
use crate::builtin::BuiltinKind;

pub(super) static KIND: BuiltinKind = BuiltinKind {
    short_names: &["netpol"],
    generation: Generation::Spec,
    defaults: &[("networking.v1.NetworkPolicyPort", "protocol", r#""TCP""#)],
    fill: |policy| {
        let spec = policy.field_mut("spec");
        let egress = spec.get("egress").and_then(Value::as_array).is_some_and(|rules| !rules.is_empty());
        let types: &[&str] = if egress { &["Ingress", "Egress"] } else { &["Ingress"] };
        spec.entry("policyTypes").or_insert_with(|| json!(types));
    },
    not_enforced: Some("this API server stores NetworkPolicies and does not enforce them"),
    ..BuiltinKind::of::<NetworkPolicy>()
};
