//! Notices clusters that fall silent: their lease expires, they become unavailable, and a taint keeps placements away.
//!
//! The hub says that a cluster is silent. Only the agent says that it is available.

use jiff::{Timestamp, Unit};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use serde_json::{Map, json};

use api::Condition;
use api::cluster::v1::ManagedCluster;
use api::condition::ConditionStatus::Unknown;
use api::condition::{Conditions as _, Observation, set_condition};
use api::names::cluster_conditions::{AVAILABLE, HUB_ACCEPTED};
use api::names::{CLUSTER_LEASE, CLUSTER_NAME_LABEL};
use engine::registration::lease;
use object::{Key, Metadata as _, Object, ObjectRef};
use reconcile::{Action, Controller, Event, EventType, Plan, Read, StatusWrite, View, Watches};

pub(crate) struct ClusterLeaseController;

impl Controller for ClusterLeaseController {
    const NAME: &'static str = "cluster-lease";
    type Primary = ManagedCluster;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<Lease>(|change, _| {
            let lease = change.latest().filter(|lease| lease.name() == CLUSTER_LEASE);
            lease.map(|lease| Key::cluster(lease.namespace())).into_iter().collect()
        });
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        let mut plan = Plan::nothing();
        let Some(cluster) = view.get::<ManagedCluster>(key)? else { return Ok(plan) };
        let mut new = ManagedCluster::clone(&cluster);
        let conditions = &mut new.status.get_or_insert_default().conditions;
        let is_leaving = cluster.is_terminating();
        match view.get::<Lease>(&Key::namespaced(&key.name, CLUSTER_LEASE))? {
            None if is_leaving => set_silent(&mut plan, &cluster, conditions, now),
            // A cluster gets its lease when it has been accepted or denied.
            None if cluster.condition(HUB_ACCEPTED).is_some() => {
                plan.step([Action::create(Object::from_typed(&new_lease(&key.name, now)))]);
            }
            None => {}
            Some(held) => {
                let renewed = held.spec.as_ref().and_then(|spec| spec.renew_time.as_ref());
                let expires = lease::expires(renewed.map(|time| time.0), cluster.spec.lease_duration_seconds);
                if expires <= now {
                    set_silent(&mut plan, &cluster, conditions, now);
                } else {
                    plan.wake(expires);
                }
            }
        }
        let available = new.condition(AVAILABLE).map(|condition| &condition.status);
        let taints = lease::taints(&cluster.spec.taints, available, now);
        plan.status = StatusWrite::between(cluster.as_ref(), &new);
        // The taint waits until the status is written, so that both are about the same state of the cluster.
        if taints != cluster.spec.taints && !is_leaving && plan.status.is_none() {
            let patch = Map::from_iter([("spec".to_owned(), json!({"taints": taints}))]);
            plan.step([Action::patch(cluster.as_ref(), patch)]);
        }
        Ok(plan)
    }
}

fn new_lease(cluster: &str, now: Timestamp) -> Lease {
    let metadata = ObjectMeta {
        namespace: Some(cluster.into()),
        name: Some(CLUSTER_LEASE.into()),
        labels: Some([(CLUSTER_NAME_LABEL.to_owned(), cluster.to_owned())].into()),
        ..ObjectMeta::default()
    };
    let spec = LeaseSpec {
        holder_identity: Some(CLUSTER_LEASE.into()),
        renew_time: Some(MicroTime(now.round(Unit::Microsecond).unwrap_or(now))),
        ..LeaseSpec::default()
    };
    Lease { metadata, spec: Some(spec) }
}

/// Sets a cluster's availability to Unknown, and records an event when it was something else.
fn set_silent(plan: &mut Plan, cluster: &ManagedCluster, conditions: &mut Vec<Condition>, now: Timestamp) {
    let stopped = Observation::new(AVAILABLE, Unknown, "ManagedClusterLeaseUpdateStopped")
        .message("Registration agent stopped updating its lease.");
    if !set_condition(conditions, stopped, now) {
        return;
    }
    let message = format!(
        "The {} is successfully imported. However, the connection check from the managed cluster to the hub cluster has failed",
        cluster.name()
    );
    plan.events.push(Event {
        regarding: ObjectRef::of::<ManagedCluster>(Key::of(cluster)),
        uid: cluster.uid().to_owned(),
        related: None,
        event_type: EventType::Warning,
        reason: "AvailableUnknown".into(),
        action: "Check".into(),
        message,
    });
}
