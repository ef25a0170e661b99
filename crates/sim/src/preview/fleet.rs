//! Typed reads of a store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::addon::v1alpha1::ManagedClusterAddOn;
use api::cluster::v1beta1::PlacementDecision;
use api::names::{DECISION_GROUP_NAME_LABEL, PLACEMENT_LABEL, WORK_REPLICA_SET_LABEL};
use api::work::v1::ManifestWork;
use object::{Key, Kind, Metadata as _, Object};
use store::{ListOptions, ResourcePath, Store};

/// Returns every object of a kind, in key order.
pub(super) fn objects<K: Kind>(hub: &Store) -> Vec<Arc<Object>> {
    let list = hub.list(&ResourcePath::all::<K>(), &ListOptions::default());
    list.map(|list| list.items).unwrap_or_default()
}

/// Returns every readable object of a kind, in key order. Each is decoded when it is asked for, so that the
/// decoded objects of a large fleet are not in memory at once.
pub(super) fn all<K: Kind>(hub: &Store) -> impl Iterator<Item = K> {
    objects::<K>(hub).into_iter().filter_map(|object| object.to_typed().ok())
}

/// Returns one object.
pub(super) fn get<K: Kind>(hub: &Store, key: &Key) -> Option<K> {
    hub.get(&ResourcePath::of::<K>(key)).ok()?.to_typed().ok()
}

/// Returns the clusters of each placement, with the names of their decision groups.
pub(super) fn decisions(hub: &Store) -> BTreeMap<Key, BTreeMap<String, String>> {
    let mut placements: BTreeMap<Key, BTreeMap<String, String>> = BTreeMap::new();
    for decision in all::<PlacementDecision>(hub) {
        let Some(name) = decision.label(PLACEMENT_LABEL) else { continue };
        let group = decision.label(DECISION_GROUP_NAME_LABEL).unwrap_or_default();
        let clusters = placements.entry(Key::namespaced(decision.namespace(), name)).or_default();
        for chosen in decision.status.iter().flat_map(|status| &status.decisions) {
            clusters.insert(chosen.cluster_name.clone(), group.to_owned());
        }
    }
    placements
}

/// A workload that rolls out to clusters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Workload {
    /// An add-on, by name.
    AddOn(String),
    /// A ManifestWorkReplicaSet, as `namespace/name`.
    ReplicaSet(String),
}

impl Workload {
    /// Returns the set of a work, from its label. A namespace has no dot, so the first dot ends it.
    pub(super) fn of_work(work: &Object) -> Option<Self> {
        let (namespace, name) = work.label(WORK_REPLICA_SET_LABEL)?.split_once('.')?;
        Some(Self::ReplicaSet(format!("{namespace}/{name}")))
    }
}

/// Returns the clusters of each add-on and set; an add-on or a work that is being deleted does not count.
pub(super) fn workloads(hub: &Store) -> BTreeMap<Workload, BTreeSet<String>> {
    let mut workloads: BTreeMap<Workload, BTreeSet<String>> = BTreeMap::new();
    for add_on in objects::<ManagedClusterAddOn>(hub).iter().filter(|add_on| !add_on.is_terminating()) {
        let workload = Workload::AddOn(add_on.name().to_owned());
        workloads.entry(workload).or_default().insert(add_on.namespace().to_owned());
    }
    for work in objects::<ManifestWork>(hub).iter().filter(|work| !work.is_terminating()) {
        if let Some(set) = Workload::of_work(work) {
            workloads.entry(set).or_default().insert(work.namespace().to_owned());
        }
    }
    workloads
}
