//! Clusters and cluster sets as tables or as trees.

use super::shown::{Rows, condition, object_age, status};
use crate::cli::CommandError;
use crate::cli::tree::Tree;
use crate::cli::writer::list;
use api::cluster::v1::{ManagedCluster, Taint};
use api::cluster::v1beta2::{ManagedClusterSet, ManagedClusterSetBinding};
use api::condition::Conditions as _;
use api::names::GLOBAL_CLUSTER_SET;
use api::names::cluster_conditions::{AVAILABLE, CLOCK_SYNCED, HUB_ACCEPTED, JOINED, SET_EMPTY};
use engine::placement::filter::ClusterAttributes;
use engine::placement::sets::SetMembers;
use object::Metadata as _;

pub(super) async fn rows(
    client: &kube::Client,
    clusters: &[ManagedCluster],
) -> Result<Rows<6>, CommandError> {
    let sets = list::<ManagedClusterSet>(client, "", "").await?;
    let line = |cluster: &ManagedCluster| {
        let conditions = cluster.conditions();
        let version = cluster.status.as_ref().map(|status| status.version.kubernetes.clone());
        let or_dash = |text: String| if text.is_empty() { "-".into() } else { text };
        [
            cluster.name().to_owned(),
            status(conditions, HUB_ACCEPTED),
            status(conditions, AVAILABLE),
            or_dash(sets_of(cluster, &sets)),
            or_dash(version.unwrap_or_default()),
            object_age(cluster),
        ]
    };
    Ok(Rows {
        titles: ["NAME", "ACCEPTED", "AVAILABLE", "CLUSTERSETS", "VERSION", "AGE"],
        lines: clusters.iter().map(line).collect(),
    })
}

/// Returns the names of the sets that contain a cluster, except for the global set.
fn sets_of(cluster: &ManagedCluster, sets: &[ManagedClusterSet]) -> String {
    let attributes = ClusterAttributes::from_cluster(cluster);
    let own = sets
        .iter()
        .filter(|set| set.name() != GLOBAL_CLUSTER_SET && SetMembers::from_set(set).contains(&attributes));
    own.map(|set| set.name()).collect::<Vec<_>>().join(",")
}

pub(super) async fn clusters(
    client: &kube::Client,
    clusters: &[ManagedCluster],
) -> Result<Vec<Tree>, CommandError> {
    let sets = list::<ManagedClusterSet>(client, "", "").await?;
    Ok(clusters.iter().map(|cluster| self::cluster(cluster, &sets)).collect())
}

fn cluster(cluster: &ManagedCluster, sets: &[ManagedClusterSet]) -> Tree {
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
    fields.push(Tree::field("ClusterSet", &sets_of(cluster, sets)));
    fields.push(Tree::field("Taints", &taints.join(" ")));
    fields.push(Tree::field("KubernetesVersion", &status.version.kubernetes));
    fields.push(Tree::new("Capacity").with(["cpu", "memory"].map(|name| Tree::field(name, capacity(name)))));
    Tree::new(cluster.name()).with(fields)
}

pub(super) async fn set_rows(
    client: &kube::Client,
    sets: &[ManagedClusterSet],
) -> Result<Rows<4>, CommandError> {
    let bindings = list::<ManagedClusterSetBinding>(client, "", "").await?;
    let clusters = list::<ManagedCluster>(client, "", "").await?;
    let line = |set: &ManagedClusterSet| {
        let SetUse { bound, members } = SetUse::new(set, &bindings, &clusters);
        let bound = if bound.is_empty() { "-".to_owned() } else { bound.join(",") };
        [set.name().to_owned(), members.len().to_string(), bound, object_age(set)]
    };
    Ok(Rows {
        titles: ["NAME", "CLUSTERS", "BOUND NAMESPACES", "AGE"],
        lines: sets.iter().map(line).collect(),
    })
}

pub(super) async fn sets(
    client: &kube::Client,
    sets: &[ManagedClusterSet],
) -> Result<Vec<Tree>, CommandError> {
    let bindings = list::<ManagedClusterSetBinding>(client, "", "").await?;
    let clusters = list::<ManagedCluster>(client, "", "").await?;
    Ok(sets.iter().map(|set| self::set(set, &bindings, &clusters)).collect())
}

/// The namespaces that a set is bound to, and its clusters.
struct SetUse<'a> {
    bound: Vec<&'a str>,
    members: Vec<&'a str>,
}

impl<'a> SetUse<'a> {
    fn new(
        set: &ManagedClusterSet,
        bindings: &'a [ManagedClusterSetBinding],
        clusters: &'a [ManagedCluster],
    ) -> Self {
        let bound = bindings.iter().filter(|binding| binding.name() == set.name());
        let chosen = SetMembers::from_set(set);
        let members =
            clusters.iter().filter(|cluster| chosen.contains(&ClusterAttributes::from_cluster(cluster)));
        Self {
            bound: bound.map(|binding| binding.namespace()).collect(),
            members: members.map(|cluster| cluster.name()).collect(),
        }
    }
}

fn set(set: &ManagedClusterSet, bindings: &[ManagedClusterSetBinding], clusters: &[ManagedCluster]) -> Tree {
    let SetUse { bound, members } = SetUse::new(set, bindings, clusters);
    Tree::new(set.name()).with([
        Tree::field("BoundNamespace", &bound.join(",")),
        condition("Empty", set.conditions(), SET_EMPTY, false),
        Tree::field("Clusters", &members.join(",")),
    ])
}
