//! Renews the lease by which the hub knows that the cluster is alive.

use jiff::{SignedDuration, Timestamp, Unit};
use k8s_openapi::api::coordination::v1::Lease as KubeLease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use api::cluster::v1::ManagedCluster;
use api::condition::find_condition;
use api::names::{CLUSTER_LEASE, cluster_conditions};
use engine::registration::lease;
use object::{Key, Object};
use reconcile::{Action, Controller, Plan, Read, Site, View, Watches};

/// See the [module](self).
pub(crate) struct LeaseController;

impl Controller for LeaseController {
    const NAME: &'static str = "lease";
    type Primary = KubeLease;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<ManagedCluster>(|change, _| {
            let names = change.sides().take(1).filter_map(|cluster| cluster.metadata.name.clone());
            names.map(|name| Key::namespaced(name, CLUSTER_LEASE)).collect()
        });
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        plan(key, view, now)
    }
}

fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
    let mut plan = Plan::nothing();
    if key.name != CLUSTER_LEASE {
        return Ok(plan);
    }
    let Some(cluster) = view.get::<ManagedCluster>(&Key::cluster(&key.namespace))? else { return Ok(plan) };
    let accepted = cluster
        .status
        .as_ref()
        .and_then(|status| find_condition(&status.conditions, cluster_conditions::HUB_ACCEPTED));
    // The hub makes the lease; an agent may only renew it.
    let Some(held) =
        view.get::<KubeLease>(key)?.filter(|_| accepted.is_some_and(|condition| condition.is_true()))
    else {
        return Ok(plan);
    };
    let renewed = held
        .spec
        .as_ref()
        .and_then(|spec| spec.renew_time.as_ref())
        .map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    let period = lease::period(cluster.spec.lease_duration_seconds);
    let due = renewed
        .saturating_add(period.saturating_sub(early(&key.namespace, period)))
        .unwrap_or(Timestamp::MAX);
    if due > now {
        plan.wake(due);
        return Ok(plan);
    }
    let mut new = KubeLease::clone(&held);
    new.spec.get_or_insert_default().renew_time =
        Some(MicroTime(now.round(Unit::Microsecond).unwrap_or(now)));
    plan.step([Action::Replace { site: Site::Hub, object: Object::from_typed(&new) }]);
    plan.wake(
        now.saturating_add(period.saturating_sub(early(&key.namespace, period))).unwrap_or(Timestamp::MAX),
    );
    Ok(plan)
}

/// Up to a quarter of the period by which this cluster renews early, so that a fleet that starts at once does not renew at once.
fn early(cluster: &str, period: SignedDuration) -> SignedDuration {
    let spread =
        cluster.bytes().fold(7_u32, |spread, byte| spread.wrapping_mul(31).wrapping_add(byte.into()));
    SignedDuration::from_millis(i64::from(spread % 250))
        .saturating_mul(i32::try_from(period.as_secs()).unwrap_or(60))
}
