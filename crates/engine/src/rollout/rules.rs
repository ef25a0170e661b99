//! The rules of a rollout, and the input of a decision under them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::cluster::Instance;
use super::input::Input;
use super::policy::Policy;
use super::strategy::{Limits, Strategy};

/// The rules for all clusters of a rollout.
pub(super) struct Rules<'a> {
    /// The strategy in force: the given one, or the last valid one.
    pub(super) strategy: Option<&'a Strategy>,
    /// The policy; the default if the given one is invalid.
    pub(super) policy: Cow<'a, Policy>,
    pub(super) limits: Limits,
}

impl<'a> Rules<'a> {
    pub(super) fn new(input: &'a Input) -> Self {
        let strategy = input.strategy.as_ref().ok().or(input.last_strategy.as_ref());
        let policy = input.policy.as_ref().map_or_else(|_| Cow::Owned(Policy::default()), Cow::Borrowed);
        Self { strategy, limits: limits(strategy, &policy), policy }
    }
}

/// The input of a decision about a fleet of classified clusters.
#[derive(Clone, Copy)]
pub(super) struct FleetInput<'a> {
    /// Its clusters are not read, because the members of the stages have them.
    pub(super) input: &'a Input,
    pub(super) rules: &'a Rules<'a>,
    /// The content of the clusters outside all groups.
    pub(super) left: &'a BTreeMap<String, Instance>,
    pub(super) now: Timestamp,
}

/// Returns the limits for every cluster: the limits of the strategy, tightened or completed by the policy.
fn limits(strategy: Option<&Strategy>, policy: &Policy) -> Limits {
    let none = Limits { soak: Some(SignedDuration::ZERO), ..Limits::default() };
    let Limits { soak, deadline, start_unreachable } = strategy.map_or(none, Strategy::limits);
    let soak = soak.map(|soak| soak.max(policy.soak));
    Limits { soak, deadline: deadline.or(policy.deadline), start_unreachable }
}
