//! `policy`.

mod pod_disruption_budget;

use super::BuiltinKind;

pub(super) static KINDS: &[&BuiltinKind] = &[&pod_disruption_budget::KIND];
