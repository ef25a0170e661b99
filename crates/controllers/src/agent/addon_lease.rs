//! Reports the availability of add-ons to the hub, based on the leases that their agents renew on the spoke.
//!
//! The hub judges the health of some add-ons itself; this controller leaves those alone.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;

use crate::agent_identity::{self, AgentSettings};
use api::addon::v1alpha1::{HealthCheckMode, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::condition::ConditionStatus::{False, True, Unknown};
use api::condition::{Conditions as _, Observation, set_condition};
use api::names::{addon_conditions, cluster_conditions};
use engine::addon::hosting;
use object::{Key, Metadata as _};
use reconcile::{Controller, Plan, Query, Read, Site, StatusWrite, View, Watches};

/// The grace period: agents renew every minute and may miss five renewals.
const GRACE: SignedDuration = SignedDuration::from_secs(300);

pub(crate) struct AddOnLeaseController;

impl Controller for AddOnLeaseController {
    const NAME: &'static str = "addon-lease";
    type Primary = ManagedClusterAddOn;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<ManagedCluster>(|change, view| {
            let cluster = change.latest().filter(|_| change.differs_in(is_unknown));
            let addons =
                |cluster: &ManagedCluster| view.keys::<ManagedClusterAddOn>(Query::namespace(cluster.name()));
            cluster.map(addons).unwrap_or_default()
        });
        watches.on_site::<Lease>(Site::Spoke, |change, view| {
            let Some(identity) = agent_identity::identity(view) else { return Vec::new() };
            let addon = |lease: &Lease| Key::namespaced(&identity.cluster, lease.name());
            let exists = |key: &Key| view.get::<ManagedClusterAddOn>(key).is_ok_and(|addon| addon.is_some());
            change.latest().map(addon).filter(exists).into_iter().collect()
        });
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        let mut plan = Plan::nothing();
        let Some(addon) = view.get::<ManagedClusterAddOn>(key)? else { return Ok(plan) };
        // A hosted agent reads these leases on its hosting cluster, without a watch.
        let is_hosted = view.settings::<AgentSettings>().is_some_and(|settings| settings.is_hosted);
        if is_hosted && hosting_cluster(&addon).is_some() {
            return Ok(plan);
        }
        let Some(lease) = lease_of(&addon, view)? else { return Ok(plan) };
        let lease = view.get_on::<Lease>(Site::Spoke, &lease)?;
        let (available, until) = availability(&addon, lease.as_deref(), now);
        if let Some(until) = until {
            plan.wake(until);
        }
        let mut status = addon.status.clone().unwrap_or_default();
        set_condition(&mut status.conditions, available, now);
        plan.status = StatusWrite::from_status(addon.as_ref(), addon.status.as_ref(), &status);
        Ok(plan)
    }
}

fn is_unknown(cluster: &ManagedCluster) -> bool {
    cluster.condition(cluster_conditions::AVAILABLE).is_some_and(|available| available.status == Unknown)
}

/// Returns the name of the hosting cluster that an add-on sets, if it is not empty.
pub fn hosting_cluster(addon: &ManagedClusterAddOn) -> Option<&str> {
    hosting::hosting_cluster(addon).filter(|name| !name.is_empty())
}

/// Returns the lease that determines the availability of an add-on; `None` if the hub determines it.
///
/// # Errors
/// Fails if the cluster cannot be read.
pub fn lease_of(addon: &ManagedClusterAddOn, view: &impl View) -> Read<Option<Key>> {
    // The status names the lease, so wait until the hub has written the status.
    let Some(status) = addon.status.as_ref().filter(|_| !addon.is_terminating()) else { return Ok(None) };
    if status.health_check.as_ref().is_some_and(|check| check.mode == HealthCheckMode::Customized) {
        return Ok(None);
    }
    // While the cluster is unknown, the hub writes the status of its add-ons.
    let cluster = view.get::<ManagedCluster>(&Key::cluster(addon.namespace()))?;
    let is_judged_here = cluster.is_none_or(|cluster| !is_unknown(&cluster));
    Ok(is_judged_here.then(|| Key::namespaced(addon.agent_namespace(), addon.name())))
}

/// Returns the availability of an add-on in OCM's words, and the time at which a valid lease expires.
pub fn availability(
    addon: &ManagedClusterAddOn,
    lease: Option<&Lease>,
    now: Timestamp,
) -> (Observation, Option<Timestamp>) {
    let name = addon.name();
    let observation = |status, reason, message| {
        Observation::new(addon_conditions::AVAILABLE, status, reason).message(message)
    };
    let Some(lease) = lease else {
        let message = format!("The status of {name} add-on is unknown.");
        return (observation(Unknown, "ManagedClusterAddOnLeaseNotFound", message), None);
    };
    let renewed = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref());
    match renewed.and_then(|time| time.0.checked_add(GRACE).ok()).filter(|until| *until > now) {
        Some(until) => {
            let message = format!("{name} add-on is available.");
            (observation(True, "ManagedClusterAddOnLeaseUpdated", message), Some(until))
        }
        None => {
            let message = format!("{name} add-on is not available.");
            (observation(False, "ManagedClusterAddOnLeaseUpdateStopped", message), None)
        }
    }
}

#[cfg(test)]
#[path = "tests/addon_lease.rs"]
mod tests;
