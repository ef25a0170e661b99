//! Tells the hub which add-ons are alive, from the leases their agents renew on the spoke.
//!
//! Add-ons whose health the hub makes out by itself are left alone.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;

use crate::agent_identity;
use api::addon::v1alpha1::{HealthCheckMode, ManagedClusterAddOn};
use api::condition::ConditionStatus::{False, True, Unknown};
use api::condition::{Observation, set_condition};
use api::names::{DEFAULT_ADDON_NAMESPACE, addon_conditions};
use object::Key;
use reconcile::{Controller, Plan, Read, Site, StatusWrite, View, Watches};

/// Five renewals of a minute may be missed.
const GRACE: SignedDuration = SignedDuration::from_secs(300);

/// See the [module](self).
pub(crate) struct AddonLeaseController;

impl Controller for AddonLeaseController {
    const NAME: &'static str = "addon-lease";
    type Primary = ManagedClusterAddOn;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on_site::<Lease>(Site::Spoke, |change, view| {
            let Ok(Some(identity)) = agent_identity::identity(view) else { return Vec::new() };
            let names = change.sides().take(1).filter_map(|lease| lease.metadata.name.clone());
            let keys = names.map(|name| Key::namespaced(&identity.cluster, name));
            keys.filter(|key| view.get::<ManagedClusterAddOn>(key).is_ok_and(|addon| addon.is_some()))
                .collect()
        });
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        plan(key, view, now)
    }
}

fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
    let mut plan = Plan::nothing();
    let Some(addon) = view.get::<ManagedClusterAddOn>(key)? else { return Ok(plan) };
    let mut status = addon.status.clone().unwrap_or_default();
    let mode = status.health_check.as_ref().map(|check| &check.mode);
    // Before the hub has said anything of the add-on, nothing is known of where its lease is.
    if mode == Some(&HealthCheckMode::Customized)
        || addon.status.is_none()
        || addon.metadata.deletion_timestamp.is_some()
    {
        return Ok(plan);
    }
    let namespace = if status.namespace.is_empty() { DEFAULT_ADDON_NAMESPACE } else { &status.namespace };
    let lease = view.get_on::<Lease>(Site::Spoke, &Key::namespaced(namespace, &key.name))?;
    let observe = |status, reason| Observation::new(addon_conditions::AVAILABLE, status, reason);
    let name = &key.name;
    let renewed = |lease: &Lease| lease.spec.as_ref()?.renew_time.as_ref().map(|time| time.0);
    let available = match lease.as_deref() {
        None => observe(Unknown, "ManagedClusterAddOnLeaseNotFound")
            .message(format!("The status of {name} add-on is unknown.")),
        Some(lease) => match renewed(lease).and_then(|renewed| renewed.checked_add(GRACE).ok()) {
            Some(until) if until > now => {
                plan.wake(until);
                observe(True, "ManagedClusterAddOnLeaseUpdated")
                    .message(format!("{name} add-on is available."))
            }
            Some(_) | None => observe(False, "ManagedClusterAddOnLeaseUpdateStopped")
                .message(format!("{name} add-on is not available.")),
        },
    };
    set_condition(&mut status.conditions, available, now);
    let new = ManagedClusterAddOn { status: Some(status), ..ManagedClusterAddOn::clone(&addon) };
    plan.status = StatusWrite::between(addon.as_ref(), &new);
    Ok(plan)
}
