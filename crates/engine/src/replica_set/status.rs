//! The status of a set, in OCM's words.

use jiff::Timestamp;

use crate::addon::selection::UNDECIDED;
use crate::rollout::RolloutDecision;
use api::condition::ConditionStatus::{False, True};
use api::condition::{Conditions as _, Observation, set_condition};
use api::names::replica_set_conditions::{MANIFESTWORK_APPLIED, PLACEMENT_ROLLED_OUT, PLACEMENT_VERIFIED};
use api::names::work_conditions::{APPLIED, AVAILABLE, DEGRADED, PROGRESSING};
use api::work::v1::ManifestWork;
use api::work::v1alpha1::{
    ManifestWorkReplicaSet, ManifestWorkReplicaSetStatus, ManifestWorkReplicaSetSummary, PlacementSummary,
};

/// The progress of a set on one placement.
#[derive(Debug)]
pub struct PlacementProgress<'a> {
    /// Name of the placement.
    pub name: &'a str,
    /// Whether the placement exists.
    pub exists: bool,
    /// Whether its decisions are complete.
    pub settled: bool,
    /// How many decision groups it has.
    pub groups: usize,
    /// How many clusters it selects.
    pub selected: usize,
    /// The works of its clusters.
    pub works: WorkCounts,
    /// The decision of the engine; absent if the engine was not called.
    pub decision: Option<&'a RolloutDecision>,
}

/// How many works of a placement are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkCounts {
    total: usize,
    /// Those with the newest template; the counts after it are about these.
    updated: usize,
    progressing: usize,
    available: usize,
    degraded: usize,
    applied: usize,
}

impl WorkCounts {
    /// Counts a work, or takes it from the counts.
    pub fn count(&mut self, work: &ManifestWork, is_updated: bool, is_there: bool) {
        let Self { total, updated, progressing, available, degraded, applied } = self;
        let holds = |type_: &str| is_updated && work.holds(type_);
        let counts = [
            (total, true),
            (updated, is_updated),
            (progressing, holds(PROGRESSING)),
            (available, holds(AVAILABLE)),
            (degraded, holds(DEGRADED)),
            (applied, holds(APPLIED)),
        ];
        for (count, _) in counts.into_iter().filter(|(_, is_counted)| *is_counted) {
            *count = if is_there { *count + 1 } else { count.saturating_sub(1) };
        }
    }
}

/// Returns the status of a set.
pub fn status(
    set: &ManifestWorkReplicaSet,
    placements: &[PlacementProgress<'_>],
    now: Timestamp,
) -> ManifestWorkReplicaSetStatus {
    let mut status = set.status.clone().unwrap_or_default();
    status.placement_summary = placements.iter().map(placement_summary).collect();
    status.summary = total(&status.placement_summary);
    let summary = &status.summary;
    let observed = [verified(placements, summary), rolled_out(placements), applied(placements, summary)];
    for observation in observed {
        let generation = set.metadata.generation.unwrap_or_default();
        set_condition(&mut status.conditions, observation.at(generation), now);
    }
    status
}

fn placement_summary(placement: &PlacementProgress<'_>) -> PlacementSummary {
    let summary = summary(placement);
    let counts =
        format!("{} ({} / {} clusters applied)", placement.groups, placement.works.total, placement.selected);
    PlacementSummary {
        name: placement.name.to_owned(),
        available_decision_groups: counts,
        summary,
        ..PlacementSummary::default()
    }
}

fn summary(placement: &PlacementProgress<'_>) -> ManifestWorkReplicaSetSummary {
    let WorkCounts { total, updated, progressing, available, degraded, applied } = placement.works;
    ManifestWorkReplicaSetSummary {
        total: count(total),
        progressing: count(progressing),
        available: count(available),
        degraded: count(degraded),
        applied: count(applied),
        desired_total: Some(count(placement.selected)),
        updated: Some(count(updated)),
        ..ManifestWorkReplicaSetSummary::default()
    }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn total(placements: &[PlacementSummary]) -> ManifestWorkReplicaSetSummary {
    let sum = |field: fn(&ManifestWorkReplicaSetSummary) -> i64| {
        placements.iter().map(|placement| field(&placement.summary)).sum()
    };
    ManifestWorkReplicaSetSummary {
        total: sum(|summary| summary.total),
        progressing: sum(|summary| summary.progressing),
        available: sum(|summary| summary.available),
        degraded: sum(|summary| summary.degraded),
        applied: sum(|summary| summary.applied),
        desired_total: Some(sum(|summary| summary.desired_total.unwrap_or_default())),
        updated: Some(sum(|summary| summary.updated.unwrap_or_default())),
        ..ManifestWorkReplicaSetSummary::default()
    }
}

fn verified(placements: &[PlacementProgress<'_>], summary: &ManifestWorkReplicaSetSummary) -> Observation {
    let missing: Vec<&str> =
        placements.iter().filter(|placement| !placement.exists).map(|placement| placement.name).collect();
    if !missing.is_empty() {
        let message = format!("no such placement: {}; its works stay as they are", missing.join(", "));
        return Observation::new(PLACEMENT_VERIFIED, False, "PlacementDecisionNotFound").message(message);
    }
    let refused: Vec<String> =
        placements.iter().filter_map(|placement| placement.decision).flat_map(|d| d.corrections()).collect();
    if !refused.is_empty() {
        return Observation::new(PLACEMENT_VERIFIED, False, "NotAsExpected").message(refused.join("; "));
    }
    if summary.total == 0 && placements.iter().all(|placement| placement.selected == 0) {
        return Observation::new(PLACEMENT_VERIFIED, False, "PlacementDecisionEmpty");
    }
    Observation::new(PLACEMENT_VERIFIED, True, "AsExpected")
}

/// Returns the condition `PlacementRolledOut`. OCM calls a rollout to no cluster complete; this status does
/// so only once it is known that the placements select no cluster.
fn rolled_out(placements: &[PlacementProgress<'_>]) -> Observation {
    let is_complete = |placement: &PlacementProgress<'_>| {
        let done = placement.decision.is_some_and(|decision| {
            decision.kept.is_empty()
                && decision.removed.is_empty()
                && decision.counts.done + decision.counts.skipped == decision.counts.total
        });
        placement.exists && placement.settled && done
    };
    if placements.iter().all(is_complete) {
        return Observation::new(PLACEMENT_ROLLED_OUT, True, "Complete");
    }
    let explanation: Vec<String> = placements.iter().filter_map(explanation).collect();
    Observation::new(PLACEMENT_ROLLED_OUT, False, "Progressing").message(explanation.join("; "))
}

/// Returns the reason why the rollout on a placement is held, if it is. OCM's controller gives none.
fn explanation(placement: &PlacementProgress<'_>) -> Option<String> {
    let Some(decision) = placement.decision else {
        return placement.exists.then(|| format!("placement {}: {UNDECIDED}", placement.name));
    };
    let breach = decision.breach.as_ref().map(|breach| format!("{breach}; the rest waits"));
    let hold = decision.hold.as_ref().map(ToString::to_string);
    let approvals = decision.approvals.iter().map(|token| {
        format!("waits for a person: to allow it, add {token} to spec.approved of a RolloutPolicy")
    });
    let kept = (!decision.kept.is_empty()).then(|| {
        let [some, of] = [decision.kept.len(), decision.kept.len() + decision.counts.total];
        format!("{some} of {of} works are of clusters that are not selected any more, and stay")
    });
    let why: Vec<String> = breach.or(hold).into_iter().chain(kept).chain(approvals).collect();
    (!why.is_empty()).then(|| format!("placement {}: {}", placement.name, why.join("; ")))
}

fn applied(placements: &[PlacementProgress<'_>], summary: &ManifestWorkReplicaSetSummary) -> Observation {
    let condition = |status, reason| Observation::new(MANIFESTWORK_APPLIED, status, reason);
    if summary.total == 0 {
        let is_empty = placements.iter().all(|placement| placement.exists && placement.selected == 0);
        return condition(False, if is_empty { "PlacementDecisionEmpty" } else { "NotAsExpected" });
    }
    if summary.available == summary.total && summary.progressing == 0 && summary.degraded == 0 {
        return condition(True, "AsExpected");
    }
    if summary.progressing > 0 && summary.degraded == 0 {
        return condition(False, "Processing");
    }
    condition(False, "NotAsExpected")
}
