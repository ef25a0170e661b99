//! The sentence about unreadable clusters in conditions.

use api::cluster::v1::ManagedCluster;
use engine::placement::filter::ClusterAttributes;
use engine::placement::sets::SetMembers;
use reconcile::{Query, Read, Unreadable, View};

/// Appends the number of unreadable clusters and the name of the first one to the message of a condition. If there
/// are none, the message is unchanged.
pub(super) fn append(message: &mut String, clusters: &[String]) {
    let [first, ..] = clusters else { return };
    if !message.ends_with('.') {
        message.push('.');
    }
    message.push_str(&format!(" {} of the clusters cannot be read, such as {first}.", clusters.len()));
}

/// Returns the unreadable clusters of sets, sorted by name.
pub(super) fn of_sets(sets: &[SetMembers], view: &impl View) -> Read<Vec<String>> {
    let mut refused = view.unreadable::<ManagedCluster>(Query::ALL)?;
    refused.retain(|refused| {
        let attributes = ClusterAttributes::from_cluster(&metadata(refused));
        sets.iter().any(|set| set.contains(&attributes))
    });
    Ok(refused.iter().map(|refused| refused.key.name.clone()).collect())
}

/// Returns a cluster with the readable parts of an object that does not match its type: its name and labels.
pub(super) fn metadata(refused: &Unreadable) -> ManagedCluster {
    let mut cluster = ManagedCluster::default();
    cluster.metadata.name = Some(refused.key.name.clone());
    cluster.metadata.labels.clone_from(&refused.labels);
    cluster
}
