//! The output of the engine.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;

use super::cluster::{GroupKey, Hash};
use super::refused::Refused;
use super::state::{Breach, ClusterState, Wait};
use super::strategy::{Mandatory, Strategy};

/// The state of a rollout and its next assignments.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RolloutDecision {
    /// The strategy in force: the given one, or the last valid one.
    pub strategy: Option<Strategy>,
    /// The invalid fields of the strategy and policy, reported to the user as a condition.
    pub refused: Vec<Refused>,
    /// Mandatory groups that do not exist or are empty. As in OCM, no stage waits for them.
    pub absent: Vec<Mandatory>,
    /// The assignments of all clusters in the groups.
    pub clusters: BTreeMap<String, Assignment>,
    /// The stages in order, with their counts.
    pub stages: Vec<Stage>,
    /// The reason that no cluster starts in any stage.
    pub hold: Option<Wait>,
    /// The stage with more failures than its budget.
    pub breach: Option<Breach>,
    /// The revision to record as quarantined; `None` clears the record.
    pub quarantine: Option<Hash>,
    /// The time at which a breach that depends on late clusters was recorded, in whole seconds; `None` clears
    /// the record.
    pub late_since: Option<Timestamp>,
    /// The approval tokens that the rollout waits for.
    pub approvals: BTreeSet<String>,
    /// Clusters that left the groups and lose their content now.
    pub removed: Vec<String>,
    /// Clusters in `removed` that count against the removal budget. Record them before the removal.
    #[serde(skip)]
    pub counted: Vec<String>,
    /// Clusters in `removed` whose removal a person approved. Mark them before the removal, see
    /// [`RemovalDecision::approved`](super::removal::RemovalDecision::approved).
    #[serde(skip)]
    pub approved: Vec<String>,
    /// Clusters that left the groups but keep their content until the removal is approved, the removal window
    /// has passed, or the pause ends.
    pub kept: Vec<String>,
    /// The time to decide again if no input changes.
    pub recheck: Option<Timestamp>,
    /// The number of clusters by state.
    pub counts: Counts,
}

/// The decision about a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Assignment {
    /// The group of the cluster.
    pub group: GroupKey,
    /// The state of the cluster.
    #[serde(flatten)]
    pub state: ClusterState,
    /// The hash that the cluster runs from now on; `None` if it runs none.
    pub assigned: Option<Hash>,
}

/// Clusters that start together, and their limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stage {
    /// The name of the group. A Progressive strategy puts clusters outside the mandatory groups into `rest`, and
    /// an All strategy puts all clusters into `all`.
    pub name: String,
    /// True if the stage consists of mandatory groups.
    pub mandatory: bool,
    /// The number of clusters.
    pub clusters: usize,
    /// The maximum number of clusters in flight.
    pub slots: usize,
    /// The number of clusters in flight, including the ones that start now.
    pub busy: usize,
    /// The number of clusters that failed or timed out.
    pub failures: usize,
    /// The maximum number of clusters that may fail or time out; `None` is unlimited.
    pub allowed: Option<usize>,
    /// The number of clusters that wait to start or hold a slot, without newcomers. The next stage waits for
    /// them.
    pub unfinished: usize,
}

/// The number of clusters by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// All clusters.
    pub total: usize,
    /// [`ClusterState::Done`].
    pub done: usize,
    /// [`ClusterState::Soaking`].
    pub soaking: usize,
    /// [`ClusterState::Progressing`].
    pub progressing: usize,
    /// [`ClusterState::Failed`].
    pub failed: usize,
    /// [`ClusterState::TimedOut`].
    pub timed_out: usize,
    /// [`ClusterState::Starting`].
    pub starting: usize,
    /// [`ClusterState::Waiting`].
    pub waiting: usize,
    /// [`ClusterState::Skipped`].
    pub skipped: usize,
    /// [`ClusterState::Unreachable`].
    pub unreachable: usize,
    /// [`ClusterState::Returning`].
    pub returning: usize,
    /// [`ClusterState::Returned`].
    pub returned: usize,
    /// [`ClusterState::Quarantined`].
    pub quarantined: usize,
}

impl RolloutDecision {
    /// Returns the clusters that start now.
    pub fn starting(&self) -> impl Iterator<Item = &str> {
        self.in_state(|state| matches!(state, ClusterState::Starting))
    }

    /// Returns the clusters that OCM's library lists as `ClustersToRollout`: they start now, are in flight,
    /// soak, or failed before their deadline.
    pub(crate) fn rolling(&self) -> impl Iterator<Item = &str> {
        self.in_state(ClusterState::is_rolling)
    }

    /// Returns the clusters that timed out.
    pub fn timed_out(&self) -> impl Iterator<Item = &str> {
        self.in_state(|state| matches!(state, ClusterState::TimedOut))
    }

    fn in_state(&self, filter: impl Fn(&ClusterState) -> bool) -> impl Iterator<Item = &str> {
        self.clusters
            .iter()
            .filter(move |(_, assignment)| filter(&assignment.state))
            .map(|(name, _)| name.as_str())
    }

    /// Returns true if failures have stopped the rollout, and no late report is awaited.
    pub fn is_stopped(&self) -> bool {
        self.breach.as_ref().is_some_and(|breach| breach.reports_until.is_none())
    }

    /// Returns the corrections for the user to make, as sentences.
    pub fn corrections(&self) -> impl Iterator<Item = String> {
        let absent = |group| {
            format!(
                "mandatory group {group}: the placement has no cluster in this group, so the rollout does not wait for it"
            )
        };
        self.refused.iter().map(ToString::to_string).chain(self.absent.iter().map(absent))
    }
}

impl Counts {
    /// Returns true if there is at least one cluster, and every cluster is done or skipped.
    pub fn is_complete(&self) -> bool {
        self.total > 0 && self.done + self.skipped == self.total
    }

    /// Counts the given states.
    pub fn from_states<'a>(states: impl Iterator<Item = &'a ClusterState>) -> Self {
        let mut counts = Self::default();
        for state in states {
            counts.add(state);
        }
        counts
    }

    pub(super) fn add(&mut self, state: &ClusterState) {
        self.total += 1;
        *match state {
            ClusterState::Done => &mut self.done,
            ClusterState::Soaking { .. } => &mut self.soaking,
            ClusterState::Progressing { .. } => &mut self.progressing,
            ClusterState::Failed { .. } => &mut self.failed,
            ClusterState::TimedOut => &mut self.timed_out,
            ClusterState::Starting => &mut self.starting,
            ClusterState::Waiting(_) => &mut self.waiting,
            ClusterState::Skipped => &mut self.skipped,
            ClusterState::Unreachable { .. } => &mut self.unreachable,
            ClusterState::Returning { .. } => &mut self.returning,
            ClusterState::Returned { .. } => &mut self.returned,
            ClusterState::Quarantined => &mut self.quarantined,
        } += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rollout_is_complete_when_every_cluster_is_done_or_left_alone() {
        let check = |total, done, skipped, expected: bool| {
            let counts = Counts { total, done, skipped, ..Counts::default() };
            assert_eq!(counts.is_complete(), expected, "{counts:?}");
        };
        check(1, 1, 0, true);
        check(5, 3, 2, true);
        check(2, 0, 2, true);
        check(5, 2, 2, false);
        check(5, 5, 2, false);
        // A rollout without clusters is never complete.
        check(0, 0, 0, false);
    }
}
