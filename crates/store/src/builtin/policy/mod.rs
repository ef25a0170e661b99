//! `policy`.

mod pod_disruption_budget;

use super::BuiltinKind;

/// The kinds of the group.
pub(super) static KINDS: &[&BuiltinKind] = &[&pod_disruption_budget::KIND];
