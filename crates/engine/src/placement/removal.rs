//! The removal of clusters from the decisions, and its timing.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp, Unit};

use super::filter::{FilterResult, taint};
use super::fleet::Id;
use super::input::Cycle;
use super::select::CycleSelection;
use super::sets::SetMembers;
use object::duration::later;

/// The time that a cluster must be unselected before it leaves the decisions.
pub(super) const SETTLE: SignedDuration = SignedDuration::from_secs(10);

/// The removal of a published cluster that is no longer selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClusterRemoval {
    /// The decision is removed now.
    Now,
    /// The decision is kept until [`SETTLE`] after this time, with a reason that says so.
    Since(Timestamp),
}

impl ClusterRemoval {
    /// Returns the time at which the decision is removed, if it is later.
    pub(super) fn ends(self) -> Option<Timestamp> {
        match self {
            Self::Now => None,
            Self::Since(since) => Some(later(since, SETTLE)),
        }
    }
}

/// Returns the removals of unsettled clusters that are published but not selected.
///
/// While the members of a set are unknown, no cluster is removed for being outside all sets.
pub(super) fn removals(
    cycle: &Cycle<'_>,
    selection: &CycleSelection,
    unsettled: impl Iterator<Item = Id>,
) -> BTreeMap<Id, ClusterRemoval> {
    let members_unknown = cycle.sets.iter().any(|set| matches!(set, SetMembers::Unknown(..)));
    let mut removals = BTreeMap::new();
    for id in unsettled.filter(|id| cycle.published.contains(*id) && !selection.is_selected(cycle, *id)) {
        match selection.result(id) {
            FilterResult::Gone | FilterResult::Expired => _ = removals.insert(id, ClusterRemoval::Now),
            FilterResult::Outside if members_unknown => {}
            FilterResult::Outside
            | FilterResult::Unmatched
            | FilterResult::Tainted
            | FilterResult::Feasible => _ = removals.insert(id, removal(cycle, selection, id)),
        }
    }
    removals
}

fn removal(cycle: &Cycle<'_>, selection: &CycleSelection, id: Id) -> ClusterRemoval {
    let published = cycle.published.leaving.get(&id).copied();
    let since = published.unwrap_or_else(|| unselected_since(cycle, selection, id)).min(cycle.now);
    let removal = ClusterRemoval::Since(since.round(Unit::Second).unwrap_or(since));
    if removal.ends().is_some_and(|end| cycle.now < end) { removal } else { ClusterRemoval::Now }
}

/// Returns the time since which a cluster is not selected: when its taint was added, or else now.
fn unselected_since(cycle: &Cycle<'_>, selection: &CycleSelection, id: Id) -> Timestamp {
    if selection.result(id) != FilterResult::Tainted {
        return cycle.now;
    }
    let taints = cycle.fleet.cluster(id).map(|cluster| cluster.spec.taints.as_slice()).unwrap_or_default();
    let refused = taint::check(&cycle.policy.tolerations, taints, true, cycle.now).err();
    let added = refused.and_then(|refused| refused.taint.time_added.as_ref().map(|time| time.0));
    added.map_or(cycle.now, |added| added.min(cycle.now))
}
