//! `autoscaling`.

mod horizontal_pod_autoscaler;

use super::BuiltinKind;

/// The kinds of the group.
pub(super) static KINDS: &[&BuiltinKind] = &[&horizontal_pod_autoscaler::KIND];
