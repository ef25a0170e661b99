//! The input of a schedule: the sets bound to a namespace, and the decisions of a placement.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::cluster::v1beta1::{Placement, PlacementDecision};
use api::cluster::v1beta2::{ManagedClusterSet, ManagedClusterSetBinding};
use engine::placement::Schedule;
use engine::placement::publish::DecisionWrite;
use object::{Key, Metadata as _};
use reconcile::{Query, Read, View};

/// Returns the decisions in the status that have lost our label.
pub(super) fn decisions_in_status(
    view: &impl View,
    placement: &Placement,
    labeled: &[Arc<PlacementDecision>],
) -> Read<Vec<Arc<PlacementDecision>>> {
    let labeled: BTreeSet<&str> = labeled.iter().map(|decision| decision.name()).collect();
    let groups = placement.status.iter().flat_map(|status| &status.decision_groups);
    let unlabeled = groups.flat_map(|group| &group.decisions).filter(|name| !labeled.contains(name.as_str()));
    existing(view, placement, unlabeled)
}

/// Returns the decisions to create that already exist, because another client removed our label.
pub(super) fn decisions_to_create(
    view: &impl View,
    placement: &Placement,
    schedule: &Schedule,
) -> Read<Vec<Arc<PlacementDecision>>> {
    let created = schedule.steps.iter().flatten().filter_map(|write| match write {
        DecisionWrite::Create(labels) => Some(&labels.name),
        DecisionWrite::Decide { .. } | DecisionWrite::Label(_) | DecisionWrite::Delete { .. } => None,
    });
    existing(view, placement, created)
}

fn existing<'a>(
    view: &impl View,
    placement: &Placement,
    names: impl Iterator<Item = &'a String>,
) -> Read<Vec<Arc<PlacementDecision>>> {
    let namespace = placement.namespace();
    let found = names.map(|name| view.get::<PlacementDecision>(&Key::namespaced(namespace, name)));
    Ok(found.collect::<Read<Vec<_>>>()?.into_iter().flatten().collect())
}

/// Returns the existing sets that are bound to a namespace, sorted by name.
pub(super) fn bound(view: &impl View, namespace: &str) -> Read<Vec<Arc<ManagedClusterSet>>> {
    let bindings = view.list::<ManagedClusterSetBinding>(Query::namespace(namespace))?;
    let names = bindings.iter().filter_map(|binding| binding.cluster_set());
    let sets = names.map(|name| view.get::<ManagedClusterSet>(&Key::cluster(name)));
    Ok(sets.collect::<Read<Vec<_>>>()?.into_iter().flatten().collect())
}
