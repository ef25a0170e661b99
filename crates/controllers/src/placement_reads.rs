//! Reads placements and the clusters that they select, for controllers that roll something out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use api::cluster::v1::ManagedCluster;
use api::cluster::v1beta1::{Placement, PlacementDecision};
use api::condition::{Condition, ConditionStatus, Conditions as _};
use api::names::cluster_conditions::AVAILABLE;
use api::names::{PLACEMENT_LABEL, SCHEDULING_DISABLED_ANNOTATION};
use engine::addon::selection::Selection;
use engine::rollout::Size;
use object::{Key, Metadata as _};
use reconcile::{Query, Read, View};

/// Returns the placement of a decision.
pub fn placement_of(decision: &PlacementDecision) -> Option<Key> {
    Some(Key::namespaced(decision.namespace(), decision.label(PLACEMENT_LABEL)?))
}

/// Returns the clusters that a placement selects.
pub(super) fn selection(placement: &Key, view: &impl View) -> Read<Selection> {
    let object = view.get::<Placement>(placement)?;
    let query = Query::label(PLACEMENT_LABEL, &placement.name).within(&placement.namespace);
    let decisions = view.list::<PlacementDecision>(query)?;
    Ok(Selection::read(object.as_deref(), decisions.iter().map(Arc::as_ref)))
}

/// Returns true if an annotation leaves the decisions of a placement to another scheduler.
pub(super) fn is_disabled(placement: &Placement) -> bool {
    placement.annotation(SCHEDULING_DISABLED_ANNOTATION) == Some("true")
}

/// The selections of placements, cached while the objects that they were read from are unchanged.
#[derive(Default)]
pub(super) struct Selections(BTreeMap<Key, CachedSelection>);

/// A selection, and the objects that it was read from.
struct CachedSelection {
    placement: Option<Arc<Placement>>,
    decisions: Vec<Arc<PlacementDecision>>,
    /// When the current decisions were first seen.
    since: Timestamp,
    selection: Arc<Selection>,
}

impl Selections {
    /// Returns the clusters that a placement selects. If the selection has not changed, returns the same `Arc`.
    pub(super) fn of(&mut self, key: &Key, view: &impl View, now: Timestamp) -> Read<Arc<Selection>> {
        let placement = view.get::<Placement>(key)?;
        let query = Query::label(PLACEMENT_LABEL, &key.name).within(&key.namespace);
        let decisions = view.list::<PlacementDecision>(query)?;
        let cached = self.0.get(key);
        let unchanged = cached.filter(|cached| {
            cached.decisions.len() == decisions.len()
                && cached.decisions.iter().zip(&decisions).all(|(cached, new)| Arc::ptr_eq(cached, new))
        });
        let is_same = |cached: &&CachedSelection| {
            cached.placement.as_ref().map(Arc::as_ptr) == placement.as_ref().map(Arc::as_ptr)
                && cached.selection.settles.is_none_or(|at| now < at)
        };
        if let Some(cached) = unchanged.filter(is_same) {
            return Ok(Arc::clone(&cached.selection));
        }
        let since = unchanged.map_or(now, |cached| cached.since.min(now));
        let mut new = Selection::read(placement.as_deref(), decisions.iter().map(Arc::as_ref));
        let is_written = decisions.iter().any(|decision| decision.status.is_some());
        if is_written && placement.as_deref().is_some_and(is_disabled) {
            new.settle(since, now);
        }
        let selection = match cached {
            Some(cached) if *cached.selection == new => Arc::clone(&cached.selection),
            _ => Arc::new(new),
        };
        let entry = CachedSelection { placement, decisions, since, selection: Arc::clone(&selection) };
        self.0.insert(key.clone(), entry);
        Ok(selection)
    }
}

/// Returns for each selection the clusters of the earlier selections, and the clusters of all selections.
pub(super) fn taken<'a>(
    selections: impl IntoIterator<Item = &'a Arc<Selection>>,
) -> (Vec<Arc<BTreeSet<String>>>, BTreeSet<String>) {
    let (mut taken, mut all) = (Vec::new(), BTreeSet::new());
    for selection in selections {
        taken.push(Arc::new(all.clone()));
        all.extend(selection.clusters().map(str::to_owned));
    }
    (taken, all)
}

/// Returns true if two lists have the same selections.
pub(super) fn are_same(before: &[Arc<Selection>], new: &[Arc<Selection>]) -> bool {
    before.len() == new.len() && before.iter().zip(new).all(|(before, new)| Arc::ptr_eq(before, new))
}

/// Returns the size of a placement's decision groups, if it sets one.
pub(super) fn group_size(placement: &Placement) -> Option<Size> {
    let groups = placement.spec.decision_strategy.as_ref()?.group_strategy.as_ref()?;
    Size::read("clustersPerDecisionGroup", &groups.clusters_per_decision_group).ok()
}

/// Returns the parts of a cluster that a rollout reads.
pub(super) fn rollout_facts(cluster: &ManagedCluster) -> impl PartialEq + use<> {
    let available = cluster.condition(AVAILABLE).map(|c| (c.status.clone(), c.last_transition_time.clone()));
    let metadata = &cluster.metadata;
    (available, metadata.deletion_timestamp.clone(), metadata.creation_timestamp.clone())
}

/// Returns true if a cluster is unreachable: the hub has set its availability to Unknown.
pub(super) fn is_unreachable(cluster: &ManagedCluster) -> bool {
    cluster.condition(AVAILABLE).is_some_and(|condition| condition.status == ConditionStatus::Unknown)
}

/// Returns since when the cluster has been available; `None` if it is not.
pub(super) fn answers_since(cluster: &ManagedCluster) -> Option<Timestamp> {
    let available = cluster.condition(AVAILABLE).filter(|condition| condition.is_true());
    available.map(|condition: &Condition| condition.last_transition_time.0)
}
