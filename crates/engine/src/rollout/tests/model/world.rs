//! The worlds of the model, and their states.

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Outcome {
    Pending,
    Good,
    Bad,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct C {
    pub(super) member: bool,
    /// The assigned revision; 0 is none.
    pub(super) runs: u8,
    /// The revision in the last report; 0 is none.
    pub(super) seen: u8,
    pub(super) outcome: Outcome,
    pub(super) old: bool,
    pub(super) silent: bool,
    /// True if the cluster joined during the rollout.
    pub(super) late: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct S {
    pub(super) revision: u8,
    pub(super) quarantined: u8,
    /// Set if a breach of `revision` by late clusters is on record; true if their time to report is over.
    pub(super) recorded: Option<bool>,
    pub(super) paused: bool,
    pub(super) frozen: bool,
    /// True if the stages are approved for `revision`.
    pub(super) approved: bool,
    pub(super) clusters: [C; 3],
}

/// A world: a strategy, and the events that may happen.
#[derive(Clone, Copy, Default)]
pub(super) struct World {
    pub(super) name: &'static str,
    pub(super) per_group: bool,
    pub(super) all: bool,
    pub(super) mandatory: bool,
    pub(super) slots: usize,
    pub(super) failures: u32,
    pub(super) revisions: u8,
    pub(super) no_deadline: bool,
    pub(super) fresh_fleet: bool,
    pub(super) rollback: bool,
    pub(super) finish_current: bool,
    pub(super) approvals: bool,
    pub(super) pauses: bool,
    pub(super) freezes: bool,
    pub(super) silence: bool,
    /// The indexes of the clusters that leave and join.
    pub(super) churn: &'static [usize],
    /// True if good clusters can turn bad, and bad ones good.
    pub(super) health_changes: bool,
    /// True if a pass can lose a single write. Otherwise all writes of a pass succeed, or none.
    pub(super) crashes: bool,
}

impl World {
    #[expect(clippy::too_many_lines, reason = "one table")]
    pub(super) fn worlds() -> Vec<Self> {
        let base = Self { slots: 1, revisions: 2, crashes: true, ..Self::default() };
        vec![
            // The small worlds come first, because they reveal most bugs.
            Self {
                name: "progressive, more failures tolerated than clusters",
                failures: 9,
                no_deadline: true,
                ..base
            },
            Self { name: "progressive, three revisions", revisions: 3, failures: 1, ..base },
            Self {
                name: "progressive, two slots, a failure tolerated",
                slots: 2,
                failures: 1,
                health_changes: true,
                ..base
            },
            Self {
                name: "progressive, finish current, three revisions",
                revisions: 3,
                finish_current: true,
                slots: 2,
                ..base
            },
            Self {
                name: "progressive, mandatory, silence",
                mandatory: true,
                failures: 1,
                silence: true,
                ..base
            },
            Self {
                name: "per group, first rollout, silence",
                per_group: true,
                fresh_fleet: true,
                revisions: 1,
                silence: true,
                ..base
            },
            Self {
                name: "per group, rollback",
                per_group: true,
                rollback: true,
                health_changes: true,
                ..base
            },
            Self { name: "progressive, churn", churn: &[0, 2], ..base },
            Self {
                name: "progressive, mandatory, rollback",
                mandatory: true,
                rollback: true,
                pauses: true,
                health_changes: true,
                ..base
            },
            Self {
                name: "per group, approvals, freezes",
                per_group: true,
                approvals: true,
                freezes: true,
                health_changes: true,
                revisions: 3,
                ..base
            },
            Self {
                name: "per group, churn, a failure tolerated",
                per_group: true,
                failures: 1,
                churn: &[0],
                ..base
            },
            Self {
                name: "all",
                all: true,
                slots: 3,
                failures: 9,
                pauses: true,
                freezes: true,
                silence: true,
                ..base
            },
        ]
    }

    pub(super) fn large() -> Vec<Self> {
        let everything = Self {
            slots: 1,
            failures: 1,
            revisions: 3,
            rollback: true,
            silence: true,
            churn: &[0, 1, 2],
            health_changes: true,
            crashes: true,
            ..Self::default()
        };
        vec![
            Self { name: "progressive with everything", mandatory: true, ..everything },
            Self { name: "per group with everything", per_group: true, ..everything },
            Self { name: "progressive, two slots, everything", slots: 2, ..everything },
        ]
    }

    pub(super) fn start(&self) -> S {
        let runs = u8::from(!self.fresh_fleet);
        let cluster = C {
            member: true,
            runs,
            seen: runs,
            outcome: Outcome::Good,
            old: true,
            silent: false,
            late: false,
        };
        S {
            revision: 1,
            quarantined: 0,
            recorded: None,
            paused: false,
            frozen: false,
            approved: false,
            clusters: [cluster; 3],
        }
    }
}
