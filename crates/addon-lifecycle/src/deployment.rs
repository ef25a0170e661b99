//! The deployment of an add-on: its finalizers, permissions and works, and its status after refused writes.

use std::sync::Arc;

use jiff::Timestamp;

use super::permissions::{Permissions, WantedPermissions};
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::cluster::v1::ManagedCluster;
use api::condition::set_condition;
use api::names::{ADDON_NAME_LABEL, ADDON_NAMESPACE_LABEL};
use api::work::v1::ManifestWork;
use engine::addon::degraded;
use engine::addon::hosting::{Host, hosting_cluster};
use engine::addon::live::{AddOnPart, DeployWrites, LiveAddOn, NeededFinalizers, was_hosted};
use object::{Key, Metadata as _};
use reconcile::{Action, Executed, Plan, Query, Read, StatusWrite, View};

/// Reads the works of an add-on and its hosting cluster. If the add-on does not support hosted mode
/// (`can_be_hosted`), it runs only on its own cluster.
///
/// # Errors
/// Fails if the works or the hosting cluster have not been read.
pub fn read_live(addon: Arc<ManagedClusterAddOn>, can_be_hosted: bool, view: &impl View) -> Read<LiveAddOn> {
    let host = match hosting_cluster(&addon).filter(|_| can_be_hosted) {
        Some(name) => Host::judge(name, view.get::<ManagedCluster>(&Key::cluster(name))?),
        None => Host::None,
    };
    let here = Query::label(ADDON_NAME_LABEL, addon.name()).within(addon.namespace());
    let here = view.list::<ManifestWork>(here)?;
    let elsewhere = match was_hosted(&addon, &host) {
        true => view.list::<ManifestWork>(Query::label(ADDON_NAMESPACE_LABEL, addon.namespace()))?,
        false => Vec::new(),
    };
    Ok(LiveAddOn::new(addon, host, here, elsewhere))
}

/// Adds the finalizers for pre-delete jobs and for works on another cluster, and removes unneeded ones; `None` if
/// they are correct. The plan writes nothing else, because the write changes the resource version of the add-on.
pub fn hold(live: &LiveAddOn, parts: &[AddOnPart]) -> Option<Plan> {
    let NeededFinalizers { needed, unneeded } = live.finalizers(parts)?;
    let add = Action::add_finalizers(&*live.addon, &needed);
    let write = add.or_else(|| Action::remove_finalizers(&*live.addon, &unneeded))?;
    let mut plan = Plan::nothing();
    plan.step([write]);
    Some(plan)
}

/// Grants permissions and writes works if they differ, then deletes surplus works and revokes other permissions.
/// While the hub cannot deploy to the hosting cluster, the works are left unchanged.
pub fn deploy(
    live: &LiveAddOn,
    parts: &[AddOnPart],
    permissions: &Permissions,
    wanted: &WantedPermissions,
) -> Plan {
    let mut plan = Plan::nothing();
    plan.step(permissions.give(wanted));
    let Some(DeployWrites { steps, surplus }) = live.writes(parts) else { return plan };
    for step in steps {
        plan.step(step.into_iter().map(|work| Action::apply_unchanged(work.wanted, work.live)));
    }
    plan.step(surplus.into_iter().map(Action::delete));
    // The agent of the previous version needed its permissions until now.
    plan.step(permissions.revoke_others(wanted));
    plan
}

/// Returns the planned status once all writes have succeeded. If the API server rejected a work, or a permission
/// for the agent, reports that instead.
///
/// # Errors
/// Fails if the add-on has not been read.
pub fn conclude(key: &Key, view: &impl View, done: &Executed, now: Timestamp) -> Read<Option<StatusWrite>> {
    if done.is_success() {
        return Ok(done.plan.status.clone());
    }
    let Some(addon) = view.get::<ManagedClusterAddOn>(key)? else { return Ok(None) };
    let mut refusals = done.failures().filter(|(_, failure)| failure.is_refusal());
    let refused = refusals
        .find_map(|(action, failure)| degraded::refused_write(key, &action.target()?, &failure.message));
    let mut new = ManagedClusterAddOn::clone(&addon);
    let conditions = &mut new.status.get_or_insert_default().conditions;
    for condition in refused.into_iter().flatten() {
        set_condition(conditions, condition, now);
    }
    Ok(StatusWrite::between(&*addon, &new))
}
