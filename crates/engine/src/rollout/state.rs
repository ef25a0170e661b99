//! The state of a cluster in a rollout.
//!
//! One enum defines all states, with one word for each. The decision and its counts, the reports, `explain
//! rollout`, the demo and the traces of the simulator all use it. `docs/design/rollout-states.md` describes the
//! data sources.

use jiff::Timestamp;
use serde::Serialize;

use super::cluster::Hash;

/// The state of a cluster in the rollout of the hash that it should run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all_fields = "camelCase")]
pub enum ClusterState {
    /// The cluster runs the hash, and its success has lasted for the soak time. A new revision or a new report
    /// ends this state.
    Done,
    /// The cluster succeeded and keeps its slot until the soak time is over.
    Soaking {
        /// The end of the soak time.
        until: Timestamp,
    },
    /// The cluster was assigned the wanted revision and has no result yet, or its turn came and the API server
    /// refuses to create its content. It holds a slot.
    Progressing {
        /// The time at which it counts as timed out; `None` is never.
        deadline: Option<Timestamp>,
        /// True if the cluster has reported on this hash.
        reported: bool,
    },
    /// The cluster reported a failure, which counts against the budget. It holds no slot and may still succeed.
    Failed {
        /// The time at which it counts as timed out instead.
        deadline: Option<Timestamp>,
    },
    /// The cluster did not succeed before its deadline, which counts against the budget. It holds no slot and
    /// may still succeed.
    TimedOut,
    /// The cluster starts now.
    Starting,
    /// The cluster waits to start.
    Waiting(Wait),
    /// The cluster is skipped, as its report requests.
    Skipped,
    /// The cluster is unreachable. It holds no slot and counts against a separate budget.
    Unreachable {
        /// True if the hash was assigned before the cluster became unreachable.
        moved: bool,
    },
    /// The hash that the cluster should run is quarantined. A good hash is assigned, but the cluster has not yet
    /// reported success with it.
    Returning {
        /// The hash that the cluster returns to.
        to: Hash,
        /// True if the cluster is unreachable, so that it may still run the quarantined hash.
        unreachable: bool,
    },
    /// The hash that the cluster should run is quarantined, and the cluster runs another one successfully.
    Returned {
        /// The hash that the cluster runs.
        to: Hash,
    },
    /// The hash that the cluster should run is quarantined. The cluster has no good hash to return to, so it
    /// keeps what it runs.
    Quarantined,
}

/// The reason that a cluster waits to start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all_fields = "camelCase")]
pub enum Wait {
    /// The strategy or policy is invalid, and no earlier strategy is known.
    Refused,
    /// A policy pauses the rollout.
    Paused {
        /// The names of the policies, if known.
        policies: Vec<String>,
    },
    /// The revision is quarantined.
    Quarantine { revision: Hash },
    /// Too many clusters have failed.
    Breach(Breach),
    /// A freeze window is open.
    Frozen {
        /// The name of the window.
        window: String,
        /// The time at which the window closes.
        until: Timestamp,
    },
    /// Too many clusters are unreachable.
    Unreachable {
        /// The number of unreachable clusters.
        clusters: usize,
        /// The maximum number of unreachable clusters.
        allowed: usize,
    },
    /// Clusters are still in flight to the previous revision.
    Superseded {
        /// The number of these clusters.
        clusters: usize,
        /// The time at which the last of them reaches its deadline.
        until: Timestamp,
    },
    /// An earlier stage has unfinished clusters.
    Stage {
        /// The name of the earlier stage.
        stage: String,
        /// The number of its unfinished clusters.
        unfinished: usize,
    },
    /// The previous stage has not soaked for long enough.
    StageSoak {
        /// The name of the previous stage.
        stage: String,
        /// The time at which its soak ends.
        until: Timestamp,
    },
    /// The stage needs an approval.
    Approval {
        /// The approval token.
        token: String,
    },
    /// All slots of the stage are in use.
    Slot {
        /// The number of slots.
        slots: usize,
    },
    /// The cluster has no configuration, and no rollout assigns one: no placement selects the cluster, or its
    /// placement is undecided.
    Unassigned,
}

/// A stage with more failures than it tolerates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Breach {
    /// The name of the stage.
    pub stage: String,
    /// The number of clusters that failed or timed out.
    pub failures: usize,
    /// The maximum number of failures in the stage.
    pub allowed: usize,
    /// The first of these clusters, in stage order.
    pub first: String,
    /// The time of the quarantine, if the breach persists until then and no more clusters report a failure. It
    /// is set if the breach depends on late clusters that may not have been able to report.
    pub reports_until: Option<Timestamp>,
}

impl ClusterState {
    /// Returns true if the cluster occupies a slot of its stage.
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

    /// Returns true if the cluster counts against `maxFailures`.
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

    /// Returns true if the cluster runs what it should, or is skipped.
    pub fn is_settled(&self) -> bool {
        matches!(self, Self::Done | Self::Skipped)
    }

    /// Returns true if the revision failed on the cluster, or is quarantined.
    pub fn has_failed(&self) -> bool {
        self.is_failure() || self.is_quarantined()
    }

    /// Returns true if the revision that the cluster should run is quarantined.
    pub fn is_quarantined(&self) -> bool {
        matches!(self, Self::Returning { .. } | Self::Returned { .. } | Self::Quarantined)
    }

    /// Returns true if OCM's library would list the cluster in `ClustersToRollout`.
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

    /// Returns the time at which the state changes without an event.
    pub fn ends(&self) -> Option<Timestamp> {
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

    /// Returns the state as one word, as in [`Counts`](super::decision::Counts).
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

    /// Returns true if both states have the same label.
    pub(crate) fn has_label_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Waiting(wait), Self::Waiting(other)) => wait.reason() == other.reason(),
            _ => self.word() == other.word(),
        }
    }

    /// Returns the word, with the reason if the cluster waits: `Waiting (Paused)`.
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
    /// Returns the reason as one word.
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
            ClusterState::Returning { to: Hash::default(), unreachable: false },
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
