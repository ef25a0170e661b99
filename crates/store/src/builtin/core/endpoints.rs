use k8s_openapi::api::core::v1::Endpoints;

use crate::builtin::BuiltinKind;

pub(super) static KIND: BuiltinKind = BuiltinKind {
    short_names: &["ep"],
    defaults: &[("core.v1.EndpointPort", "protocol", r#""TCP""#)],
    ..BuiltinKind::of::<Endpoints>()
};
