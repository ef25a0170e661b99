//! Reports the spoke on the hub: that it has joined and is well, what it runs, what it has, what it says of itself.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::agent_identity;
use api::cluster::v1::{ManagedCluster, ManagedClusterClaim, ManagedClusterStatus};
use api::cluster::v1alpha1::ClusterClaim;
use api::condition::ConditionStatus::{self, False, True};
use api::condition::{Observation, find_condition, set_condition};
use api::names::{KUBERNETES_VERSION_CLAIM, RESERVED_CLAIMS, SPOKE_ONLY_LABEL, cluster_conditions};
use object::Key;
use object::quantity::{self, NANO};
use reconcile::{Controller, Plan, Query, Read, Site, StatusWrite, View, Watches};

/// Custom claims that are told to the hub, at most.
const MAX_CLAIMS: usize = 20;

/// See the [module](self).
pub(crate) struct ClusterStatusController;

impl Controller for ClusterStatusController {
    const NAME: &'static str = "cluster-status";
    type Primary = ManagedCluster;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on_site::<ClusterClaim>(Site::Spoke, |_, view| own(view));
        watches.on_site::<Node>(Site::Spoke, |change, view| {
            let facts = |node: &Node| {
                (node.spec.clone(), node.status.as_ref().map(|s| (s.capacity.clone(), s.allocatable.clone())))
            };
            let same =
                matches!((&change.old, &change.new), (Some(old), Some(new)) if facts(old) == facts(new));
            if same { Vec::new() } else { own(view) }
        });
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        plan(key, view, now)
    }
}

fn own(view: &impl View) -> Vec<Key> {
    let identity = agent_identity::identity(view).ok().flatten();
    identity.into_iter().map(|identity| Key::cluster(identity.cluster)).collect()
}

fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
    let Some(cluster) = view.get::<ManagedCluster>(key)? else { return Ok(Plan::nothing()) };
    let mut status = cluster.status.clone().unwrap_or_default();
    let is = |type_: &str, value: ConditionStatus| {
        find_condition(&status.conditions, type_).is_some_and(|condition| condition.status == value)
    };
    let is_ours = agent_identity::identity(view)?.is_some_and(|identity| identity.cluster == key.name);
    // A clock that is off would make every time below a lie; the hub says so.
    if !is_ours || !is(cluster_conditions::HUB_ACCEPTED, True) || is(cluster_conditions::CLOCK_SYNCED, False)
    {
        return Ok(Plan::nothing());
    }
    let joined = Observation::new(cluster_conditions::JOINED, True, "ManagedClusterJoined")
        .message("Managed cluster joined");
    set_condition(&mut status.conditions, joined, now);
    // Everything below was read from the spoke's API server: it answers.
    resources(&mut status, view)?;
    claims(&mut status, view)?;
    let available = Observation::new(cluster_conditions::AVAILABLE, True, "ManagedClusterAvailable")
        .message("Managed cluster is available");
    set_condition(&mut status.conditions, available, now);
    let new = ManagedCluster { status: Some(status), ..ManagedCluster::clone(&cluster) };
    Ok(Plan { status: StatusWrite::between(cluster.as_ref(), &new), ..Plan::default() })
}

/// The sums over all nodes; allocatable without those that take no pods. What somebody else reports of other resources stays.
fn resources(status: &mut ManagedClusterStatus, view: &impl View) -> Read<()> {
    let nodes = view.list_on::<Node>(Site::Spoke, Query::ALL)?;
    let (mut capacity, mut allocatable) = (BTreeMap::new(), BTreeMap::new());
    for node in &nodes {
        let Some(reported) = &node.status else { continue };
        add(&mut capacity, reported.capacity.as_ref());
        if !node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or_default() {
            add(&mut allocatable, reported.allocatable.as_ref());
        }
    }
    status.capacity.extend(written(capacity));
    status.allocatable = written(allocatable).collect();
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

fn written(sums: Sums) -> impl Iterator<Item = (String, Quantity)> {
    sums.into_iter().map(|(name, milli)| {
        let text = if milli % 1000 == 0 { (milli / 1000).to_string() } else { format!("{milli}m") };
        (name, Quantity(text))
    })
}

/// Reserved claims first, then the others by name, as many as are told; those that stay on the spoke are left out.
fn claims(status: &mut ManagedClusterStatus, view: &impl View) -> Read<()> {
    let mut all = view.list_on::<ClusterClaim>(Site::Spoke, Query::ALL)?;
    all.retain(|claim| {
        !claim.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(SPOKE_ONLY_LABEL))
    });
    let name = |claim: &ClusterClaim| claim.metadata.name.clone().unwrap_or_default();
    let (reserved, custom): (Vec<_>, Vec<_>) =
        all.iter().partition(|claim| RESERVED_CLAIMS.contains(&name(claim).as_str()));
    let told = reserved.into_iter().chain(custom.into_iter().take(MAX_CLAIMS));
    let claim = |claim: &std::sync::Arc<ClusterClaim>| ManagedClusterClaim {
        name: name(claim),
        value: claim.spec.value.clone(),
        ..ManagedClusterClaim::default()
    };
    status.cluster_claims = told.map(claim).collect();
    if let Some(version) = status.cluster_claims.iter().find(|claim| claim.name == KUBERNETES_VERSION_CLAIM) {
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
        let total: Vec<_> = written(sums).collect();
        assert_eq!(total, [("cpu".to_owned(), Quantity("1029".into()))]);
    }
}
