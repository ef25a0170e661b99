//! `discovery.k8s.io`: endpoints of services.

mod endpoint_slice;

use super::BuiltinKind;

pub(super) static KINDS: &[&BuiltinKind] = &[&endpoint_slice::KIND];
