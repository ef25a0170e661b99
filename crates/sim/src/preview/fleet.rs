//! Typed reads of a store.

use std::collections::{BTreeMap, BTreeSet};

use api::addon::v1alpha1::ManagedClusterAddOn;
use api::cluster::v1beta1::PlacementDecision;
use api::names::{DECISION_GROUP_NAME_LABEL, PLACEMENT_LABEL};
use object::{Key, Kind, Metadata as _};
use store::{ListOptions, ResourcePath, Store};

/// Returns every readable object of a kind.
pub(super) fn all<K: Kind>(hub: &Store) -> Vec<K> {
    let list = hub.list(&ResourcePath::all::<K>(), &ListOptions::default());
    list.map(|list| list.items.iter().filter_map(|item| item.to_typed().ok()).collect()).unwrap_or_default()
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

/// Returns the clusters of each add-on; one that is being deleted does not count.
pub(super) fn add_ons(hub: &Store) -> BTreeMap<String, BTreeSet<String>> {
    let mut add_ons: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for add_on in all::<ManagedClusterAddOn>(hub).into_iter().filter(|add_on| !add_on.is_terminating()) {
        add_ons.entry(add_on.name().to_owned()).or_default().insert(add_on.namespace().to_owned());
    }
    add_ons
}
