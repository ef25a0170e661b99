//! The published PlacementDecisions of a placement, parsed.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use jiff::Timestamp;

use super::fleet::{Fleet, Id};
use api::cluster::v1beta1::PlacementDecision;
use api::names::{DECISION_GROUP_INDEX_LABEL, DECISION_GROUP_NAME_LABEL};
use object::Metadata as _;

/// The prefix of the reason in a decision entry that is about to be removed. The time at which the cluster
/// started to leave follows.
pub(super) const LEAVING: &str = "leaving since ";

/// A published PlacementDecision, which is a slice of a decision group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PublishedSlice {
    /// The name of the object.
    pub name: String,
    /// The index of its group; absent if the label is not a number.
    pub index: Option<u32>,
    /// The name of its group.
    pub group: String,
    /// True if its list of clusters was ever written.
    pub is_written: bool,
    pub members: Vec<Id>,
    /// The nonempty reasons of entries.
    pub reasons: BTreeMap<Id, String>,
}

impl PublishedSlice {
    fn read(decision: &PlacementDecision, fleet: &Fleet) -> Self {
        let labels = decision.metadata.labels.as_ref();
        let label =
            |key: &str| labels.and_then(|labels| labels.get(key)).map(String::as_str).unwrap_or_default();
        let entries = decision.status.as_ref().map(|status| status.decisions.as_slice()).unwrap_or_default();
        let id = |name: &str| fleet.id(name).unwrap_or(Id::MAX);
        let reasons = entries.iter().filter(|entry| !entry.reason.is_empty());
        Self {
            name: decision.name().to_owned(),
            index: label(DECISION_GROUP_INDEX_LABEL).parse().ok(),
            group: label(DECISION_GROUP_NAME_LABEL).to_owned(),
            is_written: decision.status.is_some(),
            members: entries.iter().map(|entry| id(&entry.cluster_name)).collect(),
            reasons: reasons.map(|entry| (id(&entry.cluster_name), entry.reason.clone())).collect(),
        }
    }
}

/// All published decisions of a placement.
#[derive(Debug, Default)]
pub(super) struct Published {
    /// The slices, in the order of [`ScheduleInput::decisions`](super::ScheduleInput::decisions).
    pub slices: Vec<PublishedSlice>,
    /// The position of the first slice that contains a cluster.
    positions: BTreeMap<Id, u32>,
    /// The number of entries for a cluster, if it is more than one.
    repeated: BTreeMap<Id, u32>,
    /// The times at which clusters started to leave, from their entries.
    pub leaving: BTreeMap<Id, Timestamp>,
}

impl Published {
    /// Parses the published decisions.
    pub(super) fn read(decisions: &[Arc<PlacementDecision>], fleet: &Fleet) -> Self {
        let mut published = Self::default();
        for (position, decision) in (0..).zip(decisions) {
            let slice = PublishedSlice::read(decision, fleet);
            for id in slice.members.iter().filter(|id| **id != Id::MAX) {
                match published.positions.entry(*id) {
                    Entry::Vacant(vacant) => _ = vacant.insert(position),
                    Entry::Occupied(_) => *published.repeated.entry(*id).or_insert(1) += 1,
                }
            }
            for (id, reason) in &slice.reasons {
                if let Some(since) = leaving_since(reason) {
                    published.leaving.entry(*id).or_insert(since);
                }
            }
            published.slices.push(slice);
        }
        published
    }

    /// Returns true if a cluster is in the decisions.
    pub(super) fn contains(&self, id: Id) -> bool {
        self.positions.contains_key(&id)
    }

    /// Returns the slice of a cluster.
    pub(super) fn slice_of(&self, id: Id) -> Option<&PublishedSlice> {
        self.slices.get(*self.positions.get(&id)? as usize)
    }

    /// Returns the clusters in the decisions.
    pub(super) fn clusters(&self) -> impl Iterator<Item = Id> + '_ {
        self.positions.keys().copied()
    }

    /// Returns the number of clusters in the decisions.
    pub(super) fn len(&self) -> usize {
        self.positions.len()
    }

    /// Returns the number of entries that name a cluster.
    pub(super) fn entries_of(&self, id: Id) -> u32 {
        self.repeated.get(&id).copied().unwrap_or_else(|| u32::from(self.contains(id)))
    }
}

fn leaving_since(reason: &str) -> Option<Timestamp> {
    reason.strip_prefix(LEAVING)?.parse().ok()
}
