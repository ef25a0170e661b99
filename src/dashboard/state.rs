//! The states of clusters as the pages show them. Each has a color, a sign and a word.

use controllers::hub::overview::ClusterSummary;
use engine::rollout::ClusterState;
use engine::rollout::state::Wait;

/// A state; the most urgent comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    /// A rollout failed on the cluster, or the workload does not work after a rollout.
    Failed,
    /// The rollout is in progress or done, and reports an error.
    Warned,
    /// The cluster does not respond.
    Unreachable,
    /// The cluster returned from a quarantined revision, and waits for a better one.
    Returned,
    /// A person or a freeze window holds the rollout.
    Paused,
    /// The rollout is in progress.
    InFlight,
    /// The cluster waits for its turn.
    Waiting,
    /// The rollout is done or skipped, and the cluster needs no attention.
    Done,
    /// The cluster has no rollout.
    Idle,
}

impl State {
    /// All states, in order.
    pub(super) const ALL: [Self; 9] = [
        Self::Failed,
        Self::Warned,
        Self::Unreachable,
        Self::Returned,
        Self::Paused,
        Self::InFlight,
        Self::Waiting,
        Self::Done,
        Self::Idle,
    ];

    /// Returns the state of a cluster in a rollout.
    pub(super) fn from_cluster(cluster: &ClusterSummary) -> Self {
        match &cluster.state {
            ClusterState::Failed { .. } | ClusterState::TimedOut | ClusterState::Quarantined => Self::Failed,
            ClusterState::Unreachable { .. } => Self::Unreachable,
            ClusterState::Done | ClusterState::Returned { .. } if !cluster.available => Self::Failed,
            _ if cluster.reports_error => Self::Warned,
            ClusterState::Returned { .. } => Self::Returned,
            ClusterState::Waiting(Wait::Paused { .. } | Wait::Frozen { .. }) => Self::Paused,
            ClusterState::Starting
            | ClusterState::Progressing { .. }
            | ClusterState::Soaking { .. }
            | ClusterState::Returning { .. } => Self::InFlight,
            ClusterState::Waiting(_) => Self::Waiting,
            ClusterState::Done | ClusterState::Skipped => Self::Done,
        }
    }

    /// Returns the CSS class, which is also the value of `state` in addresses.
    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Failed => "x",
            Self::Warned => "e",
            Self::Unreachable => "u",
            Self::Returned => "r",
            Self::Paused => "p",
            Self::InFlight => "f",
            Self::Waiting => "w",
            Self::Done => "d",
            Self::Idle => "n",
        }
    }

    /// Returns the state of a CSS class.
    pub(super) fn from_class(class: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.class() == class)
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Failed => "Failed",
            Self::Warned => "Reports an error",
            Self::Unreachable => "Unreachable",
            Self::Returned => "Returned",
            Self::Paused => "Paused",
            Self::InFlight => "In flight",
            Self::Waiting => "Waiting",
            Self::Done => "Done",
            Self::Idle => "No rollout",
        }
    }

    /// Returns true if a person should look at the cluster.
    pub(super) fn is_exception(self) -> bool {
        match self {
            Self::Failed | Self::Warned | Self::Unreachable | Self::Returned => true,
            Self::Paused | Self::InFlight | Self::Waiting | Self::Done | Self::Idle => false,
        }
    }

    /// Returns the states that occur, in order, with their counts.
    pub(super) fn count(states: impl Iterator<Item = Self>) -> Vec<(Self, usize)> {
        let states: Vec<_> = states.collect();
        let count = |state: Self| (state, states.iter().filter(|one| **one == state).count());
        Self::ALL.into_iter().map(count).filter(|(_, count)| *count > 0).collect()
    }
}
