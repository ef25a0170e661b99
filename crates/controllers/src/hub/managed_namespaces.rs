//! Writes the namespaces that its cluster sets request on each cluster.
//!
//! The list is in the status of the ManagedCluster, sorted by set and name. The agent creates the namespaces and
//! reports a condition for each, which is kept when the list changes.

use std::sync::Arc;

use jiff::Timestamp;

use api::cluster::v1::{ManagedCluster, ManagedNamespaceStatus};
use api::cluster::v1beta2::{ManagedClusterSet, ManagedNamespace};
use engine::placement::filter::ClusterAttributes;
use engine::placement::sets::SetMembers;
use object::{Key, Metadata as _};
use reconcile::{Controller, Plan, Query, Read, StatusWrite, View, Watches};

pub(crate) struct ManagedNamespacesController;

impl Controller for ManagedNamespacesController {
    const NAME: &'static str = "managed-namespaces";
    type Primary = ManagedCluster;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<ManagedClusterSet>(|change, view| {
            let wants = |set: &&ManagedClusterSet| !set.spec.managed_namespaces.is_empty();
            let sides: Vec<_> = change.sides().filter(wants).map(SetMembers::from_set).collect();
            if sides.is_empty() || !change.differs_in(|set| &set.spec) {
                return Vec::new();
            }
            let is_member = |cluster: &&Arc<ManagedCluster>| {
                let attributes = ClusterAttributes::from_cluster(cluster);
                sides.iter().any(|members| members.contains(&attributes))
            };
            let clusters = view.readable::<ManagedCluster>(Query::ALL);
            clusters.iter().filter(is_member).map(|cluster| Key::of(cluster.as_ref())).collect()
        });
    }

    fn plan(key: &Key, view: &impl View, _: Timestamp) -> Read<Plan> {
        let mut plan = Plan::nothing();
        let Some(cluster) = view.get::<ManagedCluster>(key)?.filter(|cluster| !cluster.is_terminating())
        else {
            return Ok(plan);
        };
        let attributes = ClusterAttributes::from_cluster(&cluster);
        let mut wanted = Vec::new();
        for set in view.list::<ManagedClusterSet>(Query::ALL)? {
            if set.spec.managed_namespaces.is_empty() || !SetMembers::from_set(&set).contains(&attributes) {
                continue;
            }
            wanted.extend(set.spec.managed_namespaces.iter().map(|ManagedNamespace { name, unknown: _ }| {
                ManagedNamespaceStatus {
                    name: name.clone(),
                    cluster_set: set.name().to_owned(),
                    ..ManagedNamespaceStatus::default()
                }
            }));
        }
        wanted.sort_by(|a, b| (&a.cluster_set, &a.name).cmp(&(&b.cluster_set, &b.name)));
        let mut status = cluster.status.clone().unwrap_or_default();
        for namespace in &mut wanted {
            let is_it = |reported: &&ManagedNamespaceStatus| {
                (&reported.cluster_set, &reported.name) == (&namespace.cluster_set, &namespace.name)
            };
            if let Some(reported) = status.managed_namespaces.iter().find(is_it) {
                namespace.conditions.clone_from(&reported.conditions);
            }
        }
        if status.managed_namespaces != wanted {
            status.managed_namespaces = wanted;
            let new = ManagedCluster { status: Some(status), ..ManagedCluster::clone(&cluster) };
            plan.status = StatusWrite::between(cluster.as_ref(), &new);
        }
        Ok(plan)
    }
}

#[cfg(test)]
#[path = "tests/managed_namespaces.rs"]
mod tests;
