//! What an operator of the fleet allows on top of a strategy.

use std::collections::BTreeSet;

use jiff::SignedDuration;

use super::freeze::Freeze;
use super::strategy::Size;

/// How rollouts are held, stopped and undone. The default is what holds without a `RolloutPolicy`.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Changes nothing anywhere: no start, no rollback, no removal. Clusters in flight arrive.
    pub paused: bool,
    /// What a breach of the failure budget does.
    pub on_breach: OnBreach,
    /// What a new revision does to clusters in flight to the one before.
    pub superseding: Superseding,
    /// Which groups wait for a person.
    pub approval: Approval,
    /// When nothing is started. Rollbacks go on: a freeze protects what works.
    pub freezes: Vec<Freeze>,
    /// The least time a cluster must have succeeded before its slot is free; a longer `minSuccessTime` wins.
    pub soak: SignedDuration,
    /// How long the last cluster of a group must have been finished before the next group starts.
    pub group_soak: SignedDuration,
    /// `progressDeadline` of strategies that set none.
    pub deadline: Option<SignedDuration>,
    /// How many clusters may be unreachable before nothing more is started; they are not failures.
    pub unreachable: Size,
    /// How many clusters may lose their content at once; more wait for approval.
    pub removals: Size,
    /// What a cluster that never ran anything runs until its turn.
    pub joining: Joining,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            paused: false,
            on_breach: OnBreach::default(),
            superseding: Superseding::default(),
            approval: Approval::default(),
            freezes: Vec::new(),
            soak: SignedDuration::ZERO,
            group_soak: SignedDuration::ZERO,
            deadline: None,
            unreachable: Size::Percent(10),
            // Rounded up, so at least one.
            removals: Size::Percent(2),
            joining: Joining::default(),
        }
    }
}

/// What happens when more clusters failed than are tolerated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnBreach {
    /// Nothing more is started until failures are within the budget again.
    #[default]
    Pause,
    /// The revision is quarantined and its clusters return to the last hash that succeeded.
    ///
    /// Where no cluster has one (a first rollout) this is a pause.
    Rollback,
}

/// What a new revision does to clusters in flight to the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Superseding {
    /// The new revision starts at once: a fix is never held back by what it fixes.
    #[default]
    Latest,
    /// Clusters in flight get their outcome first, or their deadline (10 minutes where there is none).
    FinishCurrent,
}

/// Which groups start only when a person says so, for each revision anew.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Approval {
    /// None.
    #[default]
    Never,
    /// Every group but the first to start.
    BetweenGroups,
    /// These; the clusters outside mandatory groups of a Progressive strategy are the group `rest`.
    Groups(BTreeSet<String>),
}

/// What a cluster that runs nothing runs until its turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Joining {
    /// Nothing, as in OCM.
    #[default]
    InTurn,
    /// The last hash that succeeded, where it is known.
    LastGood,
}
