//! `scheduling.k8s.io`.

mod priority_class;

use super::BuiltinKind;

pub(super) static KINDS: &[&BuiltinKind] = &[&priority_class::KIND];
