//! Watches whether clusters are alive: their lease, their availability, the taints that follow from it.
//!
//! The hub says when a cluster has fallen silent; that it is back is for its agent to say.

use jiff::{Timestamp, Unit};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use serde_json::{Map, json};

use api::cluster::v1::ManagedCluster;
use api::condition::ConditionStatus::Unknown;
use api::condition::{Observation, find_condition, set_condition};
use api::names::{CLUSTER_LEASE, CLUSTER_NAME_LABEL, cluster_conditions};
use engine::registration::lease;
use object::{Key, Object, ObjectRef};
use reconcile::{Action, Controller, Note, NoteType, Plan, Read, StatusWrite, View, Watches};

/// See the [module](self).
pub(crate) struct ClusterLeaseController;

impl Controller for ClusterLeaseController {
    const NAME: &'static str = "cluster-lease";
    type Primary = ManagedCluster;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<Lease>(|change, _| {
            let ours =
                change.sides().take(1).filter(|lease| lease.metadata.name.as_deref() == Some(CLUSTER_LEASE));
            ours.filter_map(|lease| lease.metadata.namespace.clone()).map(Key::cluster).collect()
        });
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        plan(key, view, now)
    }
}

fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
    let mut plan = Plan::nothing();
    let Some(cluster) = view.get::<ManagedCluster>(key)? else { return Ok(plan) };
    let mut new = ManagedCluster::clone(&cluster);
    let conditions = &mut new.status.get_or_insert_default().conditions;
    let leaving = cluster.metadata.deletion_timestamp.is_some();
    let is_told = find_condition(conditions, cluster_conditions::HUB_ACCEPTED).is_some();
    let held = view.get::<Lease>(&Key::namespaced(&key.name, CLUSTER_LEASE))?;
    match held {
        None if is_told && !leaving => {
            plan.step([Action::create(Object::from_typed(&new_lease(&key.name, now)))])
        }
        None if leaving => silence(&mut plan, &cluster, conditions, now),
        None => {}
        Some(held) => {
            let renewed = held.spec.as_ref().and_then(|spec| spec.renew_time.as_ref()).map(|time| time.0);
            let expires = lease::expires(renewed, cluster.spec.lease_duration_seconds);
            if expires <= now {
                silence(&mut plan, &cluster, conditions, now);
            } else {
                plan.wake(expires);
            }
        }
    }
    let available =
        find_condition(conditions, cluster_conditions::AVAILABLE).map(|condition| condition.status.clone());
    let taints = lease::taints(&cluster.spec.taints, available.as_ref(), now);
    plan.status = StatusWrite::between(cluster.as_ref(), &new);
    // The taint follows what has been written, so that both are about the same state of the cluster.
    if taints != cluster.spec.taints && !leaving && plan.status.is_none() {
        plan.step([Action::patch(
            cluster.as_ref(),
            Map::from_iter([("spec".to_owned(), json!({"taints": taints}))]),
        )]);
    }
    Ok(plan)
}

fn new_lease(cluster: &str, now: Timestamp) -> Lease {
    let metadata = ObjectMeta {
        namespace: Some(cluster.into()),
        name: Some(CLUSTER_LEASE.into()),
        labels: Some([(CLUSTER_NAME_LABEL.to_owned(), cluster.to_owned())].into()),
        ..ObjectMeta::default()
    };
    let renew_time = Some(MicroTime(now.round(Unit::Microsecond).unwrap_or(now)));
    Lease {
        metadata,
        spec: Some(LeaseSpec {
            holder_identity: Some(CLUSTER_LEASE.into()),
            renew_time,
            ..LeaseSpec::default()
        }),
    }
}

fn silence(plan: &mut Plan, cluster: &ManagedCluster, conditions: &mut Vec<api::Condition>, now: Timestamp) {
    let name = cluster.metadata.name.clone().unwrap_or_default();
    let message = "Registration agent stopped updating its lease.";
    let stopped =
        Observation::new(cluster_conditions::AVAILABLE, Unknown, "ManagedClusterLeaseUpdateStopped")
            .message(message);
    if set_condition(conditions, stopped, now) {
        plan.notes.push(Note {
            regarding: ObjectRef::of::<ManagedCluster>(Key::cluster(&name)),
            uid: cluster.metadata.uid.clone().unwrap_or_default(),
            related: None,
            note_type: NoteType::Warning,
            reason: "AvailableUnknown".into(),
            action: "Check".into(),
            message: format!(
                "The {name} is successfully imported. However, the connection check from the managed cluster to the hub cluster has failed"
            ),
        });
    }
}
