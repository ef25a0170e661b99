//! The works and the permissions of an add-on that no longer exists.
//!
//! A garbage collector deletes the works as well, by their owner references. A hub may have none, and it
//! keeps no order.

use jiff::Timestamp;

use super::deployment::{bindings_of, remove};
use super::hosting;
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::cluster::v1::ManagedCluster;
use api::names::ADDON_NAME_LABEL;
use api::work::v1::ManifestWork;
use engine::addon::works;
use object::{Key, Metadata as _};
use reconcile::{Action, Plan, Query, Read, View};

/// Deletes the works, and revokes the permissions when the works are gone. An agent that keeps its works has
/// no permissions for ever.
///
/// The API server says whether the add-on exists: a list may leave it out, and the cache of add-ons may be
/// older than a work.
pub(super) fn delete(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
    let mut plan = Plan::nothing();
    let mut left =
        view.list::<ManifestWork>(Query::label(ADDON_NAME_LABEL, &key.name).within(&key.namespace))?;
    left.retain(|work| works::is_controlled_by(key, work));
    // A person may have removed the finalizer that lets the add-on take them with it.
    left.extend(hosting::works(key, view)?.into_iter().filter(|work| work.namespace() != key.namespace));
    let bindings = bindings_of(key, view)?;
    if left.is_empty() && bindings.is_empty() || view.exists::<ManagedClusterAddOn>(key)? {
        return Ok(plan);
    }
    let cluster = view.get::<ManagedCluster>(&Key::cluster(&key.namespace))?;
    let is_accepted = cluster.is_some_and(|cluster| cluster.spec.hub_accepts_client);
    match engine::addon::hosting::deadline(&left, now).filter(|until| is_accepted && *until > now) {
        Some(until) => plan.wake(until),
        None => plan.step(remove(&bindings)),
    }
    let living = left.iter().filter(|work| !work.is_terminating());
    plan.step(living.map(|work| Action::delete(work.as_ref())));
    Ok(plan)
}
