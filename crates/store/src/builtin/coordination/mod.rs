//! `coordination.k8s.io`: leases.

mod lease;

use super::BuiltinKind;

pub(super) static KINDS: &[&BuiltinKind] = &[&lease::KIND];
