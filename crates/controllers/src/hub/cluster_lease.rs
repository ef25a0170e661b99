//! Detects unreachable clusters: when the lease of a cluster expires, the cluster's availability becomes unknown,
//! and a taint keeps placements away.
//!
//! The hub sets the conditions for an unreachable cluster and for a wrong clock; only the agent reports that the
//! cluster is available. A cluster is unreachable if the hub, by its own clock, sees no change of the lease; see
//! [`Liveness`].

use std::collections::BTreeMap;

use jiff::{Timestamp, Unit};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use serde_json::{Map, json};

use api::Condition;
use api::cluster::v1::{ManagedCluster, Taint};
use api::condition::ConditionStatus::{False, True, Unknown};
use api::condition::{Conditions as _, Observation, set_condition};
use api::names::cluster_conditions::{AVAILABLE, CLOCK_SYNCED, HUB_ACCEPTED};
use api::names::{ACCEPT_FAILED, CLUSTER_LEASE, CLUSTER_NAME_LABEL, SKIP_CLOCK_SYNC_ANNOTATION};
use engine::registration::lease;
use engine::registration::liveness::{Heartbeat, Liveness};
use object::{Key, Metadata as _, Object};
use reconcile::{
    Action, Change, Controller, Event, EventType, Index, Observes, Plan, Read, StatusWrite, View, Watches,
};

pub(crate) struct ClusterLeaseController;

/// The liveness of each cluster, observed since the process started.
#[derive(Default)]
struct ClusterLiveness(BTreeMap<String, Liveness>);

impl Index for ClusterLiveness {
    fn build(_: &impl View) -> Read<Self> {
        Ok(Self::default())
    }

    fn observes<O: Observes<Self>>(observes: &mut O) {
        observes.on::<ManagedCluster>(|index, change| {
            if let Change { old: Some(old), new: None } = change {
                index.0.remove(old.name());
            }
            Vec::new()
        });
    }
}

impl ClusterLiveness {
    fn observe(&mut self, cluster: &ManagedCluster, lease: &Lease, now: Timestamp) -> Liveness {
        let renewed = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref());
        let available = cluster.condition(AVAILABLE).filter(|condition| condition.status != Unknown);
        let heartbeat = Heartbeat {
            renewed: renewed.map(|time| time.0),
            reported: available.map(|condition| (condition.status.clone(), condition.last_transition_time.0)),
        };
        let known = self.0.entry(cluster.name().to_owned());
        let liveness = known.or_insert_with(|| Liveness::begin(heartbeat.clone(), now));
        liveness.observe(heartbeat, cluster.spec.lease_duration_seconds, now);
        liveness.clone()
    }
}

impl Controller for ClusterLeaseController {
    const NAME: &'static str = "cluster-lease";
    type Primary = ManagedCluster;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<Lease>(|change, _| {
            let lease = change.latest().filter(|lease| lease.name() == CLUSTER_LEASE);
            lease.map(|lease| Key::cluster(lease.namespace())).into_iter().collect()
        });
        watches.keep::<ClusterLiveness>();
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        let mut plan = Plan::nothing();
        let Some(cluster) = view.get::<ManagedCluster>(key)? else { return Ok(plan) };
        let mut new = ManagedCluster::clone(&cluster);
        let conditions = &mut new.status.get_or_insert_default().conditions;
        let is_leaving = cluster.is_terminating();
        match view.get::<Lease>(&Key::namespaced(&key.name, CLUSTER_LEASE))? {
            None if is_leaving => set_silent(&mut plan, &cluster, conditions, now),
            // A cluster gets its lease once it has been accepted or denied.
            None if cluster.condition(HUB_ACCEPTED).is_some_and(|one| one.reason != ACCEPT_FAILED) => {
                plan.step([Action::create(Object::from_typed(&new_lease(&key.name, now)))]);
            }
            None => {}
            Some(existing) => {
                let liveness =
                    view.index(|index: &mut ClusterLiveness| index.observe(&cluster, &existing, now))?;
                let period = cluster.spec.lease_duration_seconds;
                if liveness.expires(period) <= now {
                    set_silent(&mut plan, &cluster, conditions, now);
                } else {
                    plan.wake(liveness.next_check(period));
                }
                set_clock_synced(&cluster, &liveness, conditions, now);
            }
        }
        let available = new.condition(AVAILABLE).map(|condition| &condition.status);
        let taints = lease::taints(&cluster.spec.taints, available, now);
        plan.status = StatusWrite::between(cluster.as_ref(), &new);
        // The taint waits for the status, so that both describe the same state of the cluster.
        if taints != cluster.spec.taints && !is_leaving && plan.status.is_none() {
            let patch = Map::from_iter([("spec".to_owned(), json!({"taints": taints}))]);
            plan.step([Action::patch(cluster.as_ref(), patch)]);
            plan.events.push(taints_event(&cluster, &taints));
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

/// Sets a cluster's availability to Unknown, and records an event if it changed.
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
    let event = Event::new(cluster, EventType::Warning, "AvailableUnknown", "Check", message);
    plan.events.push(event.of_cluster());
}

/// Returns the event for new taints.
fn taints_event(cluster: &ManagedCluster, taints: &[Taint]) -> Event {
    let taints: Vec<String> = taints.iter().map(Taint::to_string).collect();
    let message = format!("Update the original taints to the [{}]", taints.join(" "));
    let reason = "ManagedClusterConditionAvailableUpdated";
    Event::new(cluster, EventType::Normal, reason, "Taint", message).of_cluster()
}

/// Sets the condition for the clock of a cluster, in OCM's words. While the clock is wrong, agents report no
/// status, because every time that they write would be wrong.
fn set_clock_synced(
    cluster: &ManagedCluster,
    liveness: &Liveness,
    conditions: &mut Vec<Condition>,
    now: Timestamp,
) {
    let is_skipped = cluster.annotation(SKIP_CLOCK_SYNC_ANNOTATION).is_some_and(|skip| skip == "true");
    let judged = liveness.is_clock_synced(cluster.spec.lease_duration_seconds);
    let Some(is_synced) = judged.or(is_skipped.then_some(true)) else { return };
    let is_synced = is_synced || is_skipped;
    let observation = if is_synced {
        Observation::new(CLOCK_SYNCED, True, "ManagedClusterClockSynced")
            .message("The clock of the managed cluster is synced with the hub.")
    } else {
        Observation::new(CLOCK_SYNCED, False, "ManagedClusterClockOutOfSync").message(
            "The clock of hub and agent is out of sync. This may cause the Unknown status and affect agent functionalities.",
        )
    };
    set_condition(conditions, observation, now);
}
