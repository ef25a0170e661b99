//! Compiles a strategy into an ordered list of stages. The clusters of a stage start together.

use std::collections::{BTreeMap, BTreeSet};

use super::cluster::{Cluster, Group, GroupKey, Hash};
use super::policy::Policy;
use super::state::ClusterState;
use super::strategy::{All, Failures, Mandatory, StageRule, Strategy};

/// A cluster in a group.
#[derive(Clone, Debug)]
pub(super) struct Member<'a> {
    pub(super) name: &'a str,
    pub(super) group: &'a GroupKey,
    /// The cluster from the input, if it has an entry.
    pub(super) cluster: Option<&'a Cluster>,
    /// The state, independent of the other clusters; `None` if the cluster waits to start.
    pub(super) state: Option<ClusterState>,
    /// True if the cluster joined during the rollout. No later stage waits for it.
    pub(super) newcomer: bool,
}

impl<'a> Member<'a> {
    /// Returns the hash that was assigned last.
    pub(super) fn runs(&self) -> Option<&'a Hash> {
        self.cluster.and_then(|cluster| cluster.runs.as_ref())
    }

    /// Returns the last good hash, if it differs from the wanted one.
    pub(super) fn rollback_target(&self) -> Option<&'a Hash> {
        self.cluster.and_then(|cluster| cluster.last_good.as_ref().filter(|good| **good != cluster.wants))
    }
}

/// A stage before any of its clusters are released.
#[derive(Debug)]
pub(super) struct StagePlan<'a> {
    pub(super) name: String,
    pub(super) mandatory: bool,
    /// The clusters in the order in which they start: by name.
    pub(super) members: Vec<Member<'a>>,
    pub(super) slots: usize,
    /// The number of failures that the stage tolerates; `None` is unlimited.
    pub(super) allowed: Option<usize>,
    /// True if the stage needs an approval to start.
    pub(super) needs_approval: bool,
}

impl StagePlan<'_> {
    /// Returns the clusters that failed or timed out.
    pub(super) fn failures(&self) -> impl Iterator<Item = &Member<'_>> {
        self.members.iter().filter(|member| member.state.as_ref().is_some_and(ClusterState::is_failure))
    }
}

type Groups<'a> = BTreeMap<&'a GroupKey, Vec<Member<'a>>>;

/// Returns the groups by index, with each cluster only in its first group.
pub(super) fn grouped<'a>(groups: &'a [Group], clusters: &BTreeMap<&str, &'a Cluster>) -> Groups<'a> {
    let mut sorted: Vec<&Group> = groups.iter().collect();
    sorted.sort_by_key(|group| &group.key);
    let mut seen = BTreeSet::new();
    let mut by_key = Groups::new();
    for group in sorted {
        let members = by_key.entry(&group.key).or_default();
        for name in group.clusters.iter().filter(|name| !name.is_empty()) {
            if seen.insert(name.as_str()) {
                let cluster = clusters.get(name.as_str()).copied();
                members.push(Member { name, group: &group.key, cluster, state: None, newcomer: false });
            }
        }
    }
    by_key
}

/// Returns the stages of a strategy. Without a strategy, a single stage releases no cluster.
pub(super) fn stages<'a>(
    strategy: Option<&Strategy>,
    policy: &Policy,
    mut groups: Groups<'a>,
) -> Vec<StagePlan<'a>> {
    let total: usize = groups.values().map(Vec::len).sum();
    let all = Strategy::All(All::default());
    let mut stages = Vec::new();
    for rule in strategy.unwrap_or(&all).stages() {
        let taken = take(&mut groups, rule.groups);
        match rule.together {
            Some(name) => stages.push(stage(name.into(), taken.into_values().flatten(), &rule, total)),
            None => stages.extend(
                taken.into_iter().map(|(key, members)| stage(key.to_string(), members, &rule, total)),
            ),
        }
    }
    stages.retain(|stage| !stage.members.is_empty());
    for (at, stage) in stages.iter_mut().enumerate() {
        stage.needs_approval = policy.approval.is_needed(&stage.name, at);
    }
    stages
}

/// Removes and returns the selected groups, or all groups. Their order is by index, regardless of the list.
fn take<'a>(groups: &mut Groups<'a>, selected: Option<&[Mandatory]>) -> Groups<'a> {
    let is_selected =
        |key: &GroupKey| selected.is_none_or(|selected| selected.iter().any(|wanted| wanted.selects(key)));
    let (taken, left) = std::mem::take(groups).into_iter().partition(|(key, _)| is_selected(key));
    *groups = left;
    taken
}

/// Returns a stage of the given members; `total` is the number of clusters in all stages.
fn stage<'a>(
    name: String,
    members: impl IntoIterator<Item = Member<'a>>,
    rule: &StageRule<'_>,
    total: usize,
) -> StagePlan<'a> {
    let mut members: Vec<_> = members.into_iter().collect();
    members.sort_by_key(|member| member.name);
    let allowed = match rule.failures {
        Failures::Unlimited => None,
        Failures::OfStage(size) => Some(size.of(members.len())),
        Failures::OfAll(size) => Some(size.of(total)),
    };
    let slots = rule.slots.of(members.len());
    StagePlan { name, mandatory: rule.groups.is_some(), members, slots, allowed, needs_approval: false }
}
