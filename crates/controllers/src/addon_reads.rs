//! What the controllers of add-ons read alike.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn, PlacementStrategy};
use api::cluster::v1::ManagedCluster;
use api::cluster::v1beta1::{Placement, PlacementDecision};
use api::gitops::v1alpha1::RolloutPolicy;
use api::names::PLACEMENT_LABEL;
use engine::addon::selection::Selection;
use engine::rollout::{Policy, Refused};
use object::{Key, Kind};
use reconcile::{Query, Read, View, Watches};

/// The key of the ClusterManagementAddOn a cluster's add-on belongs to: the one of its name.
pub(super) fn key_of_addon(addon: &ManagedClusterAddOn) -> Key {
    Key::cluster(addon.metadata.name.clone().unwrap_or_default())
}

/// Wakes the add-ons whose placements change.
pub(super) fn wake_on_placements<W: Watches>(watches: &mut W) {
    watches.on::<Placement>(|change, view| {
        change.sides().take(1).flat_map(|placement| using(&Key::of(placement), view)).collect()
    });
    watches.on::<PlacementDecision>(|change, view| {
        let keys: BTreeSet<Key> =
            change.sides().filter_map(placement_of).flat_map(|placement| using(&placement, view)).collect();
        keys.into_iter().collect()
    });
}

fn placement_of(decision: &PlacementDecision) -> Option<Key> {
    let name = decision.metadata.labels.as_ref()?.get(PLACEMENT_LABEL)?;
    Some(Key::namespaced(decision.metadata.namespace.clone()?, name))
}

/// The add-ons that install by a placement.
fn using(placement: &Key, view: &impl View) -> Vec<Key> {
    let uses = |cma: &ClusterManagementAddOn| {
        cma.spec
            .install_strategy
            .placements
            .iter()
            .any(|p| p.namespace == placement.namespace && p.name == placement.name)
    };
    let all = view.list::<ClusterManagementAddOn>(Query::ALL).unwrap_or_default();
    all.iter().filter(|cma| uses(cma)).map(|cma| Key::of(cma.as_ref())).collect()
}

/// The add-ons of one name on all clusters.
pub(super) fn of_clusters(addon: &str, view: &impl View) -> Read<Vec<Arc<ManagedClusterAddOn>>> {
    let mut addons = Vec::new();
    for cluster in view.list::<ManagedCluster>(Query::ALL)? {
        let name = cluster.metadata.name.as_deref().unwrap_or_default();
        addons.extend(view.get::<ManagedClusterAddOn>(&Key::namespaced(name, addon))?);
    }
    Ok(addons)
}

/// What each placement selects.
pub(super) fn placements_of(placements: &[PlacementStrategy], view: &impl View) -> Read<Vec<Selection>> {
    let read = |strategy: &PlacementStrategy| {
        let placement = view.get::<Placement>(&Key::namespaced(&strategy.namespace, &strategy.name))?;
        let decisions = view.list::<PlacementDecision>(
            Query::label(PLACEMENT_LABEL, &strategy.name).within(&strategy.namespace),
        )?;
        Ok(Selection::read(placement.as_deref(), decisions.iter().map(Arc::as_ref)))
    };
    placements.iter().map(read).collect()
}

/// The policy of an add-on's rollouts, and the approvals it carries: that which names the add-on, else that which names none.
pub(super) fn policy(addon: &str, view: &impl View) -> Read<(Result<Policy, Refused>, BTreeSet<String>)> {
    let Some(object) = policy_object(addon, view)? else {
        return Ok((Ok(Policy::default()), BTreeSet::new()));
    };
    Ok((Policy::read(&object.spec), object.spec.approved.iter().cloned().collect()))
}

/// The object behind [`policy`].
pub(super) fn policy_object(addon: &str, view: &impl View) -> Read<Option<Arc<RolloutPolicy>>> {
    let policies = view.list::<RolloutPolicy>(Query::ALL)?;
    let names = |policy: &&Arc<RolloutPolicy>| policy.spec.add_ons.iter().any(|name| name == addon);
    let named =
        policies.iter().find(names).or_else(|| policies.iter().find(|policy| policy.spec.add_ons.is_empty()));
    Ok(named.cloned())
}

/// Wakes the keys of all objects of a kind.
pub(super) fn every<K: Kind>(view: &impl View) -> Vec<Key> {
    view.list::<K>(Query::ALL).unwrap_or_default().iter().map(|object| Key::of(object.as_ref())).collect()
}
