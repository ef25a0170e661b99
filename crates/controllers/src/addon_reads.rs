//! Shared reads of the add-on controllers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::placement_reads::placement_of;
use crate::rollout_policy;
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn, PlacementStrategy};
use api::cluster::v1::ManagedCluster;
use api::cluster::v1beta1::{Placement, PlacementDecision};
use api::gitops::v1alpha1::RolloutPolicy;
use object::{Key, Metadata as _};
use reconcile::{Change, Query, Read, View, Watches};

/// Returns the key of the ClusterManagementAddOn for an add-on on a cluster. They have the same name.
pub(super) fn key_of_addon(addon: &ManagedClusterAddOn) -> Key {
    Key::cluster(addon.name())
}

/// Wakes the add-ons that a placement installs when the placement or its decisions change.
pub(super) fn wake_on_placements<W: Watches>(watches: &mut W) {
    watches.on::<Placement>(|change, view| {
        change.latest().map(|placement| installed_by(&Key::of(placement), view)).unwrap_or_default()
    });
    watches.on::<PlacementDecision>(|change, view| {
        let placements: BTreeSet<Key> = change.sides().filter_map(placement_of).collect();
        let keys: BTreeSet<Key> =
            placements.iter().flat_map(|placement| installed_by(placement, view)).collect();
        keys.into_iter().collect()
    });
}

/// Wakes the add-ons that a policy matches or matched when its rules change, and add-ons whose recorded quarantine
/// appears or disappears.
pub(super) fn wake_on_policies<W: Watches>(watches: &mut W) {
    watches.on::<RolloutPolicy>(|change, view| {
        if !change.differs_in(|policy| &policy.spec) {
            let add_ons: BTreeSet<&String> = rollout_policy::quarantines_of(change)
                .into_iter()
                .map(|rollout| &rollout.add_on)
                .filter(|name| !name.is_empty())
                .collect();
            return add_ons.into_iter().map(Key::cluster).collect();
        }
        let mut keys = view.keys::<ClusterManagementAddOn>(Query::ALL);
        if let Some(names) = rollout_policy::add_ons_of(change) {
            keys.retain(|key| names.contains(key.name.as_str()));
        }
        keys
    });
}

/// Returns the add-ons that a placement installs.
fn installed_by(placement: &Key, view: &impl View) -> Vec<Key> {
    let is_it = |p: &PlacementStrategy| p.namespace == placement.namespace && p.name == placement.name;
    let uses = |cma: &&Arc<ClusterManagementAddOn>| cma.spec.install_strategy.placements.iter().any(is_it);
    let all = view.readable::<ClusterManagementAddOn>(Query::ALL);
    all.iter().filter(uses).map(|cma| Key::of(cma.as_ref())).collect()
}

/// Wakes every add-on when clusters or their add-ons become readable again.
pub(super) fn wake_on_readability<W: Watches>(watches: &mut W) {
    watches.on_readability::<ManagedCluster>(|view| view.keys::<ClusterManagementAddOn>(Query::ALL));
    watches.on_readability::<ManagedClusterAddOn>(|view| view.keys::<ClusterManagementAddOn>(Query::ALL));
}

/// The add-on with a given name on all clusters.
#[derive(Default)]
pub(super) struct OnClusters {
    /// The readable add-ons, sorted by cluster.
    pub(super) addons: Vec<Arc<ManagedClusterAddOn>>,
    /// Clusters that are unreadable or have an unreadable add-on. They exist, but their state is unknown.
    pub(super) unreadable: BTreeSet<String>,
}

/// Returns the add-on with this name on all clusters.
pub(super) fn of_clusters(addon: &str, view: &impl View) -> Read<OnClusters> {
    let refused = view.unreadable::<ManagedCluster>(Query::ALL)?;
    let mut found = OnClusters::default();
    found.unreadable.extend(refused.iter().map(|refused| refused.key.name.clone()));
    let clusters = view.list_readable::<ManagedCluster>(Query::ALL)?;
    let read: BTreeSet<&str> = clusters.iter().map(|cluster| cluster.name()).collect();
    let refused = refused.iter().map(|refused| refused.key.name.as_str());
    let never_read = refused.filter(|name| !read.contains(name));
    for cluster in clusters.iter().map(|cluster| cluster.name()).chain(never_read) {
        match view.get::<ManagedClusterAddOn>(&Key::namespaced(cluster, addon)) {
            Ok(addon) => found.addons.extend(addon),
            Err(error) if error.is_unreadable() => {
                found.unreadable.insert(cluster.to_owned());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// Returns the clusters that are unreadable, or whose add-on with this name is unreadable.
pub(super) fn unreadable(addon: &str, view: &impl View) -> Read<BTreeSet<String>> {
    let refused = view.unreadable::<ManagedCluster>(Query::ALL)?;
    let mut clusters: BTreeSet<String> = refused.iter().map(|refused| refused.key.name.clone()).collect();
    for refused in view.unreadable::<ManagedClusterAddOn>(Query::ALL)? {
        let Key { namespace, name } = &refused.key;
        if name == addon
            && !clusters.contains(namespace)
            && view.get::<ManagedCluster>(&Key::cluster(namespace))?.is_some()
        {
            clusters.insert(namespace.clone());
        }
    }
    Ok(clusters)
}

/// Returns the keys of the add-on with this name, including on clusters that are missing from the list.
pub(super) fn keys_of_name(addon: &str, view: &impl View) -> Read<BTreeSet<Key>> {
    let addons = view.list_readable::<ManagedClusterAddOn>(Query::ALL)?;
    let unreadable = view.unreadable::<ManagedClusterAddOn>(Query::ALL)?;
    let addons = addons.iter().filter(|found| found.name() == addon).map(|found| Key::of(found.as_ref()));
    let unreadable = unreadable.iter().filter(|refused| refused.key.name == addon);
    Ok(addons.chain(unreadable.map(|refused| refused.key.clone())).collect())
}

/// Returns the number of clusters with each of these add-ons, including clusters that are missing from the list.
pub(super) fn clusters_by_name<'a>(
    names: impl IntoIterator<Item = &'a str>,
    view: &impl View,
) -> Read<BTreeMap<&'a str, usize>> {
    let mut clusters: BTreeMap<&str, usize> = names.into_iter().map(|name| (name, 0)).collect();
    if clusters.is_empty() {
        return Ok(clusters);
    }
    for addon in view.list_readable::<ManagedClusterAddOn>(Query::ALL)? {
        clusters.get_mut(addon.name()).into_iter().for_each(|count| *count += 1);
    }
    for refused in view.unreadable::<ManagedClusterAddOn>(Query::ALL)? {
        clusters.get_mut(&*refused.key.name).into_iter().for_each(|count| *count += 1);
    }
    Ok(clusters)
}

/// Returns the keys of the add-on with this name on all clusters, to wake them.
pub(super) fn keys_of_clusters(addon: &str, view: &impl View) -> Vec<Key> {
    let clusters = view.keys::<ManagedCluster>(Query::ALL).into_iter();
    let keys = clusters.map(|cluster| Key::namespaced(cluster.name, addon));
    keys.filter(|key| !matches!(view.get::<ManagedClusterAddOn>(key), Ok(None))).collect()
}

/// Returns the keys of the add-ons that a policy matches or matched on all clusters, to wake them.
pub(super) fn keys_of_policy(change: &Change<RolloutPolicy>, view: &impl View) -> Vec<Key> {
    match rollout_policy::add_ons_of(change) {
        Some(names) => names.iter().flat_map(|name| keys_of_clusters(name, view)).collect(),
        None => view.keys::<ManagedClusterAddOn>(Query::ALL),
    }
}
