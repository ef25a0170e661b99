//! The status of a set, with OCM's messages.

use jiff::Timestamp;

use crate::addon::progress;
use crate::addon::selection::UNDECIDED;
use crate::plural::counted;
use crate::rollout::RolloutDecision;
use crate::rollout::decision::Counts;
use api::condition::ConditionStatus::{self, False, True};
use api::condition::{Conditions as _, Observation, set_condition};
use api::names::gitops_conditions::{RECONCILING, STALLED};
use api::names::replica_set_conditions::{MANIFESTWORK_APPLIED, PLACEMENT_ROLLED_OUT, PLACEMENT_VERIFIED};
use api::names::work_conditions::{APPLIED, AVAILABLE, DEGRADED, PROGRESSING};
use api::work::v1::ManifestWork;
use api::work::v1alpha1::{
    ManifestWorkReplicaSet, ManifestWorkReplicaSetStatus, ManifestWorkReplicaSetSummary, PlacementSummary,
};
use object::text::clip;

/// The progress of a set on one placement.
#[derive(Debug)]
pub struct PlacementProgress<'a> {
    /// The name of the placement.
    pub name: &'a str,
    /// True if the placement exists.
    pub exists: bool,
    /// True if the decisions of the placement are complete.
    pub settled: bool,
    /// The number of decision groups.
    pub groups: usize,
    /// The number of selected clusters.
    pub selected: usize,
    /// The works of the selected clusters.
    pub works: WorkCounts,
    /// The decision of the engine, if it was called.
    pub decision: Option<&'a RolloutDecision>,
    /// The errors that clusters report for the newest template.
    pub errors: ReportedErrors<'a>,
}

/// The errors reported by the clusters of a placement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReportedErrors<'a> {
    /// The number of clusters with an error.
    pub clusters: usize,
    /// The first such cluster, and its error.
    pub first: Option<(&'a str, &'a str)>,
}

/// The texts that follow the number of clusters with an error, for one cluster and for several.
const REPORTS: [&str; 2] = [" cluster reports an error: ", " clusters report an error, first "];

impl<'a> ReportedErrors<'a> {
    /// Collects errors by cluster.
    pub fn of(errors: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut all = errors.peekable();
        Self { first: all.peek().copied(), clusters: all.count() }
    }

    /// Returns a description of the errors; `None` if there are none.
    pub fn words(&self) -> Option<String> {
        let (cluster, reason) = self.first?;
        let [one, several] = REPORTS;
        let reports = if self.clusters == 1 { one } else { several };
        Some(format!("{}{reports}{cluster}: {}", self.clusters, clip(reason, ERROR)))
    }

    /// Returns the number of clusters with an error from a message that contains [`Self::words`].
    pub fn in_message(message: &str) -> usize {
        let before = REPORTS.iter().find_map(|reports| Some(message.split_once(reports)?.0));
        let number = before.and_then(|before| before.rsplit(|c: char| !c.is_ascii_digit()).next());
        number.and_then(|number| number.parse().ok()).unwrap_or_default()
    }
}

/// The maximum length of a cluster's error in a condition.
const ERROR: usize = 400;

/// The number of a placement's works by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkCounts {
    total: usize,
    /// The works with the newest template. The counts below include only these.
    updated: usize,
    progressing: usize,
    available: usize,
    degraded: usize,
    applied: usize,
}

impl WorkCounts {
    /// Adds a work to the counts, or removes it.
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
    let rolled_out = rolled_out(placements);
    let phase = Phase::new(placements, &rolled_out);
    let applied = applied(placements, summary, phase);
    let [reconciling, stalled] = phase.conditions(&rolled_out.message);
    for observation in [verified(placements, summary), rolled_out, applied, reconciling, stalled] {
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
        let message = format!("no such placement: {}; its works are kept", missing.join(", "));
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

/// The reason for a set whose revision is quarantined.
const ROLLED_BACK: &str = "RolledBack";

/// The phase of a set's rollouts. OCM's controller does not distinguish a failed rollout from one in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Complete,
    UnderWay,
    /// A rollout failed. It continues after a change of the set or policy, or when clusters recover.
    Failed {
        /// The cause, as one word.
        reason: &'static str,
    },
}

impl Phase {
    fn new(placements: &[PlacementProgress<'_>], rolled_out: &Observation) -> Self {
        if rolled_out.status == True {
            return Self::Complete;
        }
        let open = placements.iter().filter(|placement| !is_complete(placement));
        let mut failed = open.filter_map(|placement| placement.decision).filter(|it| has_failed(it));
        match failed.next() {
            Some(decision) if decision.quarantine.is_some() => Self::Failed { reason: ROLLED_BACK },
            Some(_) => Self::Failed { reason: progress::FAILED },
            None => Self::UnderWay,
        }
    }

    /// Returns the kstatus conditions `Reconciling` and `Stalled`. The one that is true has the message.
    fn conditions(self, message: &str) -> [Observation; 2] {
        let (reason, holds) = match self {
            Self::Complete => ("Complete", None),
            Self::UnderWay => ("Progressing", Some(RECONCILING)),
            Self::Failed { reason } => (reason, Some(STALLED)),
        };
        [RECONCILING, STALLED].map(|type_| {
            let message = if holds == Some(type_) { message } else { "" };
            Observation::new(type_, (holds == Some(type_)).into(), reason).message(message)
        })
    }
}

/// Returns true if the failure budget is exceeded, the revision is quarantined, or clusters failed and no other
/// cluster is under way.
fn has_failed(decision: &RolloutDecision) -> bool {
    let Counts { soaking, progressing, failed, timed_out, starting, waiting, .. } = decision.counts;
    let is_over = soaking + progressing + starting + waiting == 0;
    decision.breach.is_some() || decision.quarantine.is_some() || is_over && failed + timed_out > 0
}

/// Returns the condition `PlacementRolledOut`. OCM calls a rollout to no clusters complete. Here it is complete
/// only when it is known that the placements select no clusters.
fn rolled_out(placements: &[PlacementProgress<'_>]) -> Observation {
    if placements.iter().all(is_complete) {
        return Observation::new(PLACEMENT_ROLLED_OUT, True, "Complete");
    }
    let explanation: Vec<String> = placements.iter().map(explanation).collect();
    Observation::new(PLACEMENT_ROLLED_OUT, False, "Progressing").message(explanation.join("; "))
}

fn is_complete(placement: &PlacementProgress<'_>) -> bool {
    let done = placement.decision.is_some_and(|decision| {
        decision.kept.is_empty()
            && decision.removed.is_empty()
            && decision.counts.done + decision.counts.skipped == decision.counts.total
    });
    placement.exists && placement.settled && done
}

/// Returns the progress of the rollout on a placement, the reason that it is on hold, and the errors that
/// clusters report. OCM's controller reports none of this.
fn explanation(placement: &PlacementProgress<'_>) -> String {
    let name = placement.name;
    let Some(decision) = placement.decision.filter(|_| placement.exists && placement.settled) else {
        let reason = if placement.exists { UNDECIDED } else { "it does not exist" };
        return format!("placement {name}: {reason}");
    };
    let breach = decision.breach.as_ref().map(|breach| format!("{breach}; the rest waits"));
    let hold = decision.hold.as_ref().map(ToString::to_string);
    let approvals = decision.approvals.iter().map(|token| {
        format!("waits for an approval; to approve, add {token} to spec.approved of a RolloutPolicy")
    });
    let kept = (!decision.kept.is_empty()).then(|| {
        let [some, of] = [decision.kept.len(), decision.kept.len() + decision.counts.total];
        format!("{some} of {of} works are kept on clusters that are no longer selected")
    });
    let reason: Vec<String> =
        breach.or(hold).into_iter().chain(kept).chain(approvals).chain(placement.errors.words()).collect();
    let Counts { done, skipped, failed, timed_out, total, .. } = decision.counts;
    match reason.as_slice() {
        [] => {
            let failed = match failed + timed_out {
                0 => String::new(),
                failed => format!(", {failed} failed"),
            };
            format!("placement {name}: {} of {} done{failed}", done + skipped, counted(total, "cluster"))
        }
        reason => format!("placement {name}: {}", reason.join("; ")),
    }
}

/// Returns the condition `ManifestworkApplied`. During a rollout, works that wait for their turn are
/// `Processing`. OCM's controller reports `NotAsExpected` between two works.
fn applied(
    placements: &[PlacementProgress<'_>],
    summary: &ManifestWorkReplicaSetSummary,
    phase: Phase,
) -> Observation {
    let errors = placements
        .iter()
        .filter_map(|placement| Some(format!("placement {}: {}", placement.name, placement.errors.words()?)));
    let errors: Vec<String> = errors.collect();
    let message = match errors.as_slice() {
        [] => {
            let ManifestWorkReplicaSetSummary { total, applied, available, .. } = summary;
            format!("{applied} of {total} works are applied, {available} are available")
        }
        errors => errors.join("; "),
    };
    let condition = |status: ConditionStatus, reason| {
        let message = if status == True { String::new() } else { message.clone() };
        Observation::new(MANIFESTWORK_APPLIED, status, reason).message(message)
    };
    let exist = placements.iter().all(|placement| placement.exists);
    if summary.total == 0 && exist && placements.iter().all(|placement| placement.selected == 0) {
        return condition(False, "PlacementDecisionEmpty");
    }
    let is_available = summary.total > 0 && summary.available == summary.total;
    if is_available && summary.progressing == 0 && summary.degraded == 0 {
        return condition(True, "AsExpected");
    }
    let is_moving = summary.progressing > 0 || phase == Phase::UnderWay && exist;
    if is_moving && summary.degraded == 0 {
        return condition(False, "Processing");
    }
    condition(False, "NotAsExpected")
}
