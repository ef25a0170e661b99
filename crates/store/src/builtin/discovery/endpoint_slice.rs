use k8s_openapi::api::discovery::v1::EndpointSlice;

use crate::Generation;
use crate::builtin::BuiltinKind;

pub(super) static KIND: BuiltinKind = BuiltinKind {
    generation: Generation::Spec,
    defaults: &[
        ("discovery.v1.EndpointPort", "name", r#""""#),
        ("discovery.v1.EndpointPort", "protocol", r#""TCP""#),
        ("discovery.v1.Endpoint", "conditions", "{}"),
    ],
    ..BuiltinKind::of::<EndpointSlice>()
};
