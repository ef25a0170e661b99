//! Reports to the hub which add-ons are alive, from the leases that their agents renew on the spoke.
//!
//! The hub judges the health of some add-ons itself; this controller leaves those alone.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;

use crate::agent_identity;
use api::addon::v1alpha1::{HealthCheckMode, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::condition::ConditionStatus::{False, True, Unknown};
use api::condition::{Conditions as _, Observation, set_condition};
use api::names::{addon_conditions, cluster_conditions};
use object::{Key, Metadata as _};
use reconcile::{Controller, Plan, Query, Read, Site, StatusWrite, View, Watches};

/// The grace period: agents renew every minute, and may miss five renewals.
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
        let Some(addon) = view.get::<ManagedClusterAddOn>(key)?.filter(|addon| !addon.is_terminating())
        else {
            return Ok(plan);
        };
        // The status names the lease, so the controller waits until the hub has written the status.
        let Some(mut status) = addon.status.clone() else { return Ok(plan) };
        if status.health_check.as_ref().is_some_and(|check| check.mode == HealthCheckMode::Customized) {
            return Ok(plan);
        }
        // While the cluster is unknown, the hub writes the status of its add-ons.
        let cluster = view.get::<ManagedCluster>(&Key::cluster(&key.namespace))?;
        if cluster.is_some_and(|cluster| is_unknown(&cluster)) {
            return Ok(plan);
        }
        let lease = Key::namespaced(addon.agent_namespace(), &key.name);
        let lease = view.get_on::<Lease>(Site::Spoke, &lease)?;
        let available = observe(&key.name, lease.as_deref(), &mut plan, now);
        set_condition(&mut status.conditions, available, now);
        let new = ManagedClusterAddOn { status: Some(status), ..ManagedClusterAddOn::clone(&addon) };
        plan.status = StatusWrite::between(addon.as_ref(), &new);
        Ok(plan)
    }
}

fn is_unknown(cluster: &ManagedCluster) -> bool {
    cluster.condition(cluster_conditions::AVAILABLE).is_some_and(|available| available.status == Unknown)
}

/// Returns the availability of an add-on, in OCM's words; a lease that is valid wakes the key when it
/// expires.
fn observe(addon: &str, lease: Option<&Lease>, plan: &mut Plan, now: Timestamp) -> Observation {
    let observation = |status, reason| Observation::new(addon_conditions::AVAILABLE, status, reason);
    let Some(lease) = lease else {
        return observation(Unknown, "ManagedClusterAddOnLeaseNotFound")
            .message(format!("The status of {addon} add-on is unknown."));
    };
    let renewed = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref());
    match renewed.and_then(|time| time.0.checked_add(GRACE).ok()) {
        Some(until) if until > now => {
            plan.wake(until);
            observation(True, "ManagedClusterAddOnLeaseUpdated")
                .message(format!("{addon} add-on is available."))
        }
        Some(_) | None => observation(False, "ManagedClusterAddOnLeaseUpdateStopped")
            .message(format!("{addon} add-on is not available.")),
    }
}

#[cfg(test)]
#[path = "tests/addon_lease.rs"]
mod tests;
