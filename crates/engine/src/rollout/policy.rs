//! The rollout policy: the rules of the fleet's operator on top of a strategy.

use std::collections::BTreeSet;

use jiff::SignedDuration;

use super::cluster::Hash;
use super::freeze::Window;
use super::refused::Refused;
use super::size::{Size, read_deadline, read_soak};
use api::gitops::v1alpha1 as wire;

/// How rollouts are held, stopped and undone. The default is in force without a `RolloutPolicy`.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Pauses all changes: no start, no rollback, no removal. Clusters in flight finish.
    pub paused: bool,
    /// The effect of a breach of the failure budget.
    pub on_breach: OnBreach,
    /// The effect of a new revision on clusters in flight to the one before.
    pub superseding: Superseding,
    /// The groups that wait for an approval.
    pub approval: Approval,
    /// Windows in which no cluster starts. Rollbacks are not held: a freeze protects working clusters.
    pub freezes: Vec<Window>,
    /// The least time a cluster must have succeeded before its slot is free; a longer `minSuccessTime` wins.
    pub soak: SignedDuration,
    /// How long the last cluster of a group must have been finished before the next group starts.
    pub group_soak: SignedDuration,
    /// `progressDeadline` of strategies that set none; `None` waits without end, as OCM does.
    pub deadline: Option<SignedDuration>,
    /// How many clusters may be unreachable before no more clusters start. Unreachable clusters are not
    /// failures.
    pub unreachable: Size,
    /// How many clusters may lose their content within the window; more wait for approval.
    pub removals: Size,
    /// How long a removal counts.
    pub removal_window: SignedDuration,
    /// The changes that follow the strategy.
    pub roll_out: RollOut,
    /// The revision of a cluster that never ran any, until it may start.
    pub joining: Joining,
    /// Revisions that are never quarantined.
    pub released: BTreeSet<Hash>,
}

impl Policy {
    /// Reads the wire type.
    ///
    /// # Errors
    /// Names the first field that cannot be used. Then no cluster may start: the rules of the policy are
    /// unknown.
    pub fn read(spec: &wire::RolloutPolicySpec) -> Result<Self, Refused> {
        let wire::RolloutPolicySpec {
            add_ons: _,      // select the policy
            replica_sets: _, // select the policy
            paused,
            on_breach,
            success: _, // tells the add-on's works when they have arrived
            superseding,
            joining,
            default_deadline,
            soak,
            group_soak,
            unreachable_budget,
            removal_budget,
            removal_window,
            roll_out,
            approval,
            approved: _, // is Input::granted
            freeze_windows,
            released_revisions,
            unknown: _,
        } = spec;
        Ok(Self {
            paused: *paused,
            on_breach: match on_breach {
                wire::OnBreach::Pause => OnBreach::Pause,
                wire::OnBreach::Rollback => OnBreach::Rollback,
                wire::OnBreach::Other(other) => {
                    return Err(Refused::unknown("onBreach", other, wire::OnBreach::VALUES));
                }
            },
            superseding: match superseding {
                wire::Superseding::Latest => Superseding::Latest,
                wire::Superseding::FinishCurrent => Superseding::FinishCurrent,
                wire::Superseding::Other(other) => {
                    return Err(Refused::unknown("superseding", other, wire::Superseding::VALUES));
                }
            },
            approval: Approval::read(approval)?,
            freezes: Window::read_all("freezeWindows", freeze_windows)?,
            soak: read_soak("soak", soak)?,
            group_soak: read_soak("groupSoak", group_soak)?,
            deadline: read_deadline("defaultDeadline", default_deadline)?,
            unreachable: Size::read("unreachableBudget", unreachable_budget)?,
            removals: Size::read("removalBudget", removal_budget)?,
            removal_window: read_soak("removalWindow", removal_window)?,
            roll_out: match roll_out {
                wire::RollOut::Content => RollOut::Content,
                wire::RollOut::InstallAndContent => RollOut::InstallAndContent,
                wire::RollOut::Other(other) => {
                    return Err(Refused::unknown("rollOut", other, wire::RollOut::VALUES));
                }
            },
            joining: match joining {
                wire::Joining::InTurn => Joining::InTurn,
                wire::Joining::LastGood => Joining::LastGood,
                wire::Joining::Other(other) => {
                    return Err(Refused::unknown("joining", other, wire::Joining::VALUES));
                }
            },
            released: released_revisions.iter().map(|revision| Hash::from(revision.as_str())).collect(),
        })
    }
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
            deadline: Some(SignedDuration::from_mins(10)),
            unreachable: Size::Percent(10),
            // Rounded up, so at least one.
            removals: Size::Percent(2),
            removal_window: SignedDuration::from_hours(1),
            roll_out: RollOut::default(),
            joining: Joining::default(),
            released: BTreeSet::new(),
        }
    }
}

/// The changes that follow the rollout strategy of a placement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RollOut {
    /// The configurations of add-ons that are installed, as in OCM.
    #[default]
    Content,
    /// The installation and the removal of add-ons too.
    InstallAndContent,
}

/// The effect of a breach: more clusters failed than the budget allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnBreach {
    /// No cluster starts until failures are within the budget again.
    #[default]
    Pause,
    /// The revision is quarantined and its clusters return to the last hash that succeeded.
    ///
    /// If no cluster has one (a first rollout), this is a pause.
    Rollback,
}

/// The effect of a new revision on clusters in flight to the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Superseding {
    /// The new revision starts at once: the revision that it may fix does not hold it back.
    #[default]
    Latest,
    /// Clusters in flight first get an outcome, or reach their deadline (10 minutes if there is none).
    FinishCurrent,
}

/// The groups that start only after a person approves, for each revision anew.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Approval {
    /// No group.
    #[default]
    Never,
    /// Every group but the first to start.
    BetweenGroups,
    /// These groups; the clusters outside mandatory groups of a Progressive strategy are the group `rest`.
    Groups(BTreeSet<String>),
}

impl Approval {
    fn read(wire: &wire::Approval) -> Result<Self, Refused> {
        let wire::Approval { mode, groups, unknown: _ } = wire;
        match mode {
            wire::ApprovalMode::Never => Ok(Self::Never),
            wire::ApprovalMode::BetweenGroups => Ok(Self::BetweenGroups),
            wire::ApprovalMode::Groups => Ok(Self::Groups(groups.iter().cloned().collect())),
            wire::ApprovalMode::Other(other) => {
                Err(Refused::unknown("approval.mode", other, wire::ApprovalMode::VALUES))
            }
        }
    }
}

/// The revision of a cluster that runs none, until it may start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Joining {
    /// The cluster runs none, as in OCM.
    #[default]
    InTurn,
    /// The last hash that succeeded, where it is known.
    LastGood,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_wire_is_read() {
        let read = |spec: serde_json::Value| {
            Policy::read(&serde_json::from_value(spec).unwrap()).map_err(|e| e.to_string())
        };
        assert_eq!(read(json!({})), Ok(Policy::default()), "a policy that says nothing changes nothing");
        assert_eq!(
            read(json!({"defaultDeadline": "None"})),
            Ok(Policy { deadline: None, ..Policy::default() })
        );
        let policy = read(json!({
            "paused": true, "onBreach": "Rollback", "superseding": "FinishCurrent", "joining": "LastGood",
            "approval": {"mode": "Groups", "groups": ["prod"]}, "groupSoak": "1h", "unreachableBudget": 3, "removalBudget": "5%",
            "freezeWindows": [{"name": "weekend", "schedule": "0 18 * * fri", "duration": "62h"}], "releasedRevisions": ["r1"],
        }));
        let expected = Policy {
            paused: true,
            on_breach: OnBreach::Rollback,
            superseding: Superseding::FinishCurrent,
            approval: Approval::Groups(BTreeSet::from(["prod".to_owned()])),
            freezes: Window::read_all(
                "freezeWindows",
                &[wire::TimeWindow {
                    name: "weekend".into(),
                    schedule: "0 18 * * fri".into(),
                    duration: "62h".into(),
                    ..wire::TimeWindow::default()
                }],
            )
            .unwrap(),
            group_soak: SignedDuration::from_hours(1),
            unreachable: Size::Count(3),
            removals: Size::Percent(5),
            joining: Joining::LastGood,
            released: BTreeSet::from(["r1".into()]),
            ..Policy::default()
        };
        assert_eq!(policy, Ok(expected));
        let refused = read(json!({"onBreach": "Abort"}));
        assert_eq!(
            refused.unwrap_err(),
            "onBreach: \"Abort\" is refused: no such value; write one of Pause, Rollback"
        );
    }
}
