//! The kind ConfigMap.

use k8s_openapi::api::core::v1::ConfigMap;

use crate::builtin::BuiltinKind;
use crate::builtin::checks::{check_immutable, check_keys};
use crate::builtin::columns::{AGE, NAME, column, entries};

pub(super) static KIND: BuiltinKind = BuiltinKind {
    short_names: &["cm"],
    validate: |old, new, errors| {
        check_keys(new, &["data", "binaryData"], errors);
        check_immutable(old, new, &["data", "binaryData"], errors);
    },
    columns: &[NAME, column("Data", |o, _| (entries(o, "data") + entries(o, "binaryData")).into()), AGE],
    ..BuiltinKind::of::<ConfigMap>()
};
