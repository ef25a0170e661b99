//! The works and permissions of an add-on that no longer exists.
//!
//! A garbage collector deletes them too, by their owner references, but a hub may have none.

use jiff::Timestamp;

use super::permissions;
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::cluster::v1::ManagedCluster;
use api::names::{ADDON_NAME_LABEL, ADDON_NAMESPACE_LABEL};
use api::work::v1::ManifestWork;
use engine::addon::hosting::{WorksEnd, end_works};
use engine::addon::live::leftovers;
use object::Key;
use reconcile::{Action, Plan, Query, Read, View};

/// Deletes the works, and revokes the permissions once the works are gone. An agent that does not delete its works
/// still loses its permissions after a while.
///
/// Asks the API server whether the add-on exists, because a list may not contain it.
pub(super) fn delete(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
    let mut plan = Plan::nothing();
    let here = view.list::<ManifestWork>(Query::label(ADDON_NAME_LABEL, &key.name).within(&key.namespace))?;
    let elsewhere = view.list::<ManifestWork>(Query::label(ADDON_NAMESPACE_LABEL, &key.namespace))?;
    let left = leftovers(key, here, elsewhere);
    let revoked = permissions::Existing::read(key, view)?.revoke();
    if left.is_empty() && revoked.is_empty() || view.exists::<ManagedClusterAddOn>(key)? {
        return Ok(plan);
    }
    let cluster = view.get::<ManagedCluster>(&Key::cluster(&key.namespace))?;
    let is_accepted = cluster.is_some_and(|cluster| cluster.spec.hub_accepts_client);
    let WorksEnd { delete: living, until } = end_works(&left, is_accepted, now);
    match until {
        Some(until) => plan.wake(until),
        None => plan.step(revoked),
    }
    plan.step(living.into_iter().map(Action::delete));
    Ok(plan)
}
