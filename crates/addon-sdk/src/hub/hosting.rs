//! The cluster that hosts a part of the add-on, and the works there.

use std::sync::Arc;

use jiff::Timestamp;

use crate::AddOn;
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::cluster::v1::ManagedCluster;
use api::names::{ADDON_NAME_LABEL, ADDON_NAMESPACE_LABEL, HOSTING_CLEANUP_FINALIZER};
use api::work::v1::ManifestWork;
use engine::addon::hosting::{self, FINALIZERS, Host};
use object::{Key, Metadata as _};
use reconcile::{Action, Plan, Query, Read, View};

/// Returns the name of the cluster that hosts a part of an add-on, if the add-on has hosted mode.
pub(super) fn named<A: AddOn>(addon: &ManagedClusterAddOn) -> Option<&str> {
    hosting::hosting_cluster(addon).filter(|_| A::options().hosted)
}

/// Reads the cluster that hosts a part of an add-on.
pub(super) fn host<A: AddOn>(addon: &ManagedClusterAddOn, view: &impl View) -> Read<Host> {
    let Some(name) = named::<A>(addon) else { return Ok(Host::None) };
    Ok(Host::judge(name, view.get::<ManagedCluster>(&Key::cluster(name))?))
}

/// Returns the works of the part of an add-on that other clusters host or hosted.
pub(super) fn works<A: AddOn>(addon: &ManagedClusterAddOn, view: &impl View) -> Read<Vec<Arc<ManifestWork>>> {
    if named::<A>(addon).is_none() && !addon.has_finalizer(HOSTING_CLEANUP_FINALIZER) {
        return Ok(Vec::new());
    }
    let Key { namespace, name } = &Key::of(addon);
    let mut works = view.list::<ManifestWork>(Query::label(ADDON_NAMESPACE_LABEL, namespace))?;
    // A cluster may host its own add-on.
    let here = view.list::<ManifestWork>(Query::label(ADDON_NAME_LABEL, name).within(namespace))?;
    works.extend(here.into_iter().filter(|work| work.label(ADDON_NAMESPACE_LABEL).is_none()));
    works.retain(|work| hosting::is_hosted(&Key::of(addon), work));
    Ok(works)
}

/// Deletes the works that other clusters host, and removes the finalizers of a deleted add-on when the works
/// are gone. `waits` says whether an agent can still remove them; it has ten minutes.
pub(super) fn clean(
    addon: &ManagedClusterAddOn,
    works: &[Arc<ManifestWork>],
    waits: bool,
    now: Timestamp,
) -> Plan {
    let mut plan = Plan::nothing();
    let living = works.iter().filter(|work| !work.is_terminating());
    plan.step(living.map(|work| Action::delete(work.as_ref())));
    match hosting::deadline(works, now).filter(|until| waits && *until > now) {
        Some(until) => plan.wake(until),
        None => plan.step(Action::remove_finalizers(addon, &FINALIZERS)),
    }
    plan
}

#[cfg(test)]
#[path = "tests/hosting.rs"]
mod tests;
