//! In which order decisions are written, so that no reader ever misses a cluster.
//!
//! A cluster that moves is written to its new slice before it is taken from the old one; objects are deleted last; labels move
//! one group index at a time, upwards from the lowest when indexes grow and downwards from the highest when they shrink, so that
//! there is no gap between indexes that was not there before.

use std::collections::{BTreeMap, BTreeSet};

use super::layout::{Held, Slice};
use api::cluster::v1beta1::ClusterDecision;

/// One write to one PlacementDecision.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Create it, with its labels and without clusters.
    Create(Labels),
    /// Replace its clusters.
    Decide {
        /// Name of the object.
        name: String,
        /// Its clusters.
        decisions: Vec<ClusterDecision>,
    },
    /// Change its group.
    Label(Labels),
    /// Delete it.
    Delete {
        /// Name of the object.
        name: String,
    },
}

/// A PlacementDecision and the group its labels say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labels {
    /// Name of the object.
    pub name: String,
    /// Index of the group.
    pub index: u32,
    /// Name of the group.
    pub group: String,
}

/// A slice as it should be, with what its entries should say.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Where the clusters belong.
    pub slice: Slice,
    /// One entry per member, in order.
    pub decisions: Vec<ClusterDecision>,
    /// Whether the entries differ from the published ones.
    pub changed: bool,
}

/// The writes that turn published slices into the wanted ones: steps, each to be finished before the next begins.
pub fn publish(held: &[Held], targets: &[Target]) -> Vec<Vec<Write>> {
    let known: BTreeMap<&str, &Held> = held.iter().map(|held| (held.name.as_str(), held)).collect();
    let wanted: BTreeSet<&str> =
        targets.iter().flat_map(|target| target.slice.members.iter().map(String::as_str)).collect();
    let mut creates = Vec::new();
    let mut adds = Vec::new();
    let mut removes = Vec::new();
    let mut moves: BTreeMap<(bool, i64), Vec<Write>> = BTreeMap::new();
    for Target { slice, decisions, changed } in targets {
        let labels = Labels { name: slice.name.clone(), index: slice.index, group: slice.group.clone() };
        let decide = |decisions: Vec<ClusterDecision>| Write::Decide { name: slice.name.clone(), decisions };
        let Some(held) = known.get(slice.name.as_str()) else {
            creates.push(Write::Create(labels));
            adds.push(decide(decisions.clone()));
            continue;
        };
        if held.index != Some(slice.index) || held.group != slice.group {
            let before = held.index.map_or(-1, i64::from);
            let shrinks = before > i64::from(slice.index);
            let order = if shrinks { -before } else { i64::from(slice.index) };
            moves.entry((shrinks, order)).or_default().push(Write::Label(labels));
        }
        let leaving = held
            .members
            .iter()
            .filter(|member| wanted.contains(member.as_str()) && !slice.members.contains(member));
        let staying: Vec<ClusterDecision> = leaving.map(|member| plain(member)).collect();
        if !staying.is_empty() {
            let arriving = slice.members.iter().any(|member| !held.members.contains(member));
            if arriving {
                adds.push(decide([decisions.clone(), staying].concat()));
            }
            removes.push(decide(decisions.clone()));
        } else if *changed {
            adds.push(decide(decisions.clone()));
        }
    }
    let kept: BTreeSet<&str> = targets.iter().map(|target| target.slice.name.as_str()).collect();
    let surplus = held.iter().filter(|held| !kept.contains(held.name.as_str()));
    let deletes: Vec<Write> = surplus.map(|held| Write::Delete { name: held.name.clone() }).collect();
    let steps = [creates, adds].into_iter().chain(moves.into_values()).chain([removes, deletes]);
    steps.filter(|step| !step.is_empty()).collect()
}

fn plain(cluster: &str) -> ClusterDecision {
    ClusterDecision { cluster_name: cluster.to_owned(), ..ClusterDecision::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The indexes readers see after every step, where slices of one cluster go from these indexes to those.
    fn check(moves: &[(Option<u32>, Option<u32>)]) {
        let name = |i: usize| format!("p-decision-{i}");
        let held = |(i, index): (usize, u32)| Held {
            name: name(i),
            index: Some(index),
            group: String::new(),
            members: vec![name(i)],
        };
        let target = |(i, index): (usize, u32)| Target {
            slice: Slice { name: name(i), index, group: String::new(), members: vec![name(i)] },
            decisions: Vec::new(),
            changed: false,
        };
        let before = moves.iter().enumerate().filter_map(|(i, (before, _))| Some((i, (*before)?)));
        let after = moves.iter().enumerate().filter_map(|(i, (_, after))| Some((i, (*after)?)));
        let mut seen: BTreeMap<String, u32> = before.clone().map(|(i, index)| (name(i), index)).collect();
        let held: Vec<Held> = before.map(held).collect();
        for step in publish(&held, &after.map(target).collect::<Vec<_>>()) {
            for write in step {
                match write {
                    Write::Create(labels) | Write::Label(labels) => {
                        _ = seen.insert(labels.name, labels.index)
                    }
                    Write::Delete { name } => _ = seen.remove(&name),
                    Write::Decide { .. } => {}
                }
            }
            let indexes: BTreeSet<u32> = seen.values().copied().collect();
            assert!(
                indexes.iter().copied().eq((0..).take(indexes.len())),
                "a gap in {indexes:?} on the way of {moves:?}"
            );
        }
    }

    #[test]
    fn there_is_no_gap_between_indexes_on_the_way() {
        check(&[(None, Some(0)), (Some(0), Some(1)), (Some(1), Some(2)), (Some(2), Some(3))]);
        check(&[(Some(0), None), (Some(1), Some(0)), (Some(2), Some(1)), (Some(3), Some(2))]);
    }
}
