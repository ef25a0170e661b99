//! `node.k8s.io`.

mod runtime_class;

use super::BuiltinKind;

/// The kinds of the group.
pub(super) static KINDS: &[&BuiltinKind] = &[&runtime_class::KIND];
