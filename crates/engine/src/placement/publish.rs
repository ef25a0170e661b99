//! The publish stage: orders the writes so that a reader always sees every cluster.
//!
//! A moving cluster is written to its new slice before it is removed from the old one. Objects are deleted last.
//! Labels move one group index at a time: upwards from the lowest when indexes grow, and downwards from the
//! highest when they shrink. This avoids new gaps between indexes.

use std::collections::{BTreeMap, BTreeSet};

use super::fleet::{Fleet, Id};
use super::layout::Slice;
use super::published::PublishedSlice;
use api::cluster::v1beta1::ClusterDecision;

/// A write to one PlacementDecision.
#[derive(Clone, Debug, PartialEq)]
pub enum DecisionWrite {
    /// Creates the decision with its labels, but without clusters.
    Create(DecisionLabels),
    /// Replaces the clusters of the decision.
    Decide {
        /// The name of the object.
        name: String,
        /// The new clusters.
        decisions: Vec<ClusterDecision>,
    },
    /// Changes the group of the decision.
    Label(DecisionLabels),
    /// Deletes the decision.
    Delete {
        /// The name of the object.
        name: String,
    },
}

/// A PlacementDecision and the group in its labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionLabels {
    /// The name of the object.
    pub name: String,
    /// The index of the group.
    pub index: u32,
    /// The name of the group.
    pub group: String,
}

/// A desired slice.
#[derive(Clone, Copy, Debug)]
pub struct DesiredSlice<'a> {
    pub slice: &'a Slice,
    /// True if its entries differ from the published ones.
    pub changed: bool,
}

/// Returns the writes that turn published slices into the desired ones; `entry` returns the published entry of a
/// member.
pub fn publish(
    fleet: &Fleet,
    published: &[PublishedSlice],
    targets: &[DesiredSlice<'_>],
    entry: impl Fn(Id) -> ClusterDecision,
) -> Vec<Vec<DecisionWrite>> {
    let known: BTreeMap<&str, &PublishedSlice> =
        published.iter().map(|slice| (slice.name.as_str(), slice)).collect();
    let wanted: BTreeSet<Id> = targets.iter().flat_map(|target| &target.slice.members).copied().collect();
    let mut creates = Vec::new();
    let mut adds = Vec::new();
    let mut removes = Vec::new();
    let mut moves: BTreeMap<(bool, i64), Vec<DecisionWrite>> = BTreeMap::new();
    for DesiredSlice { slice, changed } in targets {
        let labels =
            DecisionLabels { name: slice.name.clone(), index: slice.index, group: slice.group.clone() };
        let entries = || slice.members.iter().map(|id| entry(*id));
        let decide = |decisions| DecisionWrite::Decide { name: slice.name.clone(), decisions };
        let Some(published) = known.get(slice.name.as_str()) else {
            creates.push(DecisionWrite::Create(labels));
            adds.push(decide(entries().collect()));
            continue;
        };
        if published.index != Some(slice.index) || published.group != slice.group {
            let before = published.index.map_or(-1, i64::from);
            let shrinks = before > i64::from(slice.index);
            let order = if shrinks { -before } else { i64::from(slice.index) };
            moves.entry((shrinks, order)).or_default().push(DecisionWrite::Label(labels));
        }
        if !changed {
            continue;
        }
        let moving: Vec<Id> = published
            .members
            .iter()
            .filter(|id| wanted.contains(id) && !slice.members.contains(id))
            .copied()
            .collect();
        let arrives = slice.members.iter().any(|id| !published.members.contains(id));
        if moving.is_empty() {
            adds.push(decide(entries().collect()));
        } else {
            if arrives {
                adds.push(decide(entries().chain(moving.iter().map(|id| plain(fleet, *id))).collect()));
            }
            removes.push(decide(entries().collect()));
        }
    }
    let names: BTreeSet<&str> = targets.iter().map(|target| target.slice.name.as_str()).collect();
    let surplus = published.iter().filter(|slice| !names.contains(slice.name.as_str()));
    let deletes: Vec<DecisionWrite> =
        surplus.map(|slice| DecisionWrite::Delete { name: slice.name.clone() }).collect();
    let steps = [creates, adds].into_iter().chain(moves.into_values()).chain([removes, deletes]);
    steps.filter(|step| !step.is_empty()).collect()
}

fn plain(fleet: &Fleet, id: Id) -> ClusterDecision {
    ClusterDecision { cluster_name: fleet.name(id).to_owned(), ..ClusterDecision::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the indexes that readers see after every step while slices of one cluster move between the given
    /// indexes.
    fn check(moves: &[(Option<u32>, Option<u32>)]) {
        let name = |i: usize| format!("p-decision-{i}");
        let id = |i: usize| Id::try_from(i).unwrap();
        let published = |(i, index): (usize, u32)| PublishedSlice {
            name: name(i),
            index: Some(index),
            members: vec![id(i)],
            ..PublishedSlice::default()
        };
        let wanted = |(i, index): (usize, u32)| Slice {
            name: name(i),
            index,
            group: String::new(),
            members: vec![id(i)],
        };
        let before = moves.iter().enumerate().filter_map(|(i, (before, _))| Some((i, (*before)?)));
        let after = moves.iter().enumerate().filter_map(|(i, (_, after))| Some((i, (*after)?)));
        let mut seen: BTreeMap<String, u32> = before.clone().map(|(i, index)| (name(i), index)).collect();
        let published: Vec<PublishedSlice> = before.map(published).collect();
        let slices: Vec<Slice> = after.map(wanted).collect();
        let targets: Vec<DesiredSlice<'_>> =
            slices.iter().map(|slice| DesiredSlice { slice, changed: false }).collect();
        let fleet = Fleet::default();
        for step in publish(&fleet, &published, &targets, |id| plain(&fleet, id)) {
            for write in step {
                match write {
                    DecisionWrite::Create(labels) | DecisionWrite::Label(labels) => {
                        _ = seen.insert(labels.name, labels.index)
                    }
                    DecisionWrite::Delete { name } => _ = seen.remove(&name),
                    DecisionWrite::Decide { .. } => {}
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
    fn clusters_that_change_places_are_in_a_slice_after_every_write() {
        let [a, b, new] = [0, 1, 2_u8].map(Id::from);
        let slice = |name: &str, members: &[Id]| Slice {
            name: name.into(),
            index: 0,
            group: String::new(),
            members: members.to_vec(),
        };
        let published = |slice: &Slice| PublishedSlice {
            name: slice.name.clone(),
            index: Some(0),
            members: slice.members.clone(),
            ..PublishedSlice::default()
        };
        let before =
            [slice("p-decision-1", &[a]), slice("p-decision-2", &[b])].map(|slice| published(&slice));
        let after = [slice("p-decision-1", &[b, new]), slice("p-decision-2", &[a])];
        let targets = after.each_ref().map(|slice| DesiredSlice { slice, changed: true });
        let entry = |id: Id| ClusterDecision { cluster_name: id.to_string(), ..ClusterDecision::default() };
        let mut seen: BTreeMap<String, Vec<String>> = BTreeMap::from([
            ("p-decision-1".into(), vec!["0".into()]),
            ("p-decision-2".into(), vec!["1".into()]),
        ]);
        let mut fleet = Fleet::default();
        for name in ["0", "1", "2"] {
            let cluster = serde_json::json!({ "metadata": { "name": name } });
            fleet.set_cluster(std::sync::Arc::new(serde_json::from_value(cluster).unwrap()));
        }
        for write in publish(&fleet, &before, &targets, entry).into_iter().flatten() {
            let DecisionWrite::Decide { name, decisions } = write else { panic!("{write:?}") };
            _ = seen.insert(name, decisions.into_iter().map(|entry| entry.cluster_name).collect());
            for cluster in ["0", "1"] {
                assert!(seen.values().flatten().any(|name| name == cluster), "{cluster} vanished: {seen:?}");
            }
        }
        assert_eq!(seen.values().cloned().collect::<Vec<_>>(), [vec!["1", "2"], vec!["0"]]);
    }

    #[test]
    fn indexes_have_no_gap_at_any_time() {
        check(&[(None, Some(0)), (Some(0), Some(1)), (Some(1), Some(2)), (Some(2), Some(3))]);
        check(&[(Some(0), None), (Some(1), Some(0)), (Some(2), Some(1)), (Some(3), Some(2))]);
    }
}
