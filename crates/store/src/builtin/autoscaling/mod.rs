//! `autoscaling`.

mod horizontal_pod_autoscaler;

use super::BuiltinKind;

pub(super) static KINDS: &[&BuiltinKind] = &[&horizontal_pod_autoscaler::KIND];
