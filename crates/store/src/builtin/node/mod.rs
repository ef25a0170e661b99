//! `node.k8s.io`.

mod runtime_class;

use super::BuiltinKind;

pub(super) static KINDS: &[&BuiltinKind] = &[&runtime_class::KIND];
