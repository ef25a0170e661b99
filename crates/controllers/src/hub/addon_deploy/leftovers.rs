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
use object::{Key, Metadata as _, ObjectRef, refers_to};
use reconcile::{Action, Plan, Query, Read, View};

/// Deletes the works, and revokes the permissions when the works are gone. An agent that keeps its works has
/// no permissions for ever.
pub(super) fn delete(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
    let mut plan = Plan::nothing();
    let works =
        view.list::<ManifestWork>(Query::label(ADDON_NAME_LABEL, &key.name).within(&key.namespace))?;
    let mut left = Vec::new();
    for work in works {
        if is_left(&work, key, view)? {
            left.push(work);
        }
    }
    // A person may have removed the finalizer that lets the add-on take them with it.
    let hosted = hosting::works(key, view)?;
    if !hosted.is_empty() && view.object(&ObjectRef::of::<ManagedClusterAddOn>(key.clone()))?.is_none() {
        left.extend(hosted.into_iter().filter(|work| work.namespace() != key.namespace));
    }
    let cluster = view.get::<ManagedCluster>(&Key::cluster(&key.namespace))?;
    let is_accepted = cluster.is_some_and(|cluster| cluster.spec.hub_accepts_client);
    match hosting::deadline(&left, now).filter(|until| is_accepted && *until > now) {
        Some(until) => plan.wake(until),
        None => plan.step(remove(&bindings_of(key, view)?)),
    }
    let living = left.iter().filter(|work| !work.is_terminating());
    plan.step(living.map(|work| Action::delete(work.as_ref())));
    Ok(plan)
}

/// Returns whether a work is controlled by an add-on that no longer exists, as a garbage collector decides
/// it: the API server says so, because the cache of add-ons may be older than the work.
///
/// # Errors
/// The API server has not answered yet.
fn is_left(work: &ManifestWork, addon: &Key, view: &impl View) -> Read<bool> {
    let mut owners = work.metadata.owner_references.iter().flatten();
    let controller = owners
        .find(|owner| owner.controller == Some(true) && refers_to::<ManagedClusterAddOn>(owner, &addon.name));
    let Some(controller) = controller else { return Ok(false) };
    let live = view.object(&ObjectRef::of::<ManagedClusterAddOn>(addon.clone()))?;
    Ok(live.is_none_or(|live| live.uid() != controller.uid))
}
