//! Reports the spoke on the hub: that the cluster has joined and is available, its version, resources and
//! claims.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::agent_identity;
use api::Condition;
use api::cluster::v1::{ManagedCluster, ManagedClusterClaim, ManagedClusterStatus};
use api::cluster::v1alpha1::ClusterClaim;
use api::condition::ConditionStatus::{False, True, Unknown};
use api::condition::{Conditions as _, Observation, set_condition};
use api::names::cluster_conditions::{AVAILABLE, CLOCK_SYNCED, HUB_ACCEPTED, JOINED};
use api::names::{CLUSTER_LEASE, KUBERNETES_VERSION_CLAIM, RESERVED_CLAIMS, SPOKE_ONLY_LABEL};
use engine::registration::lease;
use object::quantity::{self, NANO};
use object::{Key, Metadata as _};
use reconcile::{Controller, Plan, Query, Read, ServerHealth, Site, StatusWrite, View, Watches};

/// Limit of the reported claims beside the reserved ones.
const MAX_CLAIMS: usize = 20;

pub(crate) struct ClusterStatusController;

impl Controller for ClusterStatusController {
    const NAME: &'static str = "cluster-status";
    type Primary = ManagedCluster;

    fn watches<W: Watches>(watches: &mut W) {
        // The first renewal after missed ones makes the cluster available again.
        watches.on::<Lease>(|change, view| {
            let Some(lease) = change.latest().filter(|lease| lease.name() == CLUSTER_LEASE) else {
                return Vec::new();
            };
            let key = Key::cluster(lease.namespace());
            let is_waiting =
                view.get::<ManagedCluster>(&key).is_ok_and(|held| held.is_some_and(|held| is_unknown(&held)));
            if is_waiting { vec![key] } else { Vec::new() }
        });
        watches.on_site::<ClusterClaim>(Site::Spoke, |_, view| own_cluster(view));
        watches.on_site::<Node>(Site::Spoke, |change, view| {
            let fields = |node: &Node| {
                let status = node.status.clone().unwrap_or_default();
                (node.spec.clone(), status.capacity, status.allocatable)
            };
            if change.differs_in(fields) { own_cluster(view) } else { Vec::new() }
        });
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        let Some(cluster) = view.get::<ManagedCluster>(key)? else { return Ok(Plan::nothing()) };
        let is_ours = agent_identity::identity(view)?.is_some_and(|identity| identity.cluster == key.name);
        // The hub reports that the spoke's clock is wrong. Then every time that the agent writes would be
        // wrong.
        let has_wrong_clock = cluster.condition(CLOCK_SYNCED).is_some_and(Condition::is_false);
        if !is_ours || !cluster.holds(HUB_ACCEPTED) || has_wrong_clock {
            return Ok(Plan::nothing());
        }
        let mut status = cluster.status.clone().unwrap_or_default();
        let joined = Observation::new(JOINED, True, "ManagedClusterJoined").message("Managed cluster joined");
        set_condition(&mut status.conditions, joined, now);
        report_resources(&mut status, view)?;
        report_claims(&mut status, view)?;
        if !is_silent(&cluster, view, now)? {
            set_condition(&mut status.conditions, available(view.health()?), now);
        }
        let new = ManagedCluster { status: Some(status), ..ManagedCluster::clone(&cluster) };
        Ok(Plan { status: StatusWrite::between(cluster.as_ref(), &new), ..Plan::default() })
    }
}

/// Whether the hub reports the cluster as unknown with good reason: the agent cannot renew its lease. If the
/// agent then reported the cluster as available, hub and agent would overwrite each other's condition
/// without end.
fn is_silent(cluster: &ManagedCluster, view: &impl View, now: Timestamp) -> Read<bool> {
    if !is_unknown(cluster) {
        return Ok(false);
    }
    let held = view.get::<Lease>(&Key::namespaced(cluster.name(), CLUSTER_LEASE))?;
    let renewed = held.as_ref().and_then(|held| held.spec.as_ref()?.renew_time.as_ref());
    let grace = lease::grace(cluster.spec.lease_duration_seconds);
    Ok(renewed.is_none_or(|renewed| renewed.0.saturating_add(grace).is_ok_and(|until| until <= now)))
}

fn is_unknown(cluster: &ManagedCluster) -> bool {
    cluster.condition(AVAILABLE).is_some_and(|available| available.status == Unknown)
}

/// The condition for a health of the spoke's API server, in OCM's words.
fn available(health: ServerHealth) -> Observation {
    match health {
        ServerHealth::Healthy => Observation::new(AVAILABLE, True, "ManagedClusterAvailable")
            .message("Managed cluster is available"),
        ServerHealth::Unhealthy(why) => {
            Observation::new(AVAILABLE, False, "ManagedClusterKubeAPIServerUnavailable")
                .message(format!("The kube-apiserver is not ok, {why}"))
        }
    }
}

fn own_cluster(view: &impl View) -> Vec<Key> {
    let identity = agent_identity::identity(view).ok().flatten();
    identity.into_iter().map(|identity| Key::cluster(identity.cluster)).collect()
}

/// Reports the sums over all nodes. Unschedulable nodes add nothing to allocatable; the status keeps other
/// resources of the capacity.
fn report_resources(status: &mut ManagedClusterStatus, view: &impl View) -> Read<()> {
    let nodes = view.list_on::<Node>(Site::Spoke, Query::ALL)?;
    let (mut capacity, mut allocatable) = (BTreeMap::new(), BTreeMap::new());
    for node in &nodes {
        let Some(reported) = &node.status else { continue };
        add(&mut capacity, reported.capacity.as_ref());
        let is_unschedulable = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or_default();
        if !is_unschedulable {
            add(&mut allocatable, reported.allocatable.as_ref());
        }
    }
    status.capacity.extend(quantities(capacity));
    status.allocatable = quantities(allocatable).collect();
    Ok(())
}

/// Sums by resource, in thousandths.
type Sums = BTreeMap<String, i128>;

fn add(sums: &mut Sums, resources: Option<&BTreeMap<String, Quantity>>) {
    for (name, quantity) in resources.into_iter().flatten() {
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

/// Reports the reserved claims, and as many of the others as are allowed, by name. Claims that stay on the
/// spoke are left out.
fn report_claims(status: &mut ManagedClusterStatus, view: &impl View) -> Read<()> {
    let mut claims = view.list_on::<ClusterClaim>(Site::Spoke, Query::ALL)?;
    claims.retain(|claim| claim.label(SPOKE_ONLY_LABEL).is_none());
    let (reserved, custom): (Vec<_>, Vec<_>) =
        claims.iter().partition(|claim| RESERVED_CLAIMS.contains(&claim.name()));
    let reported = reserved.into_iter().chain(custom.into_iter().take(MAX_CLAIMS));
    let reported = reported.map(|claim| ManagedClusterClaim {
        name: claim.name().to_owned(),
        value: claim.spec.value.clone(),
        ..ManagedClusterClaim::default()
    });
    status.cluster_claims = reported.collect();
    let version = status.cluster_claims.iter().find(|claim| claim.name == KUBERNETES_VERSION_CLAIM);
    if let Some(version) = version {
        status.version.kubernetes.clone_from(&version.value);
    }
    Ok(())
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_add_up() {
        let mut sums = Sums::new();
        for text in ["2", "1500m", "1.5", "x", "1Ki"] {
            add(&mut sums, Some(&[("cpu".to_owned(), Quantity(text.into()))].into()));
        }
        let total: Vec<_> = quantities(sums).collect();
        assert_eq!(total, [("cpu".to_owned(), Quantity("1029".into()))]);
    }
}
