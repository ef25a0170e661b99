//! Typed reads of a store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::addon::v1alpha1::ManagedClusterAddOn;
use api::cluster::v1beta1::PlacementDecision;
use api::names::{
    ADDON_GROUP, ADDON_NAME_LABEL, CLUSTER_GROUP, DECISION_GROUP_NAME_LABEL, PLACEMENT_LABEL, WORK_GROUP,
    WORK_REPLICA_SET_LABEL,
};
use api::work::v1::ManifestWork;
use engine::sync::ObjectId;
use object::{Gvk, Key, Kind, Metadata as _, Object};
use serde_json::Value;
use store::{ListOptions, ResourcePath, Store};

/// Returns every object of a kind, in key order.
pub(super) fn objects<K: Kind>(hub: &Store) -> Vec<Arc<Object>> {
    let list = hub.list(&ResourcePath::all::<K>(), &ListOptions::default());
    list.map(|list| list.items).unwrap_or_default()
}

/// Returns every readable object of a kind, in key order. Decodes each object on demand, so that the decoded
/// objects of a large fleet are not all in memory at once.
pub(super) fn all<K: Kind>(hub: &Store) -> impl Iterator<Item = K> {
    objects::<K>(hub).into_iter().filter_map(|object| object.to_typed().ok())
}

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

const ADD_ON: &str = "ManagedClusterAddOn";

/// A workload that rolls out to clusters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PreviewWorkload {
    /// An add-on, by name.
    AddOn(String),
    /// A ManifestWorkReplicaSet, as `namespace/name`.
    ReplicaSet(String),
}

impl PreviewWorkload {
    /// Returns the add-on or set that an object is or belongs to.
    pub(super) fn from_object(object: &Object) -> Option<Self> {
        Self::from_id(&ObjectId::of(&object.reference())).or_else(|| Self::on_cluster(object))
    }

    /// Returns the add-on or set that an object is.
    pub(super) fn from_id(ObjectId { group, kind, key }: &ObjectId) -> Option<Self> {
        match (group.as_str(), kind.as_str()) {
            (ADDON_GROUP, "ClusterManagementAddOn") => Some(Self::AddOn(key.name.clone())),
            (WORK_GROUP, "ManifestWorkReplicaSet") => Some(Self::ReplicaSet(key.to_string())),
            _ => None,
        }
    }

    /// Returns the add-on or set of a per-cluster object: an add-on on a cluster, an object that it owns, or a
    /// work. An add-on's scores are excluded because they belong to placements.
    pub(super) fn on_cluster(object: &Object) -> Option<Self> {
        let add_on = |name: &str| Self::AddOn(name.to_owned());
        let of_label = || object.label(ADDON_NAME_LABEL).map(add_on);
        let of_owner = || {
            let owners = object.at(&["metadata", "ownerReferences"]).and_then(Value::as_array);
            let owner = owners.into_iter().flatten().find(|owner| owner["kind"] == ADD_ON)?;
            owner["name"].as_str().map(add_on)
        };
        let Gvk { group, kind, version: _ } = object.gvk();
        match (group.as_str(), kind.as_str()) {
            (ADDON_GROUP, ADD_ON) => Some(add_on(object.name())),
            (WORK_GROUP, "ManifestWork") => Self::from_work(object).or_else(of_label).or_else(of_owner),
            (CLUSTER_GROUP, "AddOnPlacementScore") => None,
            _ => of_owner(),
        }
    }

    /// Returns the set that a status names or, if that name is empty, the add-on.
    pub(super) fn named(add_on: &str, replica_set: &str) -> Self {
        match replica_set {
            "" => Self::AddOn(add_on.to_owned()),
            set => Self::ReplicaSet(set.to_owned()),
        }
    }

    /// Returns the set to which a work's label assigns it. A namespace contains no dot, so the first dot ends it.
    pub(super) fn from_work(work: &Object) -> Option<Self> {
        let (namespace, name) = work.label(WORK_REPLICA_SET_LABEL)?.split_once('.')?;
        Some(Self::ReplicaSet(format!("{namespace}/{name}")))
    }
}

/// Returns the clusters of each add-on and set, ignoring add-ons and works that are being deleted.
pub(super) fn workloads(hub: &Store) -> BTreeMap<PreviewWorkload, BTreeSet<String>> {
    let mut workloads: BTreeMap<PreviewWorkload, BTreeSet<String>> = BTreeMap::new();
    for add_on in objects::<ManagedClusterAddOn>(hub).iter().filter(|add_on| !add_on.is_terminating()) {
        let workload = PreviewWorkload::AddOn(add_on.name().to_owned());
        workloads.entry(workload).or_default().insert(add_on.namespace().to_owned());
    }
    for work in objects::<ManifestWork>(hub).iter().filter(|work| !work.is_terminating()) {
        if let Some(set) = PreviewWorkload::from_work(work) {
            workloads.entry(set).or_default().insert(work.namespace().to_owned());
        }
    }
    workloads
}
