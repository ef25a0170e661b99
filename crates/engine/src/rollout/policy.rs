//! The rollout policy: rules of the fleet's operator on top of a strategy.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt::Debug;

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::cluster::Hash;
use super::freeze::Window;
use super::refused::Refused;
use super::size::{Size, read_deadline, read_soak};
use api::gitops::v1alpha1 as wire;

/// The rules for holding, stopping and undoing rollouts. The default applies without a `RolloutPolicy`.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Pauses all changes: starts, rollbacks and removals. Clusters in flight finish.
    pub paused: bool,
    /// The names of the policies that pause the rollout.
    pub paused_by: Vec<String>,
    /// The effect of a breach of the failure budget.
    pub on_breach: OnBreach,
    /// The effect of a new revision on clusters in flight to the previous one.
    pub superseding: Superseding,
    /// The groups that need an approval.
    pub approval: Approval,
    /// Windows in which no cluster starts. Rollbacks continue, because a freeze protects working clusters.
    pub freezes: Vec<Window>,
    /// The minimum time that a cluster must have succeeded before its slot is free. A longer `minSuccessTime`
    /// wins.
    pub soak: SignedDuration,
    /// The time between the completion of a group and the start of the next group.
    pub group_soak: SignedDuration,
    /// The default `progressDeadline` of strategies; `None` waits indefinitely, as OCM does.
    pub deadline: Option<SignedDuration>,
    /// The number of clusters that may be unreachable before no more clusters start. Unreachable clusters are
    /// not failures.
    pub unreachable: Size,
    /// The number of clusters that may lose their content within the removal window. More need an approval.
    pub removals: Size,
    /// The length of the removal window.
    pub removal_window: SignedDuration,
    /// The changes that follow the strategy.
    pub roll_out: RollOut,
    /// The revision for clusters that have never run any, until they may start.
    pub joining: Joining,
    /// Revisions that are never quarantined.
    pub released: BTreeSet<Hash>,
}

/// The combined rules of the policies that select one subject.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CombinedPolicy {
    /// The strictest value of each rule.
    pub policy: Policy,
    /// True if a change counts as successful once its objects are applied.
    pub applied_suffices: bool,
    /// The tokens that people approved.
    pub granted: BTreeSet<String>,
    /// The rules that policies set, in field order.
    pub contributions: Vec<Contribution>,
}

/// A rule in force, and the policies that set it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contribution {
    /// The field and its value, such as `soak 5m`.
    pub rule: String,
    /// The names of the policies, sorted.
    pub policies: Vec<String>,
}

/// A policy with its name.
type Named<'a> = (&'a str, &'a wire::RolloutPolicySpec);

impl CombinedPolicy {
    /// Combines policies into the strictest rules. A field that a policy does not set contributes nothing.
    ///
    /// | field | combined value |
    /// |---|---|
    /// | `paused` | true if any policy pauses |
    /// | `onBreach` | `Pause` |
    /// | `success` | `Available` |
    /// | `superseding`, `joining`, `rollOut` | `FinishCurrent`, `LastGood`, `InstallAndContent` |
    /// | `soak`, `groupSoak`, `removalWindow` | the longest |
    /// | `defaultDeadline` | the shortest |
    /// | `unreachableBudget`, `removalBudget` | the smallest |
    /// | `approval`, `freezeWindows` | all of them |
    /// | `approved`, `releasedRevisions` | all of them |
    ///
    /// # Errors
    /// Names the first invalid field and its policy. In that case no cluster may start, because the rules are
    /// unknown.
    pub fn read(policies: &[Named<'_>]) -> Result<Self, Refused> {
        let mut combined = Self::default();
        for (name, spec) in policies {
            combined.add(name, spec).map_err(|refused| refused.of(name))?;
        }
        combined.choose_actions(policies)?;
        combined.choose_times(policies)?;
        combined.choose_limits(policies)?;
        Ok(combined)
    }

    /// Adds the fields whose values accumulate across policies.
    fn add(&mut self, name: &str, spec: &wire::RolloutPolicySpec) -> Result<(), Refused> {
        let Self { policy, granted, .. } = self;
        if spec.paused {
            policy.paused = true;
            policy.paused_by.extend((!name.is_empty()).then(|| name.to_owned()));
        }
        let Approval { between_groups, groups } = Approval::read(&spec.approval)?;
        policy.approval.between_groups |= between_groups;
        policy.approval.groups.extend(groups);
        let windows = Window::read_all("freezeWindows", &spec.freeze_windows)?;
        policy.freezes.extend(windows.into_iter().map(|window| window.of_policy(name)));
        policy.released.extend(spec.released_revisions.iter().map(|revision| Hash::from(revision.as_str())));
        granted.extend(spec.approved.iter().cloned());
        Ok(())
    }

    /// Chooses the strictest value of each enum field.
    fn choose_actions(&mut self, policies: &[Named<'_>]) -> Result<(), Refused> {
        let (rules, policy) = (&mut self.contributions, &mut self.policy);
        all(rules, "paused", policies, |spec| spec.paused);
        let on_breach = strictest(
            rules,
            "onBreach",
            policies,
            |spec| spec.on_breach.as_ref().map(OnBreach::read).transpose(),
            |on_breach| *on_breach == OnBreach::Rollback,
        )?;
        policy.on_breach = on_breach.unwrap_or_default();
        let applied = strictest(
            rules,
            "success",
            policies,
            |spec| spec.success.as_ref().map(applied_suffices).transpose(),
            |applied| *applied,
        )?;
        self.applied_suffices = applied.unwrap_or_default();
        let superseding = strictest(
            rules,
            "superseding",
            policies,
            |spec| Superseding::read(&spec.superseding).map(set),
            |_| (),
        )?;
        policy.superseding = superseding.unwrap_or_default();
        let joining =
            strictest(rules, "joining", policies, |spec| Joining::read(&spec.joining).map(set), |_| ())?;
        policy.joining = joining.unwrap_or_default();
        Ok(())
    }

    /// Chooses the shortest deadline and the longest of each other time.
    fn choose_times(&mut self, policies: &[Named<'_>]) -> Result<(), Refused> {
        let default = Policy::default();
        let (rules, policy) = (&mut self.contributions, &mut self.policy);
        let deadline = strictest(
            rules,
            "defaultDeadline",
            policies,
            |spec| {
                let text = spec.default_deadline.as_ref();
                text.map(|text| read_deadline("defaultDeadline", text)).transpose()
            },
            |deadline| deadline.unwrap_or(SignedDuration::MAX),
        )?;
        policy.deadline = deadline.unwrap_or(default.deadline);
        let longest = |duration: &SignedDuration| Reverse(*duration);
        let soak =
            strictest(rules, "soak", policies, |spec| read_soak("soak", &spec.soak).map(set), longest)?;
        policy.soak = soak.unwrap_or_default();
        let group_soak = strictest(
            rules,
            "groupSoak",
            policies,
            |spec| read_soak("groupSoak", &spec.group_soak).map(set),
            longest,
        )?;
        policy.group_soak = group_soak.unwrap_or_default();
        let window = strictest(
            rules,
            "removalWindow",
            policies,
            |spec| {
                let text = spec.removal_window.as_ref();
                text.map(|text| read_soak("removalWindow", text)).transpose()
            },
            longest,
        )?;
        policy.removal_window = window.unwrap_or(default.removal_window);
        Ok(())
    }

    /// Chooses the smallest budgets, and the rules for starts.
    fn choose_limits(&mut self, policies: &[Named<'_>]) -> Result<(), Refused> {
        let default = Policy::default();
        let (rules, policy) = (&mut self.contributions, &mut self.policy);
        policy.unreachable =
            smallest(rules, "unreachableBudget", policies, |spec| spec.unreachable_budget.as_ref())?
                .unwrap_or(default.unreachable);
        policy.removals = smallest(rules, "removalBudget", policies, |spec| spec.removal_budget.as_ref())?
            .unwrap_or(default.removals);
        let roll_out =
            strictest(rules, "rollOut", policies, |spec| RollOut::read(&spec.roll_out).map(set), |_| ())?;
        policy.roll_out = roll_out.unwrap_or_default();
        all(rules, "approval", policies, |spec| spec.approval.mode != wire::ApprovalMode::Never);
        all(rules, "freezeWindows", policies, |spec| !spec.freeze_windows.is_empty());
        Ok(())
    }
}

/// Returns true if a change counts as successful once it is applied.
fn applied_suffices(success: &wire::Success) -> Result<bool, Refused> {
    match success {
        wire::Success::Available => Ok(false),
        wire::Success::Applied => Ok(true),
        wire::Success::Other(other) => Err(Refused::unknown("success", other, wire::Success::VALUES)),
    }
}

/// Returns a value, or `None` if it is the default, which contributes nothing.
fn set<T: Default + PartialEq>(value: T) -> Option<T> {
    (value != T::default()).then_some(value)
}

/// Records the policies that set a field with accumulating values.
fn all(
    rules: &mut Vec<Contribution>,
    field: &str,
    policies: &[Named<'_>],
    is_set: fn(&wire::RolloutPolicySpec) -> bool,
) {
    let names = policies.iter().filter(|(_, spec)| is_set(spec)).map(|(name, _)| *name);
    contribute(rules, field.to_owned(), names);
}

fn contribute<'a>(rules: &mut Vec<Contribution>, rule: String, names: impl Iterator<Item = &'a str>) {
    let policies: BTreeSet<String> = names.map(str::to_owned).collect();
    if !policies.is_empty() {
        rules.push(Contribution { rule, policies: policies.into_iter().collect() });
    }
}

/// Returns the value with the lowest rank, which is the strictest, and records the policies that set it.
fn strictest<T: PartialEq + Debug, R: Ord>(
    rules: &mut Vec<Contribution>,
    field: &'static str,
    policies: &[Named<'_>],
    read: impl Fn(&wire::RolloutPolicySpec) -> Result<Option<T>, Refused>,
    rank: impl Fn(&T) -> R,
) -> Result<Option<T>, Refused> {
    let mut values: Vec<(&str, T)> = Vec::new();
    for (name, spec) in policies {
        let value = read(spec).map_err(|refused| refused.of(name))?;
        values.extend(value.map(|value| (*name, value)));
    }
    values.sort_by_key(|(_, value)| rank(value));
    let Some((_, first)) = values.first() else { return Ok(None) };
    let names = values.iter().filter(|(_, value)| value == first).map(|(name, _)| *name);
    contribute(rules, field.to_owned(), names);
    Ok(values.into_iter().next().map(|(_, value)| value))
}

/// Returns the smallest size that policies set, and records the policies that set it.
fn smallest(
    rules: &mut Vec<Contribution>,
    field: &'static str,
    policies: &[Named<'_>],
    read: fn(&wire::RolloutPolicySpec) -> Option<&IntOrString>,
) -> Result<Option<Size>, Refused> {
    let mut sizes = Vec::new();
    for (name, spec) in policies {
        if let Some(value) = read(spec) {
            sizes.push((*name, Size::read(field, value).map_err(|refused| refused.of(name))?));
        }
    }
    let least = sizes.iter().map(|(_, size)| *size).reduce(Size::least);
    // A number and a percentage cannot be ranked without the number of clusters, so both count.
    let counts = |size: Size| match least {
        Some(Size::Least { count, percent }) => [Size::Count(count), Size::Percent(percent)].contains(&size),
        least => least == Some(size),
    };
    contribute(
        rules,
        field.to_owned(),
        sizes.iter().filter(|(_, size)| counts(*size)).map(|(name, _)| *name),
    );
    Ok(least)
}

impl Policy {
    /// Parses the wire type.
    ///
    /// # Errors
    /// Names the first invalid field. In that case no cluster may start, because the rules are unknown.
    pub fn read(spec: &wire::RolloutPolicySpec) -> Result<Self, Refused> {
        let wire::RolloutPolicySpec {
            add_ons: _,      // selects policies
            replica_sets: _, // selects policies
            paused: _,
            on_breach: _,
            success: _, // controls when works of the add-on count as successful
            superseding: _,
            joining: _,
            default_deadline: _,
            soak: _,
            group_soak: _,
            unreachable_budget: _,
            removal_budget: _,
            removal_window: _,
            roll_out: _,
            approval: _,
            approved: _, // is Input::granted
            freeze_windows: _,
            released_revisions: _,
            unknown: _,
        } = spec;
        Ok(CombinedPolicy::read(&[("", spec)])?.policy)
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            paused: false,
            paused_by: Vec::new(),
            on_breach: OnBreach::default(),
            superseding: Superseding::default(),
            approval: Approval::default(),
            freezes: Vec::new(),
            soak: SignedDuration::ZERO,
            group_soak: SignedDuration::ZERO,
            deadline: Some(SignedDuration::from_mins(10)),
            unreachable: Size::Percent(10),
            // Rounded up, so at least 1.
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
    /// The configurations of installed add-ons, as in OCM.
    #[default]
    Content,
    /// The installation and removal of add-ons as well.
    InstallAndContent,
}

/// The effect of a breach: more clusters failed than the budget allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnBreach {
    /// No cluster starts until failures are within the budget again.
    #[default]
    Pause,
    /// The revision is quarantined, and its clusters return to the last hash that succeeded.
    ///
    /// If no cluster has such a hash (in a first rollout), this only pauses the rollout.
    Rollback,
}

/// The effect of a new revision on clusters in flight to the previous one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Superseding {
    /// The new revision starts at once. It may be a fix, so the old one must not block it.
    #[default]
    Latest,
    /// Clusters in flight first succeed, fail or reach their deadline (10 minutes by default).
    FinishCurrent,
}

/// The groups that start only after a person approves, separately for each revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Approval {
    /// Every group but the first to start.
    pub between_groups: bool,
    /// The named groups. `rest` names the clusters outside the mandatory groups of a Progressive strategy.
    pub groups: BTreeSet<String>,
}

impl Approval {
    fn read(wire: &wire::Approval) -> Result<Self, Refused> {
        let wire::Approval { mode, groups, unknown: _ } = wire;
        match mode {
            wire::ApprovalMode::Never => Ok(Self::default()),
            wire::ApprovalMode::BetweenGroups => Ok(Self { between_groups: true, ..Self::default() }),
            wire::ApprovalMode::Groups => {
                Ok(Self { between_groups: false, groups: groups.iter().cloned().collect() })
            }
            wire::ApprovalMode::Other(other) => {
                Err(Refused::unknown("approval.mode", other, wire::ApprovalMode::VALUES))
            }
        }
    }

    /// Returns true if a group needs an approval; `at` is its index among the groups with clusters.
    pub(super) fn is_needed(&self, group: &str, at: usize) -> bool {
        self.between_groups && at > 0 || self.groups.contains(group)
    }
}

/// The revision of a cluster that runs none, until it may start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Joining {
    /// The cluster runs nothing, as in OCM.
    #[default]
    InTurn,
    /// The last hash that succeeded, if it is known.
    LastGood,
}

impl RollOut {
    fn read(wire: &wire::RollOut) -> Result<Self, Refused> {
        match wire {
            wire::RollOut::Content => Ok(Self::Content),
            wire::RollOut::InstallAndContent => Ok(Self::InstallAndContent),
            wire::RollOut::Other(other) => Err(Refused::unknown("rollOut", other, wire::RollOut::VALUES)),
        }
    }
}

impl OnBreach {
    fn read(wire: &wire::OnBreach) -> Result<Self, Refused> {
        match wire {
            wire::OnBreach::Pause => Ok(Self::Pause),
            wire::OnBreach::Rollback => Ok(Self::Rollback),
            wire::OnBreach::Other(other) => Err(Refused::unknown("onBreach", other, wire::OnBreach::VALUES)),
        }
    }
}

impl Superseding {
    fn read(wire: &wire::Superseding) -> Result<Self, Refused> {
        match wire {
            wire::Superseding::Latest => Ok(Self::Latest),
            wire::Superseding::FinishCurrent => Ok(Self::FinishCurrent),
            wire::Superseding::Other(other) => {
                Err(Refused::unknown("superseding", other, wire::Superseding::VALUES))
            }
        }
    }
}

impl Joining {
    fn read(wire: &wire::Joining) -> Result<Self, Refused> {
        match wire {
            wire::Joining::InTurn => Ok(Self::InTurn),
            wire::Joining::LastGood => Ok(Self::LastGood),
            wire::Joining::Other(other) => Err(Refused::unknown("joining", other, wire::Joining::VALUES)),
        }
    }
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
            approval: Approval { groups: BTreeSet::from(["prod".to_owned()]), ..Approval::default() },
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

    #[test]
    fn several_policies_combine_to_the_strictest_rules_and_each_rule_names_its_policies() {
        let spec =
            |spec: serde_json::Value| -> wire::RolloutPolicySpec { serde_json::from_value(spec).unwrap() };
        let window = |name: &str| json!({"name": name, "schedule": "0 18 * * fri", "duration": "62h"});
        let own = spec(json!({
            "addOns": ["a"], "onBreach": "Rollback", "soak": "5m", "defaultDeadline": "30m", "unreachableBudget": "50%",
            "removalBudget": 3, "removalWindow": "10m", "success": "Applied", "approval": {"mode": "Groups", "groups": ["prod"]},
            "freezeWindows": [window("weekend")], "approved": ["t1"], "releasedRevisions": ["r1"],
        }));
        let all = spec(json!({
            "paused": true, "soak": "1m", "groupSoak": "1h", "defaultDeadline": "None", "unreachableBudget": "20%", "removalBudget": "5%",
            "superseding": "FinishCurrent", "joining": "LastGood", "rollOut": "InstallAndContent",
            "approval": {"mode": "BetweenGroups"}, "freezeWindows": [window("weekend")], "approved": ["t2"],
        }));
        let nothing = spec(json!({}));
        let CombinedPolicy { policy, applied_suffices, granted, contributions } =
            CombinedPolicy::read(&[("own", &own), ("all", &all), ("nothing", &nothing)]).unwrap();
        assert!(policy.paused && applied_suffices);
        assert_eq!(
            (policy.paused_by.as_slice(), policy.on_breach),
            (&["all".to_owned()][..], OnBreach::Rollback)
        );
        assert_eq!(
            (policy.soak, policy.group_soak),
            (SignedDuration::from_mins(5), SignedDuration::from_hours(1))
        );
        assert_eq!(policy.deadline, Some(SignedDuration::from_mins(30)));
        assert_eq!(
            policy.removal_window,
            SignedDuration::from_mins(10),
            "a policy that does not set it says nothing"
        );
        assert_eq!(policy.unreachable, Size::Percent(20));
        assert_eq!([10, 100].map(|total| policy.removals.of(total)), [1, 3]);
        assert_eq!((policy.superseding, policy.joining), (Superseding::FinishCurrent, Joining::LastGood));
        assert_eq!(policy.roll_out, RollOut::InstallAndContent);
        let needed = |group, at| policy.approval.is_needed(group, at);
        assert_eq!([needed("canary", 0), needed("prod", 0), needed("rest", 1)], [false, true, true]);
        let windows: Vec<&str> = policy.freezes.iter().map(|window| window.name.as_str()).collect();
        assert_eq!(windows, ["weekend of RolloutPolicy own", "weekend of RolloutPolicy all"]);
        assert_eq!((granted.len(), policy.released.len()), (2, 1));
        let rules: Vec<String> =
            contributions.iter().map(|it| format!("{} ({})", it.rule, it.policies.join(", "))).collect();
        assert_eq!(
            rules,
            [
                "paused (all)",
                "onBreach (own)",
                "success (own)",
                "superseding (all)",
                "joining (all)",
                "defaultDeadline (own)",
                "soak (own)",
                "groupSoak (all)",
                "removalWindow (own)",
                "unreachableBudget (all)",
                "removalBudget (all, own)",
                "rollOut (all)",
                "approval (all, own)",
                "freezeWindows (all, own)",
            ]
        );
        let pauses = spec(json!({"onBreach": "Pause", "success": "Available"}));
        let strict = CombinedPolicy::read(&[("own", &own), ("pauses", &pauses)]).unwrap();
        assert_eq!((strict.policy.on_breach, strict.applied_suffices), (OnBreach::Pause, false));
        let wrong = spec(json!({"onBreach": "Abort"}));
        let refused = CombinedPolicy::read(&[("own", &own), ("wrong", &wrong)]).unwrap_err();
        assert_eq!(refused.field, "onBreach of RolloutPolicy wrong");
    }
}
