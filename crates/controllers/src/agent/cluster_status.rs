//! Reports the spoke's status on the hub: joined, availability, version, resources and claims.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::node::Node;
use crate::agent_identity::{self, AgentSettings, ClaimOptions};
use api::Condition;
use api::cluster::v1::{ManagedCluster, ManagedClusterClaim, ManagedClusterStatus};
use api::cluster::v1alpha1::{ClusterClaim, ClusterClaimSpec};
use api::condition::ConditionStatus::{False, True, Unknown};
use api::condition::{Conditions as _, Observation, set_condition};
use api::names::cluster_conditions::{AVAILABLE, CLOCK_SYNCED, HUB_ACCEPTED, JOINED};
use api::names::{CLUSTER_LEASE, RECIPIENT_CLAIM, RESERVED_CLAIMS, SPOKE_ONLY_LABEL};
use engine::registration::lease;
use object::quantity::{self, NANO};
use object::{Key, Metadata as _};
use reconcile::{
    Controller, Event, EventType, Plan, Query, Read, ServerHealth, Site, StatusWrite, View, Watches,
};

pub(crate) struct ClusterStatusController;

impl Controller for ClusterStatusController {
    const NAME: &'static str = "cluster-status";
    type Primary = ManagedCluster;
    const REPORTER: &'static str = "klusterlet-agent";

    fn watches<W: Watches>(watches: &mut W) {
        // The first renewal after missed ones makes the cluster available again.
        watches.on::<Lease>(|change, view| {
            let Some(lease) = change.latest().filter(|lease| lease.name() == CLUSTER_LEASE) else {
                return Vec::new();
            };
            let key = Key::cluster(lease.namespace());
            let is_waiting = view
                .get::<ManagedCluster>(&key)
                .is_ok_and(|cluster| cluster.is_some_and(|cluster| is_unknown(&cluster)));
            if is_waiting { vec![key] } else { Vec::new() }
        });
        watches.on_site::<ClusterClaim>(Site::Spoke, |_, view| own_cluster(view));
        watches.on_site::<Node>(Site::Spoke, |change, view| {
            if change.differs_in(|node| (&node.spec, &node.status)) { own_cluster(view) } else { Vec::new() }
        });
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        let Some(cluster) = view.get::<ManagedCluster>(key)? else { return Ok(Plan::nothing()) };
        let is_ours = agent_identity::identity(view).is_some_and(|identity| identity.cluster == key.name);
        if is_ours && !cluster.holds(HUB_ACCEPTED) {
            let message = format!("Managed cluster {} is not accepted by the hub", key.name);
            let event = event(&cluster, EventType::Normal, "ManagedClusterIsNotAccepted", message);
            return Ok(Plan { events: vec![event], ..Plan::default() });
        }
        // If the hub reports that the spoke's clock is wrong, every time that the agent writes would be wrong.
        let has_wrong_clock = cluster.condition(CLOCK_SYNCED).is_some_and(Condition::is_false);
        if !is_ours || has_wrong_clock {
            return Ok(Plan::nothing());
        }
        let mut status = cluster.status.clone().unwrap_or_default();
        let joined = Observation::new(JOINED, True, "ManagedClusterJoined").message("Managed cluster joined");
        set_condition(&mut status.conditions, joined, now);
        report_resources(&mut status, view)?;
        let mut events = Vec::new();
        // It is reported last, even if no claims are reported.
        status.cluster_claims.retain(|claim| claim.name != RECIPIENT_CLAIM);
        events.extend(report_claims(&mut status, &cluster, view)?);
        status.cluster_claims.extend(recipient(view));
        if !is_silent(&cluster, view, now)? {
            let health = view.health()?;
            if let ServerHealth::Healthy { version } = &health
                && !version.is_empty()
            {
                status.version.kubernetes.clone_from(version);
            }
            let observed = available(health);
            let before = cluster.condition(AVAILABLE).map(|condition| condition.status.clone());
            if before.as_ref() != Some(&observed.status) {
                events.push(availability_event(&cluster, observed.status == True));
            }
            set_condition(&mut status.conditions, observed, now);
        }
        let status = StatusWrite::from_status(cluster.as_ref(), cluster.status.as_ref(), &status);
        Ok(Plan { status, events, ..Plan::default() })
    }
}

/// Returns true if the hub correctly reports the cluster as unknown, because the agent cannot renew its lease. If
/// the agent reported the cluster as available, the hub and the agent would keep overwriting each other's
/// condition.
fn is_silent(cluster: &ManagedCluster, view: &impl View, now: Timestamp) -> Read<bool> {
    if !is_unknown(cluster) {
        return Ok(false);
    }
    let cluster_lease = view.get::<Lease>(&Key::namespaced(cluster.name(), CLUSTER_LEASE))?;
    let renewed = cluster_lease.as_ref().and_then(|lease| lease.spec.as_ref()?.renew_time.as_ref());
    let grace = lease::grace(cluster.spec.lease_duration_seconds);
    Ok(renewed.is_none_or(|renewed| renewed.0.saturating_add(grace).is_ok_and(|until| until <= now)))
}

fn is_unknown(cluster: &ManagedCluster) -> bool {
    cluster.condition(AVAILABLE).is_some_and(|available| available.status == Unknown)
}

/// Returns the condition for the health of the spoke's API server, in OCM's words.
fn available(health: ServerHealth) -> Observation {
    match health {
        ServerHealth::Healthy { version: _ } => Observation::new(AVAILABLE, True, "ManagedClusterAvailable")
            .message("Managed cluster is available"),
        ServerHealth::Unhealthy(reason) => {
            Observation::new(AVAILABLE, False, "ManagedClusterKubeAPIServerUnavailable")
                .message(format!("The kube-apiserver is not ok, {reason}"))
        }
    }
}

/// Returns the event for a change of the availability, with OCM's words and spelling.
fn availability_event(cluster: &ManagedCluster, is_available: bool) -> Event {
    let name = cluster.name();
    let (event_type, reason, message) = if is_available {
        let message = format!(
            "The {name} is successfully imported, and it is managed by the hub cluster. Its apieserver is available"
        );
        (EventType::Normal, "Available", message)
    } else {
        let message =
            format!("The {name} is successfully imported. However, its Kube API server is unavailable");
        (EventType::Warning, "Unavailable", message)
    };
    event(cluster, event_type, reason, message)
}

/// Returns an event in the cluster's namespace, where an agent may write.
fn event(cluster: &ManagedCluster, event_type: EventType, reason: &str, message: String) -> Event {
    Event::new(cluster, event_type, reason, "Report", message).of_cluster()
}

fn own_cluster(view: &impl View) -> Vec<Key> {
    agent_identity::identity(view).into_iter().map(|identity| Key::cluster(identity.cluster)).collect()
}

/// Reports the sums over all nodes. Unschedulable nodes add nothing to allocatable; other capacity resources in
/// the status are kept.
fn report_resources(status: &mut ManagedClusterStatus, view: &impl View) -> Read<()> {
    let nodes = view.list_on::<Node>(Site::Spoke, Query::ALL)?;
    let (mut capacity, mut allocatable) = (BTreeMap::new(), BTreeMap::new());
    for node in &nodes {
        add(&mut capacity, &node.status.capacity);
        if !node.spec.unschedulable {
            add(&mut allocatable, &node.status.allocatable);
        }
    }
    status.capacity.extend(quantities(capacity));
    status.allocatable = quantities(allocatable).collect();
    Ok(())
}

/// Sums by resource, in thousandths.
type Sums = BTreeMap<String, i128>;

fn add(sums: &mut Sums, resources: &BTreeMap<String, Quantity>) {
    for (name, quantity) in resources {
        if let Some(nanos) = quantity::nanos(&quantity.0) {
            let sum = sums.entry(name.clone()).or_default();
            *sum = sum.saturating_add(nanos / (NANO / 1000));
        }
    }
}

fn quantities(sums: Sums) -> impl Iterator<Item = (String, Quantity)> {
    sums.into_iter().map(|(name, milli)| {
        let text = if milli % 1000 == 0 { (milli / 1000).to_string() } else { format!("{milli}m") };
        (name, Quantity(text))
    })
}

/// Returns the claim with the public key for which the hub encrypts Secrets.
fn recipient(view: &impl View) -> Option<ManagedClusterClaim> {
    let settings = view.settings::<AgentSettings>()?;
    let value = settings.sealing.first()?.recipient().to_string();
    Some(ManagedClusterClaim { name: RECIPIENT_CLAIM.into(), value, ..ManagedClusterClaim::default() })
}

/// Reports the reserved claims and, sorted by name, as many other claims as the limit allows. Claims labeled as
/// spoke-only are left out. Returns an event if the limit drops claims and the list has changed.
fn report_claims(
    status: &mut ManagedClusterStatus,
    cluster: &ManagedCluster,
    view: &impl View,
) -> Read<Option<Event>> {
    let ClaimOptions { enabled, max_custom, reserved_suffixes } = agent_identity::claim_options(view);
    if !enabled {
        return Ok(None);
    }
    let mut claims = view.list_on::<ClusterClaim>(Site::Spoke, Query::ALL)?;
    claims.retain(|claim| claim.label(SPOKE_ONLY_LABEL).is_none() && claim.name() != RECIPIENT_CLAIM);
    let is_reserved = |name: &str| {
        RESERVED_CLAIMS.contains(&name) || reserved_suffixes.iter().any(|suffix| name.ends_with(suffix))
    };
    let (reserved, custom): (Vec<_>, Vec<_>) = claims.iter().partition(|claim| is_reserved(claim.name()));
    let (all, hidden) = (custom.len(), custom.len().saturating_sub(max_custom));
    let reported = reserved.into_iter().chain(custom.into_iter().take(max_custom));
    let reported = reported.map(|claim| {
        let ClusterClaimSpec { value, unknown: _ } = claim.spec.clone();
        ManagedClusterClaim { name: claim.name().to_owned(), value, ..ManagedClusterClaim::default() }
    });
    let before = std::mem::replace(&mut status.cluster_claims, reported.collect());
    let message = format!(
        "{all} cluster claims are found. It exceeds the max number of custom cluster claims ({max_custom}). {hidden} custom cluster claims are not exposed."
    );
    let is_new = hidden > 0 && before != status.cluster_claims;
    Ok(is_new.then(|| event(cluster, EventType::Warning, "CustomClusterClaimsTruncated", message)))
}

#[cfg(test)]
#[path = "tests/cluster_status.rs"]
mod tests;
