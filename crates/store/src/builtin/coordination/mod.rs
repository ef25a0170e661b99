//! `coordination.k8s.io`: leases.

mod lease;

use super::BuiltinKind;

/// The kinds of the group.
pub(super) static KINDS: &[&BuiltinKind] = &[&lease::KIND];
