//! `scheduling.k8s.io`.

mod priority_class;

use super::BuiltinKind;

/// The kinds of the group.
pub(super) static KINDS: &[&BuiltinKind] = &[&priority_class::KIND];
