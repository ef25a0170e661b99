//! The cluster that hosts part of an add-on, and the works of the add-on.

use std::sync::Arc;

use jiff::Timestamp;

use api::addon::v1alpha1::ManagedClusterAddOn;
use api::cluster::v1::ManagedCluster;
use api::names::{ADDON_NAME_LABEL, ADDON_NAMESPACE_LABEL};
use api::work::v1::ManifestWork;
use engine::addon::hosting::{FINALIZERS, Host, WorksEnd, hosting_cluster};
use engine::addon::live::{LiveAddOn, was_hosted};
use object::{Key, Metadata as _};
use reconcile::{Action, Plan, Query, Read, View};

/// Reads the works of an add-on and its hosting cluster.
pub(super) fn live(addon: Arc<ManagedClusterAddOn>, view: &impl View) -> Read<LiveAddOn> {
    let host = match hosting_cluster(&addon) {
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

/// Deletes the works on hosting clusters, then removes the finalizers of the add-on. If `waits` is true, agents
/// get time to remove the works.
pub(super) fn clean(live: &LiveAddOn, waits: bool, now: Timestamp) -> Plan {
    let mut plan = Plan::nothing();
    let WorksEnd { delete, until } = live.end_hosted(waits, now);
    plan.step(delete.into_iter().map(Action::delete));
    match until {
        Some(until) => plan.wake(until),
        None => plan.step(Action::remove_finalizers(&*live.addon, &FINALIZERS)),
    }
    plan
}
