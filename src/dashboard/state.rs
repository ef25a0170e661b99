//! The states of clusters as the pages show them: each has a color, a sign and a word.

use controllers::hub::overview::ClusterSummary;
use engine::rollout::ClusterState;
use engine::rollout::state::Wait;

/// A state, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    /// A rollout failed there, or what it left there does not work.
    Failed,
    /// It is on the way or done, and reports an error.
    Warned,
    /// It does not answer.
    Unreachable,
    /// It returned from a quarantined revision, and waits for a better one.
    Returned,
    /// A person or a freeze window holds it.
    Paused,
    /// It is on the way.
    InFlight,
    /// Its turn has not come.
    Waiting,
    /// It is where it should be.
    Done,
    /// It has no rollout.
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
    pub(super) fn of(cluster: &ClusterSummary) -> Self {
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

    /// Returns the class of the stylesheet, which is the value of `state` in addresses too.
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

    /// Returns the state of a class.
    pub(super) fn from_class(class: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.class() == class)
    }

    /// Returns the state in words.
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

    /// Returns true if a person should look at it.
    pub(super) fn is_exception(self) -> bool {
        match self {
            Self::Failed | Self::Warned | Self::Unreachable | Self::Returned | Self::Paused => true,
            Self::InFlight | Self::Waiting | Self::Done | Self::Idle => false,
        }
    }

    /// Returns the states that occur, in order, with their counts.
    pub(super) fn count(states: impl Iterator<Item = Self>) -> Vec<(Self, usize)> {
        let states: Vec<_> = states.collect();
        let count = |state: Self| (state, states.iter().filter(|one| **one == state).count());
        Self::ALL.into_iter().map(count).filter(|(_, count)| *count > 0).collect()
    }
}
