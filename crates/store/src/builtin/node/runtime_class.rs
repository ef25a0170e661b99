use k8s_openapi::api::node::v1::RuntimeClass;

use crate::builtin::BuiltinKind;

pub(super) static KIND: BuiltinKind = BuiltinKind::of::<RuntimeClass>();
