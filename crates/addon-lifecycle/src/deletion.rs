//! The deletion of an add-on: its pre-delete jobs, works and permissions.

use std::sync::Arc;

use jiff::Timestamp;

use super::deployment::read_live;
use super::permissions::Permissions;
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::cluster::v1::ManagedCluster;
use api::names::{ADDON_NAME_LABEL, ADDON_NAMESPACE_LABEL};
use api::work::v1::ManifestWork;
use engine::addon::hook::WaitReport;
use engine::addon::hosting::{FINALIZERS, Host, WorksEnd, end_works};
use engine::addon::live::{AddOnPart, JOB_FINALIZERS, Jobs, LiveAddOn, leftovers};
use object::{Key, Metadata as _};
use reconcile::{Action, Event, EventType, Plan, Query, Read, StatusWrite, View};

/// Runs the pre-delete jobs of an add-on that is being deleted. When they complete, deletes its works on other
/// clusters and removes the finalizers. Its other works and its permissions stay until the add-on is gone.
///
/// `make` returns the parts of the add-on with the jobs, or the reason that they are unknown. A cluster that the
/// hub does not accept (`is_accepted`) gets no jobs.
pub fn finish(
    live: &LiveAddOn,
    is_accepted: bool,
    make: impl FnOnce() -> Result<Vec<AddOnPart>, String>,
    now: Timestamp,
) -> Plan {
    let addon = &*live.addon;
    if !live.has_jobs() {
        return clean(live, matches!(live.host, Host::Valid(_)), now);
    }
    let mut plan = Plan::nothing();
    let parts = make();
    let Jobs { writes, wait } = live.jobs(parts.as_deref().map_err(String::as_str), is_accepted);
    plan.step(writes.into_iter().map(|work| Action::apply_unchanged(work.wanted, work.live)));
    let Some(wait) = wait else {
        plan.step(Action::remove_finalizers(addon, &JOB_FINALIZERS));
        return plan;
    };
    let WaitReport { reported, warning, wake } = wait.report(addon, now);
    plan.wake_at = wake;
    let warn = |(reason, message)| Event::new(addon, EventType::Warning, reason, "Delete", message);
    let events = warning.map(warn).into_iter().collect();
    plan.status = StatusWrite::between(addon, &reported).map(|write| write.with_events(events));
    plan
}

/// Releases a deleted add-on whose cluster no longer exists, because no job can run there. Asks the API server
/// whether the cluster exists, because a list may not contain it. `can_be_hosted` is as for [`read_live`].
///
/// # Errors
/// Fails if the cluster or the works have not been read.
pub fn release(
    addon: Arc<ManagedClusterAddOn>,
    can_be_hosted: bool,
    view: &impl View,
    now: Timestamp,
) -> Read<Plan> {
    let cluster = Key::cluster(addon.namespace());
    let is_alone = addon.is_terminating() && view.get::<ManagedCluster>(&cluster)?.is_none();
    if !is_alone || view.exists::<ManagedCluster>(&cluster)? {
        return Ok(Plan::nothing());
    }
    Ok(clean(&read_live(addon, can_be_hosted, view)?, false, now))
}

/// Deletes the works on hosting clusters, then removes the finalizers of the add-on. If `waits` is true, an agent
/// can still remove the works and gets time to do so.
fn clean(live: &LiveAddOn, waits: bool, now: Timestamp) -> Plan {
    let mut plan = Plan::nothing();
    let WorksEnd { delete, until } = live.end_hosted(waits, now);
    plan.step(delete.into_iter().map(Action::delete));
    match until {
        Some(until) => plan.wake(until),
        None => plan.step(Action::remove_finalizers(&*live.addon, &FINALIZERS)),
    }
    plan
}

/// Deletes the works of an add-on that no longer exists, and revokes its agent's permissions once the works are
/// gone. An agent that does not delete its works still loses its permissions after a while.
///
/// A garbage collector deletes most of them too, by their owner references. But a hub may have none, and it
/// guarantees no order. Asks the API server whether the add-on exists: a list may not contain it, and the cache of
/// add-ons may be older than a work.
///
/// # Errors
/// Fails if the works or the cluster have not been read, or if the API server has not responded.
pub fn delete_leftovers(
    addon: &Key,
    permissions: &Permissions,
    view: &impl View,
    now: Timestamp,
) -> Read<Plan> {
    let mut plan = Plan::nothing();
    let here = Query::label(ADDON_NAME_LABEL, &addon.name).within(&addon.namespace);
    let elsewhere = Query::label(ADDON_NAMESPACE_LABEL, &addon.namespace);
    let left = leftovers(addon, view.list::<ManifestWork>(here)?, view.list::<ManifestWork>(elsewhere)?);
    let revoked = permissions.revoke();
    if left.is_empty() && revoked.is_empty() || view.exists::<ManagedClusterAddOn>(addon)? {
        return Ok(plan);
    }
    let cluster = view.get::<ManagedCluster>(&Key::cluster(&addon.namespace))?;
    let is_accepted = cluster.is_some_and(|cluster| cluster.spec.hub_accepts_client);
    let WorksEnd { delete, until } = end_works(&left, is_accepted, now);
    match until {
        Some(until) => plan.wake(until),
        None => plan.step(revoked),
    }
    plan.step(delete.into_iter().map(Action::delete));
    Ok(plan)
}
