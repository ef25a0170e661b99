//! Breaches of the failure budget, and the quarantine that follows.

use jiff::{SignedDuration, Timestamp};
use object::duration::later;

use super::classify::has_failed;
use super::input::{Cluster, Input};
use super::policy::{OnBreach, Policy};
use super::stage::{Member, StagePlan};
use super::state::Breach;
use super::strategy::Limits;

/// The longest wait for the reports of late clusters after a gap in the observation of the hub: the grace
/// of a lease of one minute, after which a cluster that has not come back is unreachable.
const CATCH_UP: SignedDuration = SignedDuration::from_mins(5);

/// Returns the first stage with more failures that count than it tolerates, counted over all its clusters
/// before anything is released.
pub(super) fn breach(plans: &[StagePlan], counts: fn(&Cluster) -> bool) -> Option<Breach> {
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
        })
    })
}

/// Returns until when a breach may end by reports that have not been read, because there was a gap in the
/// observation of the hub; `None` if it stays one. A deadline runs on in the gap, and no report takes a
/// quarantine back. See docs/hazards.md#hub-was-away.
pub(super) fn settles(
    input: &Input,
    limits: &Limits,
    plans: &[StagePlan],
    now: Timestamp,
) -> Option<Timestamp> {
    let at = later(input.observed_since?, limits.deadline?.min(CATCH_UP));
    (at > now && breach(plans, has_failed).is_none()).then_some(at)
}

/// Returns whether the revision is in quarantine. Its failures then no longer count, because its clusters run
/// another revision.
pub(super) fn is_remembered(input: &Input, policy: &Policy) -> bool {
    input.quarantined.as_ref() == Some(&input.revision) && !policy.released.contains(&input.revision)
}

/// Returns whether a breach quarantines the revision. Without a revision to return to, the breach only pauses
/// the rollout.
pub(super) fn is_rejected(input: &Input, policy: &Policy, plans: &[StagePlan]) -> bool {
    policy.on_breach == OnBreach::Rollback
        && !policy.paused
        && !policy.released.contains(&input.revision)
        && plans.iter().flat_map(|plan| &plan.members).any(|member| member.rollback_target().is_some())
}
