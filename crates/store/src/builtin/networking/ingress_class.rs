use k8s_openapi::api::networking::v1::IngressClass;

use crate::Generation;
use crate::builtin::BuiltinKind;

pub(super) static KIND: BuiltinKind =
    BuiltinKind { generation: Generation::Spec, ..BuiltinKind::of::<IngressClass>() };
