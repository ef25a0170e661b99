use k8s_openapi::api::core::v1::ServiceAccount;

use crate::builtin::{BuiltinKind, Subresource};

pub(super) static KIND: BuiltinKind = BuiltinKind {
    returns_deleted: true,
    short_names: &["sa"],
    subresources: &[Subresource {
        name: "token",
        verbs: &["create"],
        other_kind: Some(("authentication.k8s.io", "TokenRequest")),
    }],
    ..BuiltinKind::of::<ServiceAccount>()
};
