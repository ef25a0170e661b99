//! The rules of a rollout, and a fleet to decide about under them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::cluster::Instance;
use super::input::Input;
use super::policy::Policy;
use super::strategy::{Limits, Strategy};

/// The rules that hold for every cluster of a rollout.
pub(super) struct Rules<'a> {
    /// The strategy in force: the given one, or the last one that was valid.
    pub(super) strategy: Option<&'a Strategy>,
    /// The policy; the default while the given one cannot be used.
    pub(super) policy: Cow<'a, Policy>,
    pub(super) limits: Limits,
}

impl<'a> Rules<'a> {
    pub(super) fn of(input: &'a Input) -> Self {
        let strategy = input.strategy.as_ref().ok().or(input.last_strategy.as_ref());
        let policy = input.policy.as_ref().map_or_else(|_| Cow::Owned(Policy::default()), Cow::Borrowed);
        Self { strategy, limits: limits(strategy, &policy), policy }
    }
}

/// The input of the decision about a fleet whose clusters are judged.
#[derive(Clone, Copy)]
pub(super) struct FleetInput<'a> {
    /// Its clusters are not read: the members of the stages have them.
    pub(super) input: &'a Input,
    pub(super) rules: &'a Rules<'a>,
    /// The content of the clusters of the input that are in no group.
    pub(super) left: &'a BTreeMap<String, Instance>,
    pub(super) now: Timestamp,
}

/// Returns the limits of every cluster: those of the strategy, and those of the policy where they are
/// stricter or the strategy has none.
fn limits(strategy: Option<&Strategy>, policy: &Policy) -> Limits {
    let none = Limits { soak: Some(SignedDuration::ZERO), ..Limits::default() };
    let Limits { soak, deadline, start_unreachable } = strategy.map_or(none, Strategy::limits);
    let soak = soak.map(|soak| soak.max(policy.soak));
    Limits { soak, deadline: deadline.or(policy.deadline), start_unreachable }
}
