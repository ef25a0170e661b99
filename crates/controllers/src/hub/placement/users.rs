//! The placements that may use a ManagedClusterSet.

use std::collections::BTreeSet;

use api::cluster::v1beta1::Placement;
use api::cluster::v1beta2::ManagedClusterSetBinding;
use object::{Key, Metadata as _};
use reconcile::{Query, View};

/// Returns the placements that may use sets through bindings, given as namespace and set.
pub(super) fn users_of(view: &impl View, bindings: &BTreeSet<(&str, &str)>) -> Vec<Key> {
    let mut keys = Vec::new();
    let namespaces: BTreeSet<&str> = bindings.iter().map(|(namespace, _)| *namespace).collect();
    for namespace in namespaces {
        let bound = |set: &String| bindings.contains(&(namespace, set.as_str()));
        for placement in view.readable::<Placement>(Query::namespace(namespace)) {
            let asked = &placement.spec.cluster_sets;
            if asked.is_empty() || asked.iter().any(bound) {
                keys.push(Key::of(&*placement));
            }
        }
    }
    keys
}

/// Returns the placements that may use sets.
pub(super) fn users_of_sets(view: &impl View, sets: &BTreeSet<&str>) -> Vec<Key> {
    if sets.is_empty() {
        return Vec::new();
    }
    let bindings = view.readable::<ManagedClusterSetBinding>(Query::ALL);
    let bindings = bindings.iter().filter_map(|binding| Some((binding.namespace(), binding.cluster_set()?)));
    users_of(view, &bindings.filter(|(_, set)| sets.contains(set)).collect())
}
