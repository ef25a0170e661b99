use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use crate::Generation;
use crate::builtin::BuiltinKind;
use crate::builtin::columns::{CREATED_AT, NAME};
use crate::crd;

pub(super) static KIND: BuiltinKind = BuiltinKind {
    short_names: &["crd", "crds"],
    categories: &["api-extensions"],
    has_status: true,
    generation: Generation::Spec,
    unconditional_update: false,
    validate: |old, new, errors| errors.extend(crd::check(old, new)),
    prepare_for_create: |_, definition| crd::complete(definition),
    prepare_for_update: |subresource, _, definition| {
        if subresource.is_empty() {
            crd::complete(definition);
        }
    },
    columns: &[NAME, CREATED_AT],
    ..BuiltinKind::of::<CustomResourceDefinition>()
};
