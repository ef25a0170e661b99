//! What a RolloutPolicy's status remembers of rollouts.

use api::addon::v1alpha1::InstallProgression;
use api::gitops::v1alpha1::{RolloutCounts, RolloutPolicy, RolloutStatus};
use engine::rollout::decision::Counts;
use engine::rollout::{Input, RolloutDecision};
use reconcile::{Action, StatusWrite};

/// What a policy's status remembers of one rollout.
pub(super) fn remembered<'a>(
    policy: &'a RolloutPolicy,
    addon: &str,
    progression: &InstallProgression,
) -> Option<&'a RolloutStatus> {
    let rollouts = &policy.status.as_ref()?.rollouts;
    rollouts.iter().find(|rollout| {
        rollout.add_on == addon
            && rollout.placement_namespace == progression.namespace
            && rollout.placement_name == progression.name
    })
}

pub(super) fn rollout_status(
    addon: &str,
    progression: &InstallProgression,
    input: &Input,
    decision: &RolloutDecision,
) -> RolloutStatus {
    RolloutStatus {
        add_on: addon.to_owned(),
        placement_namespace: progression.namespace.clone(),
        placement_name: progression.name.clone(),
        revision: input.revision.0.clone(),
        quarantined: decision.quarantine.clone().map(|hash| hash.0).unwrap_or_default(),
        hold: decision.hold.as_ref().map(ToString::to_string).unwrap_or_default(),
        waiting_approvals: decision.approvals.iter().cloned().collect(),
        counts: counts(&decision.counts),
        ..RolloutStatus::default()
    }
}

fn counts(counts: &Counts) -> RolloutCounts {
    let Counts {
        total,
        done,
        soaking,
        progressing,
        failed,
        timed_out,
        starting,
        waiting,
        skipped,
        unreachable,
        quarantined,
    } = *counts;
    let count = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    RolloutCounts {
        total: count(total),
        done: count(done),
        soaking: count(soaking),
        // What starts in this pass progresses once it is written.
        progressing: count(progressing + starting),
        failed: count(failed),
        timed_out: count(timed_out),
        waiting: count(waiting),
        skipped: count(skipped),
        unreachable: count(unreachable),
        quarantined: count(quarantined),
        ..RolloutCounts::default()
    }
}

/// The write that makes a policy remember the rollouts of one add-on.
pub(super) fn remember(policy: &RolloutPolicy, addon: &str, rollouts: Vec<RolloutStatus>) -> Option<Action> {
    let mut new = policy.clone();
    let status = new.status.get_or_insert_default();
    status.rollouts.retain(|rollout| rollout.add_on != addon);
    status.rollouts.extend(rollouts);
    status.rollouts.sort_by(|a, b| {
        let order =
            |r: &RolloutStatus| (r.add_on.clone(), r.placement_namespace.clone(), r.placement_name.clone());
        order(a).cmp(&order(b))
    });
    StatusWrite::between(policy, &new).map(|write| write.action())
}
