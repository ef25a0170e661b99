//! Clusters and cluster sets as trees.

use super::shown::condition;
use crate::cli::CommandError;
use crate::cli::tree::Tree;
use crate::cli::writer::list;
use api::cluster::v1::{ManagedCluster, Taint};
use api::cluster::v1beta2::{ManagedClusterSet, ManagedClusterSetBinding};
use api::condition::Conditions as _;
use api::names::CLUSTER_SET_LABEL;
use api::names::cluster_conditions::{AVAILABLE, CLOCK_SYNCED, HUB_ACCEPTED, JOINED, SET_EMPTY};
use engine::placement::filter::ClusterAttributes;
use engine::placement::sets::SetMembers;
use object::Metadata as _;

pub(super) async fn clusters(
    _: &kube::Client,
    clusters: &[ManagedCluster],
) -> Result<Vec<Tree>, CommandError> {
    Ok(clusters.iter().map(cluster).collect())
}

fn cluster(cluster: &ManagedCluster) -> Tree {
    let conditions = cluster.conditions();
    let status = cluster.status.clone().unwrap_or_default();
    let taints: Vec<String> = cluster.spec.taints.iter().map(Taint::to_string).collect();
    let capacity =
        |name: &str| status.capacity.get(name).map(|quantity| quantity.0.as_str()).unwrap_or_default();
    let mut fields = vec![
        condition("Accepted", conditions, HUB_ACCEPTED, true),
        condition("Joined", conditions, JOINED, true),
        condition("Available", conditions, AVAILABLE, true),
    ];
    if conditions.iter().any(|condition| condition.type_ == CLOCK_SYNCED && !condition.is_true()) {
        fields.push(condition("ClockSynced", conditions, CLOCK_SYNCED, true));
    }
    fields.push(Tree::field("ClusterSet", cluster.label(CLUSTER_SET_LABEL).unwrap_or_default()));
    fields.push(Tree::field("Taints", &taints.join(" ")));
    fields.push(Tree::field("KubernetesVersion", &status.version.kubernetes));
    fields.push(Tree::new("Capacity").with(["cpu", "memory"].map(|name| Tree::field(name, capacity(name)))));
    Tree::new(cluster.name()).with(fields)
}

pub(super) async fn sets(
    client: &kube::Client,
    sets: &[ManagedClusterSet],
) -> Result<Vec<Tree>, CommandError> {
    let bindings = list::<ManagedClusterSetBinding>(client, "", "").await?;
    let clusters = list::<ManagedCluster>(client, "", "").await?;
    Ok(sets.iter().map(|set| self::set(set, &bindings, &clusters)).collect())
}

fn set(set: &ManagedClusterSet, bindings: &[ManagedClusterSetBinding], clusters: &[ManagedCluster]) -> Tree {
    let name = set.name();
    let bound = bindings.iter().filter(|binding| binding.name() == name);
    let bound: Vec<&str> = bound.map(|binding| binding.namespace()).collect();
    let chosen = SetMembers::of(set);
    let members = clusters.iter().filter(|cluster| chosen.contains(&ClusterAttributes::of(cluster)));
    let members: Vec<&str> = members.map(|cluster| cluster.name()).collect();
    Tree::new(name).with([
        Tree::field("BoundNamespace", &bound.join(",")),
        condition("Empty", set.conditions(), SET_EMPTY, false),
        Tree::field("Clusters", &members.join(",")),
    ])
}
