//! The state of a cluster in a rollout.
//!
//! There is one state, and one word for each value. The decision and its counts, the reports, `explain
//! rollout`, the demo and the traces of the simulator all use it. `docs/design/rollout-states.md` says where
//! each of them gets it from.

use jiff::Timestamp;
use serde::Serialize;

use super::cluster::Hash;

/// The state of a cluster in the rollout of the hash that it should run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all_fields = "camelCase")]
pub enum ClusterState {
    /// It runs the hash, and its success has lasted for the soak time. A new revision or a new report ends
    /// this state.
    Done,
    /// It succeeded and keeps its slot until the soak time is over.
    Soaking {
        /// The end of the soak time.
        until: Timestamp,
    },
    /// It was assigned the wanted revision and has no outcome yet. Or its turn came, and the API server
    /// refuses to create what would run there. It holds a slot.
    Progressing {
        /// When it counts as timed out; `None` is never.
        deadline: Option<Timestamp>,
        /// It has reported about this hash.
        reported: bool,
    },
    /// It reported a failure, which counts against the budget. It holds no slot and may still succeed.
    Failed {
        /// When it counts as timed out instead.
        deadline: Option<Timestamp>,
    },
    /// It had no success before its deadline, which counts against the budget. It holds no slot and may still
    /// succeed.
    TimedOut,
    /// It starts now.
    Starting,
    /// It waits to start.
    Waiting(Wait),
    /// It is skipped, as its report asks.
    Skipped,
    /// It does not answer: it holds no slot and counts against a budget of its own.
    Unreachable {
        /// Whether it was assigned the hash before it became unreachable.
        moved: bool,
    },
    /// The hash that it should run is quarantined. It was assigned another one, or is now, and has not
    /// reported that this one succeeds.
    Returning {
        /// The hash that it returns to.
        to: Hash,
    },
    /// The hash that it should run is quarantined, and it runs another one with success.
    Returned {
        /// The hash that it runs.
        to: Hash,
    },
    /// The hash that it should run is quarantined. Nothing succeeded on it before, so it keeps what it runs.
    Quarantined,
}

/// Why a cluster waits to start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all_fields = "camelCase")]
pub enum Wait {
    /// Strategy or policy cannot be used, and no earlier strategy is known.
    Refused,
    /// A policy pauses the rollout.
    Paused {
        /// The names of the policies, as far as they are known.
        policies: Vec<String>,
    },
    /// The revision is quarantined.
    Quarantine {
        /// The revision.
        revision: Hash,
    },
    /// Too many clusters failed.
    Breach(Breach),
    /// A freeze window is open.
    Frozen {
        /// Its name.
        window: String,
        /// When it closes.
        until: Timestamp,
    },
    /// Too many clusters do not answer.
    Unreachable {
        /// Number of clusters that do not answer.
        clusters: usize,
        /// Limit of such clusters.
        allowed: usize,
    },
    /// Clusters are still in flight to the revision before.
    Superseded {
        /// Number of those clusters.
        clusters: usize,
        /// When the last of them reaches its deadline.
        until: Timestamp,
    },
    /// An earlier stage has unfinished clusters.
    Stage {
        /// Its name.
        stage: String,
        /// Number of its unfinished clusters.
        unfinished: usize,
    },
    /// The stage before has not soaked for long enough.
    StageSoak {
        /// Its name.
        stage: String,
        /// When its soak ends.
        until: Timestamp,
    },
    /// The stage needs an approval.
    Approval {
        /// The approval token.
        token: String,
    },
    /// Every slot of its stage is in use.
    Slot {
        /// Number of slots.
        slots: usize,
    },
    /// It has no configuration, and no rollout assigns it one: no placement selects it, or its placement is
    /// undecided.
    Unassigned,
}

/// More failures in a stage than it tolerates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Breach {
    /// The stage.
    pub stage: String,
    /// Number of clusters that failed or timed out.
    pub failures: usize,
    /// Limit of the stage.
    pub allowed: usize,
    /// The first of these clusters, in the order of the stage.
    pub first: String,
    /// The time of the quarantine, if the breach stands until then and no more clusters report a failure:
    /// enough of them are only late, and may not have been able to report.
    pub reports_until: Option<Timestamp>,
}

impl ClusterState {
    /// Returns whether the cluster occupies a slot of its stage.
    pub(crate) fn holds_slot(&self) -> bool {
        match self {
            Self::Starting | Self::Progressing { .. } | Self::Soaking { .. } => true,
            Self::Done
            | Self::Failed { .. }
            | Self::TimedOut
            | Self::Waiting(_)
            | Self::Skipped
            | Self::Unreachable { .. }
            | Self::Returning { .. }
            | Self::Returned { .. }
            | Self::Quarantined => false,
        }
    }

    /// Returns whether the cluster counts against `maxFailures`.
    pub fn is_failure(&self) -> bool {
        match self {
            Self::Failed { .. } | Self::TimedOut => true,
            Self::Done
            | Self::Soaking { .. }
            | Self::Progressing { .. }
            | Self::Starting
            | Self::Waiting(_)
            | Self::Skipped
            | Self::Unreachable { .. }
            | Self::Returning { .. }
            | Self::Returned { .. }
            | Self::Quarantined => false,
        }
    }

    /// Returns whether the cluster runs what it should, or is skipped.
    pub fn is_settled(&self) -> bool {
        matches!(self, Self::Done | Self::Skipped)
    }

    /// Returns whether the revision failed on the cluster, or is quarantined because it failed.
    pub fn has_failed(&self) -> bool {
        self.is_failure() || self.is_quarantined()
    }

    /// Returns whether the revision that the cluster should run is quarantined.
    pub fn is_quarantined(&self) -> bool {
        matches!(self, Self::Returning { .. } | Self::Returned { .. } | Self::Quarantined)
    }

    /// Returns whether OCM's library would list the cluster in `ClustersToRollout`.
    pub(crate) fn is_rolling(&self) -> bool {
        match self {
            Self::Starting | Self::Soaking { .. } | Self::Progressing { .. } | Self::Failed { .. } => true,
            Self::Done
            | Self::TimedOut
            | Self::Waiting(_)
            | Self::Skipped
            | Self::Unreachable { .. }
            | Self::Returning { .. }
            | Self::Returned { .. }
            | Self::Quarantined => false,
        }
    }

    /// Returns the time at which the state ends without an event.
    pub(super) fn ends(&self) -> Option<Timestamp> {
        match self {
            Self::Soaking { until } => Some(*until),
            Self::Progressing { deadline, .. } | Self::Failed { deadline } => *deadline,
            Self::Done
            | Self::TimedOut
            | Self::Starting
            | Self::Waiting(_)
            | Self::Skipped
            | Self::Unreachable { .. }
            | Self::Returning { .. }
            | Self::Returned { .. }
            | Self::Quarantined => None,
        }
    }

    /// Returns the state in one word, as [`Counts`](super::decision::Counts) counts it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Done => "Done",
            Self::Soaking { .. } => "Soaking",
            Self::Progressing { .. } => "Progressing",
            Self::Failed { .. } => "Failed",
            Self::TimedOut => "TimedOut",
            Self::Starting => "Starting",
            Self::Waiting(_) => "Waiting",
            Self::Skipped => "Skipped",
            Self::Unreachable { .. } => "Unreachable",
            Self::Returning { .. } => "Returning",
            Self::Returned { .. } => "Returned",
            Self::Quarantined => "Quarantined",
        }
    }

    /// Returns whether both have the same label.
    pub(crate) fn has_label_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Waiting(wait), Self::Waiting(other)) => wait.reason() == other.reason(),
            _ => self.word() == other.word(),
        }
    }

    /// Returns the word, and the reason of a cluster that waits: `Waiting (Paused)`.
    pub fn label(&self) -> String {
        match self {
            Self::Waiting(wait) => format!("{} ({})", self.word(), wait.reason()),
            Self::Done
            | Self::Soaking { .. }
            | Self::Progressing { .. }
            | Self::Failed { .. }
            | Self::TimedOut
            | Self::Starting
            | Self::Skipped
            | Self::Unreachable { .. }
            | Self::Returning { .. }
            | Self::Returned { .. }
            | Self::Quarantined => self.word().into(),
        }
    }
}

impl Wait {
    /// Returns the reason in one word.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Refused => "Refused",
            Self::Paused { .. } => "Paused",
            Self::Quarantine { .. } => "Quarantine",
            Self::Breach(_) => "Breach",
            Self::Frozen { .. } => "Frozen",
            Self::Unreachable { .. } => "Unreachable",
            Self::Superseded { .. } => "Superseded",
            Self::Stage { .. } => "Stage",
            Self::StageSoak { .. } => "StageSoak",
            Self::Approval { .. } => "Approval",
            Self::Slot { .. } => "Slot",
            Self::Unassigned => "Unassigned",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_state_has_the_word_that_it_is_serialized_with() {
        let until = Timestamp::UNIX_EPOCH;
        for state in [
            ClusterState::Done,
            ClusterState::Soaking { until },
            ClusterState::Progressing { deadline: None, reported: true },
            ClusterState::Failed { deadline: None },
            ClusterState::TimedOut,
            ClusterState::Starting,
            ClusterState::Skipped,
            ClusterState::Unreachable { moved: true },
            ClusterState::Returning { to: Hash::default() },
            ClusterState::Returned { to: Hash::default() },
            ClusterState::Quarantined,
        ] {
            let written = json!(state);
            assert_eq!((&written["state"], state.label()), (&json!(state.word()), state.word().to_owned()));
        }
    }

    #[test]
    fn states_have_one_label_if_they_differ_in_their_details_only() {
        let slot = |slots| ClusterState::Waiting(Wait::Slot { slots });
        let unreachable = |moved| ClusterState::Unreachable { moved };
        let states = [
            slot(1),
            slot(2),
            ClusterState::Waiting(Wait::Paused { policies: Vec::new() }),
            ClusterState::Done,
            unreachable(true),
            unreachable(false),
        ];
        for one in &states {
            for other in &states {
                assert_eq!(one.has_label_of(other), one.label() == other.label(), "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn a_waiting_cluster_has_the_reason_that_it_is_serialized_with() {
        let (until, stage) = (Timestamp::UNIX_EPOCH, String::new);
        for wait in [
            Wait::Refused,
            Wait::Paused { policies: Vec::new() },
            Wait::Quarantine { revision: Hash::default() },
            Wait::Breach(Breach {
                stage: stage(),
                failures: 2,
                allowed: 1,
                first: String::new(),
                reports_until: None,
            }),
            Wait::Frozen { window: String::new(), until },
            Wait::Unreachable { clusters: 2, allowed: 1 },
            Wait::Superseded { clusters: 1, until },
            Wait::Stage { stage: stage(), unfinished: 1 },
            Wait::StageSoak { stage: stage(), until },
            Wait::Approval { token: String::new() },
            Wait::Slot { slots: 1 },
            Wait::Unassigned,
        ] {
            let (reason, state) = (wait.reason(), ClusterState::Waiting(wait.clone()));
            assert_eq!(json!(wait)["reason"], reason);
            assert_eq!((state.word(), state.label()), ("Waiting", format!("Waiting ({reason})")));
        }
    }
}
