use k8s_openapi::api::storage::v1::CSIStorageCapacity;

use crate::builtin::BuiltinKind;

pub(super) static KIND: BuiltinKind = BuiltinKind::of::<CSIStorageCapacity>();
