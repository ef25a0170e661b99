//! The sets that a change affects.

use std::sync::Arc;

use crate::rollout_policy;
use api::Condition;
use api::condition::{ConditionStatus, Conditions as _};
use api::gitops::v1alpha1::RolloutPolicy;
use api::names::WORK_REPLICA_SET_LABEL;
use api::work::v1::ManifestWork;
use api::work::v1alpha1::ManifestWorkReplicaSet;
use object::{Key, Metadata};
use reconcile::{Change, Query, View};

pub(super) fn all(view: &impl View) -> Vec<Key> {
    view.keys::<ManifestWorkReplicaSet>(Query::ALL)
}

/// Returns the sets whose recorded quarantine appears or disappears in a change of a policy.
pub(super) fn quarantined_by(change: &Change<RolloutPolicy>) -> Vec<Key> {
    let sets = rollout_policy::quarantines_of(change)
        .into_iter()
        .filter_map(|rollout| rollout.replica_set.split_once('/'));
    sets.map(|(namespace, name)| Key::namespaced(namespace, name)).collect()
}

/// Returns the sets that roll out to the clusters of a placement.
pub(super) fn sets_of(placement: &Key, view: &impl View) -> Vec<Key> {
    let sets = view.readable::<ManifestWorkReplicaSet>(Query::namespace(&placement.namespace));
    let uses = |set: &&Arc<ManifestWorkReplicaSet>| {
        set.spec.placement_refs.iter().any(|reference| reference.name == placement.name)
    };
    sets.iter().filter(uses).map(|set| Key::of(set.as_ref())).collect()
}

/// Returns the set in the label of a work or snapshot. A namespace has no dot, so it ends at the first dot.
pub(super) fn set_of(owned: &impl Metadata) -> Option<Key> {
    let (namespace, name) = owned.label(WORK_REPLICA_SET_LABEL)?.split_once('.')?;
    Some(Key::namespaced(namespace, name))
}

/// Returns the parts of a work that the decision reads, including the error that it reports, but not the rest of
/// its manifest status and feedback.
pub(super) fn relevant_fields(work: &ManifestWork) -> impl PartialEq + use<> {
    let relevant = |c: &Condition| (c.type_.clone(), c.status.clone(), c.observed_generation);
    let metadata = &work.metadata;
    (
        metadata.uid.clone(),
        metadata.generation,
        metadata.labels.clone(),
        metadata.annotations.clone(),
        metadata.deletion_timestamp.is_some(),
        work.conditions().iter().map(relevant).collect::<Vec<(String, ConditionStatus, Option<i64>)>>(),
        engine::work::trouble(work),
    )
}
