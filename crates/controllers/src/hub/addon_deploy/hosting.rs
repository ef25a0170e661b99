//! The cluster that hosts a part of an add-on.
//!
//! Works stay as they are while the hub cannot deploy to that cluster, so nothing is deleted because a
//! cluster is missing.

use std::sync::Arc;

use jiff::Timestamp;

use api::addon::v1alpha1::ManagedClusterAddOn;
use api::cluster::v1::ManagedCluster;
use api::names::{ADDON_NAME_LABEL, ADDON_NAMESPACE_LABEL};
use api::work::v1::ManifestWork;
use engine::addon::hosting::{self, FINALIZERS, Host};
use object::{Key, Metadata as _};
use reconcile::{Action, Plan, Query, Read, View};

/// Reads the cluster that hosts an add-on.
pub(super) fn host(addon: &ManagedClusterAddOn, view: &impl View) -> Read<Host> {
    let Some(name) = hosting::hosting_cluster(addon) else { return Ok(Host::None) };
    Ok(Host::judge(name, view.get::<ManagedCluster>(&Key::cluster(name))?))
}

/// Returns the works of the part of an add-on that other clusters host or hosted.
pub(super) fn works(addon: &Key, view: &impl View) -> Read<Vec<Arc<ManifestWork>>> {
    let mut works = view.list::<ManifestWork>(Query::label(ADDON_NAMESPACE_LABEL, &addon.namespace))?;
    // A cluster may host its own add-on.
    let here = Query::label(ADDON_NAME_LABEL, &addon.name).within(&addon.namespace);
    works.extend(view.list::<ManifestWork>(here)?.into_iter().filter(|work| !has_namespace(work)));
    works.retain(|work| hosting::is_hosted(addon, work));
    Ok(works)
}

fn has_namespace(work: &Arc<ManifestWork>) -> bool {
    work.label(ADDON_NAMESPACE_LABEL).is_some()
}

/// Deletes the works that other clusters host, and removes the finalizers of the add-on when the works are
/// gone. `waits` says whether the add-on waits for that.
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
