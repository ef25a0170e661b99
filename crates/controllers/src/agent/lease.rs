//! Renews the lease that shows the hub that the cluster is alive.

use jiff::{Timestamp, Unit};
use k8s_openapi::api::coordination::v1::Lease as KubeLease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use api::cluster::v1::ManagedCluster;
use api::condition::Conditions as _;
use api::names::{CLUSTER_LEASE, cluster_conditions};
use engine::registration::lease;
use object::duration::{later, spread};
use object::{Key, Metadata as _, Object};
use reconcile::{Action, Controller, Plan, Read, Site, View, Watches};

pub(crate) struct LeaseController;

impl Controller for LeaseController {
    const NAME: &'static str = "lease";
    type Primary = KubeLease;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<ManagedCluster>(|change, _| {
            let lease = |cluster: &ManagedCluster| Key::namespaced(cluster.name(), CLUSTER_LEASE);
            change.latest().map(lease).into_iter().collect()
        });
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        let mut plan = Plan::nothing();
        if key.name != CLUSTER_LEASE {
            return Ok(plan);
        }
        let cluster = view.get::<ManagedCluster>(&Key::cluster(&key.namespace))?;
        let Some(cluster) = cluster.filter(|cluster| cluster.holds(cluster_conditions::HUB_ACCEPTED)) else {
            return Ok(plan);
        };
        // The hub creates the lease; agents may only renew it.
        let Some(live) = view.get::<KubeLease>(key)? else { return Ok(plan) };
        let renewed = live
            .spec
            .as_ref()
            .and_then(|spec| spec.renew_time.as_ref())
            .map_or(Timestamp::UNIX_EPOCH, |time| time.0);
        let period = lease::period(cluster.spec.lease_duration_seconds);
        // Renewals are spread over a quarter of the period, in case a whole fleet starts at once.
        let wait = period.saturating_sub(spread(&key.namespace, period / 4));
        let due = later(renewed, wait);
        // A time in the future comes from a clock that was ahead; ignore it.
        if due > now && renewed <= now {
            plan.wake(due);
            return Ok(plan);
        }
        let mut new = KubeLease::clone(&live);
        let time = MicroTime(now.round(Unit::Microsecond).unwrap_or(now));
        new.spec.get_or_insert_default().renew_time = Some(time);
        plan.step([Action::Replace { site: Site::Hub, object: Object::from_typed(&new) }]);
        plan.wake(later(now, wait));
        Ok(plan)
    }
}
