//! Reads of placements and of the clusters that they select, for controllers that roll something out.

use std::sync::Arc;

use jiff::Timestamp;

use api::cluster::v1::ManagedCluster;
use api::cluster::v1beta1::{Placement, PlacementDecision};
use api::condition::{Condition, ConditionStatus, Conditions as _};
use api::names::PLACEMENT_LABEL;
use api::names::cluster_conditions::AVAILABLE;
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

/// Returns the size of a placement's decision groups, where it sets one.
pub(super) fn group_size(placement: &Placement) -> Option<Size> {
    let groups = placement.spec.decision_strategy.as_ref()?.group_strategy.as_ref()?;
    Size::read("clustersPerDecisionGroup", &groups.clusters_per_decision_group).ok()
}

/// Returns whether a cluster is silent: the hub has set its availability to Unknown.
pub(super) fn is_unreachable(cluster: &ManagedCluster) -> bool {
    cluster.condition(AVAILABLE).is_some_and(|condition| condition.status == ConditionStatus::Unknown)
}

/// Returns since when the cluster is available; `None` if it is not.
pub(super) fn answers_since(cluster: &ManagedCluster) -> Option<Timestamp> {
    let available = cluster.condition(AVAILABLE).filter(|condition| condition.is_true());
    available.map(|condition: &Condition| condition.last_transition_time.0)
}
