//! Breaches of the failure budget, and the resulting quarantine.
//!
//! Deadlines keep running while the hub is down and clusters cannot report. A breach that depends on late
//! clusters therefore quarantines its revision only after it has been on record for a while, because a record
//! requires a working hub. See docs/design/rollback.md.

use jiff::{SignedDuration, Timestamp};
use object::duration::{later, whole_second};

use super::classify::{has_failed, has_relapsed, was_late};
use super::cluster::{Cluster, Hash};
use super::input::Input;
use super::policy::{OnBreach, Policy};
use super::rules::{FleetInput, Rules};
use super::stage::{Member, StagePlan};
use super::state::{Breach, ClusterState};
use super::strategy::Limits;

/// The longest time that a breach by late clusters stays on record before its revision is quarantined. This is
/// the grace period of a one-minute lease, after which a cluster that has not come back is unreachable.
const CATCH_UP: SignedDuration = SignedDuration::from_mins(5);

/// The failures of a fleet, and whether they quarantine its revision.
pub(super) struct FleetFailures {
    pub(super) breach: Option<Breach>,
    /// The revision, if it is in quarantine.
    pub(super) quarantine: Option<Hash>,
    /// The time at which the breach was recorded, if late clusters may still report or have yet to soak.
    pub(super) late_since: Option<Timestamp>,
}

impl FleetFailures {
    /// Counts the failures of all stages, before anything is released.
    pub(super) fn new(fleet: FleetInput<'_>, plans: &[StagePlan<'_>]) -> Self {
        let FleetInput { input, rules: Rules { policy, limits, .. }, now, .. } = fleet;
        let quarantine = Some(input.revision.clone());
        if is_remembered(input, policy) {
            return Self { breach: None, quarantine, late_since: None };
        }
        let breach = breach_of(plans, |_| true);
        // After a rollout has finished, a cluster that stops working months later must not undo it. A breach that
        // was recorded during the rollout still does, even if every cluster has relapsed since.
        let undoes = is_open(plans)
            || input.late_since.is_some()
            || breach_of(plans, |cluster| !has_relapsed(cluster)).is_some();
        let is_recovering = input.late_since.is_some() && would_recur(plans, limits);
        if (breach.is_none() && !is_recovering) || !undoes || !is_rejected(input, policy, plans) {
            return Self { breach, quarantine: None, late_since: None };
        }
        let since = whole_second(input.late_since.unwrap_or(now).min(now));
        if breach.is_none() {
            return Self { breach, quarantine: None, late_since: Some(since) };
        }
        let until = later(since, limits.deadline.unwrap_or_default().min(CATCH_UP));
        if until <= now || breach_of(plans, has_failed).is_some() {
            return Self { breach, quarantine, late_since: None };
        }
        let breach = breach.map(|breach| Breach { reports_until: Some(until), ..breach });
        Self { breach, quarantine: None, late_since: Some(since) }
    }
}

/// Returns the first stage in which the failures that count exceed the allowance.
fn breach_of(plans: &[StagePlan<'_>], counts: fn(&Cluster) -> bool) -> Option<Breach> {
    plans.iter().find_map(|plan| {
        let counts = |member: &&Member<'_>| member.cluster.is_some_and(counts);
        let (mut failures, allowed) = (plan.failures().filter(counts), plan.allowed?);
        let first = failures.next()?;
        let failures = 1 + failures.count();
        (failures > allowed).then(|| Breach {
            stage: plan.name.clone(),
            failures,
            allowed,
            first: first.name.to_owned(),
            reports_until: None,
        })
    })
}

/// Returns true if a breach would be back if the clusters that have recovered and still soak stopped working
/// again. A container that keeps crashing would otherwise end the record of its breach each time it runs.
fn would_recur(plans: &[StagePlan<'_>], limits: &Limits) -> bool {
    let is_recovering = |member: &&Member<'_>| {
        matches!(member.state, Some(ClusterState::Soaking { .. }))
            && member.cluster.is_some_and(|cluster| was_late(cluster, limits))
    };
    plans.iter().any(|plan| {
        let recovering = plan.members.iter().filter(is_recovering).count();
        plan.allowed.is_some_and(|allowed| plan.failures().count() + recovering > allowed)
    })
}

/// Returns true if a cluster waits to start or holds a slot.
fn is_open(plans: &[StagePlan<'_>]) -> bool {
    let mut members = plans.iter().flat_map(|plan| &plan.members);
    members.any(|member| member.state.as_ref().is_none_or(ClusterState::holds_slot))
}

/// Returns true if the revision is already in quarantine. Its failures no longer count, because its clusters run
/// another revision.
fn is_remembered(input: &Input, policy: &Policy) -> bool {
    input.quarantined.as_ref() == Some(&input.revision) && !policy.released.contains(&input.revision)
}

/// Returns true if a breach quarantines the revision. Without a revision to return to, a breach only pauses the
/// rollout.
fn is_rejected(input: &Input, policy: &Policy, plans: &[StagePlan<'_>]) -> bool {
    policy.on_breach == OnBreach::Rollback
        && !policy.paused
        && !policy.released.contains(&input.revision)
        && plans.iter().flat_map(|plan| &plan.members).any(|member| member.rollback_target().is_some())
}
