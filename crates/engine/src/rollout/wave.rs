//! What the engine answers, and how the answer explains itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Formatter};

use jiff::Timestamp;
use serde::Serialize;

use super::input::{GroupKey, Hash};
use super::strategy::{Mandatory, Refused, Strategy};

/// Where a rollout stands and what is to be done now.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Wave {
    /// The strategy in force: the one given, or the last one that could be used.
    pub strategy: Option<Strategy>,
    /// What of strategy and policy cannot be used; a condition for the user.
    pub refused: Vec<Refused>,
    /// Mandatory groups that there are not: nothing waits for them, as in OCM.
    pub absent: Vec<Mandatory>,
    /// Every cluster of the groups.
    pub clusters: BTreeMap<String, Verdict>,
    /// The stages in their order, with their counts.
    pub stages: Vec<Stage>,
    /// Why nothing is started in any stage.
    pub hold: Option<Wait>,
    /// The stage whose failures exceed its budget.
    pub breach: Option<Breach>,
    /// The revision to remember as quarantined; `None` forgets it.
    pub quarantine: Option<Hash>,
    /// Tokens that would let something go on once a person grants them.
    pub approvals: BTreeSet<String>,
    /// Clusters that left the groups and lose their content now.
    pub removed: Vec<String>,
    /// Clusters that left the groups and keep their content until the removal is approved or the pause is over.
    pub kept: Vec<String>,
    /// When to look again although nothing changed.
    pub recheck: Option<Timestamp>,
    /// Clusters by state.
    pub counts: Counts,
}

/// What becomes of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// Its group.
    pub group: GroupKey,
    /// Where it stands.
    #[serde(flatten)]
    pub state: State,
    /// What it is to run from now on; `None` is nothing.
    pub assigned: Option<Hash>,
}

/// Where a cluster stands in the rollout of what it should run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all_fields = "camelCase")]
pub enum State {
    /// It runs what it should. Entered when its success has lasted for the soak time; left by a new revision or a new report.
    Done,
    /// It succeeded and keeps its slot until the soak time is over.
    Soaking {
        /// The end of the soak time.
        until: Timestamp,
    },
    /// It was assigned what it should run and has no outcome yet. It holds a slot.
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
    /// It had no success before its deadline, which counts against the budget. It holds no slot and may still succeed.
    TimedOut,
    /// It starts now.
    Starting,
    /// Its turn has not come.
    Waiting(Wait),
    /// It is left alone, as its report asks.
    Skipped,
    /// It does not answer: it holds no slot and counts against a budget of its own.
    Unreachable {
        /// It was assigned what it should run before.
        moved: bool,
    },
    /// What it should run is quarantined.
    Quarantined {
        /// The hash it returns to, if this is the moment it does; else it keeps what it runs.
        returns_to: Option<Hash>,
    },
}

/// Why a cluster's turn has not come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all_fields = "camelCase")]
pub enum Wait {
    /// Strategy or policy cannot be used, and there is none to fall back to.
    Refused,
    /// The policy says so.
    Paused,
    /// The revision is quarantined.
    Quarantine {
        /// Which.
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
        /// How many.
        clusters: usize,
        /// How many may.
        allowed: usize,
    },
    /// Clusters are still in flight to the revision before.
    Superseded {
        /// How many.
        clusters: usize,
        /// When the last of them is given up.
        until: Timestamp,
    },
    /// An earlier stage has unfinished clusters.
    Stage {
        /// Its name.
        stage: String,
        /// How many.
        unfinished: usize,
    },
    /// The stage before has not soaked for long enough.
    StageSoak {
        /// Its name.
        stage: String,
        /// When it has.
        until: Timestamp,
    },
    /// A person has to let the stage start.
    Approval {
        /// The token to grant.
        token: String,
    },
    /// Every slot of its stage is in use.
    Slot {
        /// How many there are.
        slots: usize,
    },
}

/// More failures in a stage than it tolerates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Breach {
    /// The stage.
    pub stage: String,
    /// Clusters that failed or timed out.
    pub failures: usize,
    /// How many may.
    pub allowed: usize,
}

/// Clusters that go together, and what they may do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stage {
    /// The group's name, `rest` for the clusters outside the mandatory groups of a Progressive strategy, `all` for All.
    pub name: String,
    /// It belongs to the mandatory groups.
    pub mandatory: bool,
    /// How many clusters it has.
    pub clusters: usize,
    /// How many may be in flight.
    pub slots: usize,
    /// How many are, those that start now included.
    pub busy: usize,
    /// How many failed or timed out.
    pub failures: usize,
    /// How many may; `None` is all of them.
    pub allowed: Option<usize>,
    /// How many are to do or hold a slot, newcomers aside: while there are any, the next stage waits.
    pub unfinished: usize,
}

/// Clusters by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// All of them.
    pub total: usize,
    /// [`State::Done`].
    pub done: usize,
    /// [`State::Soaking`].
    pub soaking: usize,
    /// [`State::Progressing`].
    pub progressing: usize,
    /// [`State::Failed`].
    pub failed: usize,
    /// [`State::TimedOut`].
    pub timed_out: usize,
    /// [`State::Starting`].
    pub starting: usize,
    /// [`State::Waiting`].
    pub waiting: usize,
    /// [`State::Skipped`].
    pub skipped: usize,
    /// [`State::Unreachable`].
    pub unreachable: usize,
    /// [`State::Quarantined`].
    pub quarantined: usize,
}

impl Wave {
    /// Clusters that start now.
    pub fn starting(&self) -> impl Iterator<Item = &str> {
        self.in_state(|state| matches!(state, State::Starting))
    }

    /// What OCM's library calls `ClustersToRollout`: clusters that start now, are in flight, soak, or failed before their deadline.
    pub fn rolling(&self) -> impl Iterator<Item = &str> {
        self.in_state(State::is_rolling)
    }

    /// Clusters that timed out.
    pub fn timed_out(&self) -> impl Iterator<Item = &str> {
        self.in_state(|state| matches!(state, State::TimedOut))
    }

    fn in_state(&self, filter: impl Fn(&State) -> bool) -> impl Iterator<Item = &str> {
        self.clusters.iter().filter(move |(_, verdict)| filter(&verdict.state)).map(|(name, _)| name.as_str())
    }

    /// What the user should mend, in words.
    pub fn complaints(&self) -> impl Iterator<Item = String> {
        let absent = |group| {
            format!(
                "mandatory group {group}: the placement has no such decision group, so nothing waits for it"
            )
        };
        self.refused.iter().map(ToString::to_string).chain(self.absent.iter().map(absent))
    }

    /// Whether there is at least one cluster, and every one is done or left alone.
    pub fn is_complete(&self) -> bool {
        self.counts.total > 0 && self.counts.done + self.counts.skipped == self.counts.total
    }
}

impl State {
    /// Whether the cluster occupies a slot of its stage.
    pub fn holds_slot(&self) -> bool {
        match self {
            Self::Soaking { .. } => !bug!(SoakIsFree),
            Self::Progressing { reported, .. } => *reported || !bug!(UnobservedIsFree),
            Self::Starting => true,
            Self::Failed { .. } => bug!(FailureHoldsSlot),
            Self::TimedOut => bug!(TimeoutHoldsSlot),
            Self::Unreachable { moved } => *moved && bug!(UnreachableHoldsSlot),
            Self::Done | Self::Waiting(_) | Self::Skipped | Self::Quarantined { .. } => false,
        }
    }

    /// Whether the cluster counts against `maxFailures`.
    pub fn is_failure(&self) -> bool {
        match self {
            Self::Failed { .. } => true,
            Self::TimedOut => !bug!(TimeoutIsNoFailure),
            Self::Done
            | Self::Soaking { .. }
            | Self::Progressing { .. }
            | Self::Starting
            | Self::Waiting(_)
            | Self::Skipped
            | Self::Unreachable { .. }
            | Self::Quarantined { .. } => false,
        }
    }

    /// Whether OCM's library would list the cluster in `ClustersToRollout`.
    pub fn is_rolling(&self) -> bool {
        match self {
            Self::Starting | Self::Soaking { .. } | Self::Progressing { .. } | Self::Failed { .. } => true,
            Self::Done
            | Self::TimedOut
            | Self::Waiting(_)
            | Self::Skipped
            | Self::Unreachable { .. }
            | Self::Quarantined { .. } => false,
        }
    }

    /// When the state ends by itself.
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
            | Self::Quarantined { .. } => None,
        }
    }

    /// The state in one word, as [`Counts`] counts it.
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
            Self::Quarantined { .. } => "Quarantined",
        }
    }
}

/// The story: what the cluster waits for, and until when.
impl Display for State {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Done => write!(f, "runs what it should"),
            Self::Soaking { until } => write!(f, "succeeded, soaks until {until}"),
            Self::Progressing { deadline, reported } => {
                let outcome = if *reported { "an outcome" } else { "a first report" };
                match deadline {
                    Some(deadline) => write!(f, "waits for {outcome} until {deadline}"),
                    None => write!(f, "waits for {outcome}, without a deadline"),
                }
            }
            Self::Failed { deadline: Some(deadline) } => {
                write!(f, "failed, counts as timed out from {deadline}")
            }
            Self::Failed { deadline: None } => write!(f, "failed"),
            Self::TimedOut => write!(f, "had no success before its deadline"),
            Self::Starting => write!(f, "starts now"),
            Self::Waiting(wait) => wait.fmt(f),
            Self::Skipped => write!(f, "is left alone"),
            Self::Unreachable { moved: true } => write!(f, "does not answer; it has its assignment"),
            Self::Unreachable { moved: false } => write!(f, "does not answer; its turn comes when it does"),
            Self::Quarantined { returns_to: Some(hash) } => {
                write!(f, "what it ran is quarantined, returns to {}", hash.short())
            }
            Self::Quarantined { returns_to: None } => {
                write!(f, "what it should run is quarantined, keeps what it has")
            }
        }
    }
}

impl Display for Wait {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused => write!(f, "waits for a strategy and a policy that can be used"),
            Self::Paused => write!(f, "waits for the pause to end"),
            Self::Quarantine { revision } => {
                write!(f, "waits for another revision than {}, which is quarantined", revision.short())
            }
            Self::Breach(breach) => write!(f, "waits because of {breach}"),
            Self::Frozen { window, until } => write!(f, "waits for the freeze {window} to end at {until}"),
            Self::Unreachable { clusters, allowed } => {
                write!(f, "waits because too many clusters do not answer: {clusters}, {allowed} allowed")
            }
            Self::Superseded { clusters, until } => {
                write!(
                    f,
                    "waits for clusters in flight to the revision before: {clusters}, until {until} at most"
                )
            }
            Self::Stage { stage, unfinished } => write!(f, "waits for {stage} to finish: {unfinished} to go"),
            Self::StageSoak { stage, until } => write!(f, "waits for {stage} to soak until {until}"),
            Self::Approval { token } => write!(f, "waits for the approval {token}"),
            Self::Slot { slots } => write!(f, "waits for a slot: all {slots} in use"),
        }
    }
}

impl Display for Breach {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "too many failures in {}: {}, {} allowed", self.stage, self.failures, self.allowed)
    }
}

impl Counts {
    pub(super) fn of<'a>(states: impl Iterator<Item = &'a State>) -> Self {
        let mut counts = Self::default();
        for state in states {
            counts.total += 1;
            *match state {
                State::Done => &mut counts.done,
                State::Soaking { .. } => &mut counts.soaking,
                State::Progressing { .. } => &mut counts.progressing,
                State::Failed { .. } => &mut counts.failed,
                State::TimedOut => &mut counts.timed_out,
                State::Starting => &mut counts.starting,
                State::Waiting(_) => &mut counts.waiting,
                State::Skipped => &mut counts.skipped,
                State::Unreachable { .. } => &mut counts.unreachable,
                State::Quarantined { .. } => &mut counts.quarantined,
            } += 1;
        }
        counts
    }
}
