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
    /// The strategy in force: the given one, or the last one that was valid.
    pub strategy: Option<Strategy>,
    /// The fields of strategy and policy that cannot be used; a condition for the user.
    pub refused: Vec<Refused>,
    /// Mandatory groups that do not exist or have no cluster. As in OCM, no stage waits for them.
    pub absent: Vec<Mandatory>,
    /// Every cluster of the groups.
    pub clusters: BTreeMap<String, Assignment>,
    /// The stages in their order, with their counts.
    pub stages: Vec<Stage>,
    /// Why no cluster starts in any stage.
    pub hold: Option<Wait>,
    /// The stage with more failures than its budget.
    pub breach: Option<Breach>,
    /// The revision to remember as quarantined; `None` forgets it.
    pub quarantine: Option<Hash>,
    /// The time to remember with the revision, in whole seconds: since then a breach that needs late clusters
    /// is on record. `None` forgets it.
    pub late_since: Option<Timestamp>,
    /// Approval tokens that the rollout waits for.
    pub approvals: BTreeSet<String>,
    /// Clusters that left the groups and lose their content now.
    pub removed: Vec<String>,
    /// Clusters of `removed` that count against the removal budget and have to be recorded before.
    #[serde(skip)]
    pub counted: Vec<String>,
    /// Clusters of `removed` that a person approved and that have to be marked before, see
    /// [`RemovalDecision::approved`](super::removal::RemovalDecision::approved).
    #[serde(skip)]
    pub approved: Vec<String>,
    /// Clusters that left the groups and keep their content until the removal is approved, its window has
    /// passed, or the pause is over.
    pub kept: Vec<String>,
    /// When to call again although no input changed.
    pub recheck: Option<Timestamp>,
    /// The number of clusters by state.
    pub counts: Counts,
}

/// The decision about a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Assignment {
    /// Its group.
    pub group: GroupKey,
    /// Its state.
    #[serde(flatten)]
    pub state: ClusterState,
    /// The hash that it runs from now on; `None` if it runs none.
    pub assigned: Option<Hash>,
}

/// Clusters that start together, and their limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stage {
    /// The group's name, `rest` for the clusters outside the mandatory groups of a Progressive strategy,
    /// `all` for All.
    pub name: String,
    /// Whether it consists of mandatory groups.
    pub mandatory: bool,
    /// Number of its clusters.
    pub clusters: usize,
    /// Limit of the clusters in flight.
    pub slots: usize,
    /// Number of clusters in flight, including those that start now.
    pub busy: usize,
    /// Number of clusters that failed or timed out.
    pub failures: usize,
    /// Limit of the clusters that may fail or time out; `None` if all may.
    pub allowed: Option<usize>,
    /// Number of clusters that are to do or hold a slot, without newcomers: the next stage waits for them.
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

    /// Returns the clusters that OCM's library calls `ClustersToRollout`: they start now, are in flight,
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

    /// Returns whether too many failures have stopped the rollout, and no late report is waited for.
    pub fn is_stopped(&self) -> bool {
        self.breach.as_ref().is_some_and(|breach| breach.reports_until.is_none())
    }

    /// Returns the corrections that the user should make, in words.
    pub fn corrections(&self) -> impl Iterator<Item = String> {
        let absent = |group| {
            format!(
                "mandatory group {group}: the placement has no cluster in such a group, so nothing waits for it"
            )
        };
        self.refused.iter().map(ToString::to_string).chain(self.absent.iter().map(absent))
    }
}

impl Counts {
    /// Returns whether there is at least one cluster, and every cluster is done or skipped.
    pub fn is_complete(&self) -> bool {
        self.total > 0 && self.done + self.skipped == self.total
    }

    /// Counts states.
    pub fn of<'a>(states: impl Iterator<Item = &'a ClusterState>) -> Self {
        let mut counts = Self::default();
        for state in states {
            counts.add(state);
        }
        counts
    }

    /// Counts a state.
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
        // A rollout without clusters is not complete.
        check(0, 0, 0, false);
    }
}
