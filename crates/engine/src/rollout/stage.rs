//! A strategy as a list of stages: clusters that go together, in the order they go.

use std::collections::{BTreeMap, BTreeSet};

use super::input::{Cluster, Group, GroupKey};
use super::policy::{Approval, Policy};
use super::stand::Stand;
use super::strategy::{Mandatory, Size, Strategy};

/// A cluster of a group.
#[derive(Clone, Debug)]
pub(super) struct Member<'a> {
    pub(super) name: &'a str,
    pub(super) group: &'a GroupKey,
    pub(super) cluster: Option<&'a Cluster>,
    pub(super) stand: Stand,
    /// It joined when the rollout was under way: no other stage waits for it.
    pub(super) newcomer: bool,
}

/// Clusters that go together.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub(super) name: String,
    pub(super) mandatory: bool,
    /// In the order in which they start: by name.
    pub(super) members: Vec<Member<'a>>,
    pub(super) slots: usize,
    /// `None` tolerates everything.
    pub(super) allowed: Option<usize>,
    /// A person has to let it start.
    pub(super) needs_approval: bool,
}

/// The groups by index, each cluster in the first of its groups only.
pub(super) fn grouped<'a>(
    groups: &'a [Group],
    clusters: &BTreeMap<&str, &'a Cluster>,
) -> BTreeMap<&'a GroupKey, Vec<Member<'a>>> {
    let mut sorted: Vec<&Group> = groups.iter().collect();
    sorted.sort_by_key(|group| &group.key);
    let mut seen = BTreeSet::new();
    let mut by_key = BTreeMap::<&GroupKey, Vec<Member<'a>>>::new();
    for group in sorted {
        let members = by_key.entry(&group.key).or_default();
        for name in group.clusters.iter().filter(|name| !name.is_empty()) {
            if seen.insert(name.as_str()) {
                let cluster = clusters.get(name.as_str()).copied();
                members.push(Member {
                    name,
                    group: &group.key,
                    cluster,
                    stand: Stand::ToDo,
                    newcomer: false,
                });
            }
        }
    }
    by_key
}

/// The stages of a strategy; without one, a single stage that nothing is released from.
pub(super) fn stages<'a>(
    strategy: Option<&Strategy>,
    policy: &Policy,
    groups: BTreeMap<&'a GroupKey, Vec<Member<'a>>>,
) -> Vec<Plan<'a>> {
    let total: usize = groups.values().map(Vec::len).sum();
    let mut stages = Vec::new();
    match strategy {
        None | Some(Strategy::All { .. }) => {
            stages.push(merged("all", groups.into_values(), |clusters| (clusters, None)))
        }
        Some(Strategy::Progressive { options, mandatory, concurrency }) => {
            let (first, rest) = split(groups, mandatory);
            stages.extend(first);
            let concurrency = concurrency.unwrap_or(Size::Percent(100));
            stages.push(merged("rest", rest.into_values(), |clusters| {
                (concurrency.of(clusters), Some(options.failures.of(total)))
            }));
        }
        Some(Strategy::ProgressivePerGroup { options, mandatory }) => {
            let (first, rest) = split(groups, mandatory);
            stages.extend(first);
            stages.extend(rest.into_iter().map(|(key, members)| {
                let allowed = options.failures.of(members.len());
                Plan { allowed: Some(allowed), ..whole(key, members) }
            }));
        }
    }
    for stage in &mut stages {
        stage.members.sort_by_key(|member| member.name);
    }
    stages.retain(|stage| !stage.members.is_empty());
    for (at, stage) in stages.iter_mut().enumerate() {
        stage.needs_approval = match &policy.approval {
            Approval::Never => false,
            Approval::BetweenGroups => at > 0,
            Approval::Groups(names) => names.contains(&stage.name),
        };
    }
    stages
}

/// Mandatory groups as stages, and the other groups. The order of the list means nothing: groups go by index.
fn split<'a>(
    groups: BTreeMap<&'a GroupKey, Vec<Member<'a>>>,
    mandatory: &[Mandatory],
) -> (Vec<Plan<'a>>, BTreeMap<&'a GroupKey, Vec<Member<'a>>>) {
    let is_mandatory = |key: &GroupKey| mandatory.iter().any(|wanted| wanted.selects(key));
    let (first, rest): (BTreeMap<_, _>, BTreeMap<_, _>) =
        groups.into_iter().partition(|(key, _)| is_mandatory(key));
    (first.into_iter().map(|(key, members)| Plan { mandatory: true, ..whole(key, members) }).collect(), rest)
}

/// A group that goes as a whole and tolerates no failure.
fn whole<'a>(key: &GroupKey, members: Vec<Member<'a>>) -> Plan<'a> {
    Plan {
        name: key.to_string(),
        mandatory: false,
        slots: members.len(),
        allowed: Some(0),
        members,
        needs_approval: false,
    }
}

/// Several groups as one stage; `sizes` gives its slots and allowance from its number of clusters.
fn merged<'a>(
    name: &str,
    groups: impl Iterator<Item = Vec<Member<'a>>>,
    sizes: impl Fn(usize) -> (usize, Option<usize>),
) -> Plan<'a> {
    let members: Vec<_> = groups.flatten().collect();
    let (slots, allowed) = sizes(members.len());
    Plan { name: name.into(), mandatory: false, members, slots, allowed, needs_approval: false }
}
