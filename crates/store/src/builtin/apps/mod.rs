//! `apps`: workloads.

mod controller_revision;
mod daemon_set;
mod deployment;
mod replica_set;
mod rolling_update;
mod stateful_set;

use super::BuiltinKind;
use rolling_update::fill_rolling_update;

pub(super) static KINDS: &[&BuiltinKind] = &[
    &controller_revision::KIND,
    &daemon_set::KIND,
    &deployment::KIND,
    &replica_set::KIND,
    &stateful_set::KIND,
];
