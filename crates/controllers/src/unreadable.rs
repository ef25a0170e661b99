//! The sentence of conditions about clusters that cannot be read.

use api::cluster::v1::ManagedCluster;
use engine::placement::filter::ClusterAttributes;
use engine::placement::sets::SetMembers;
use reconcile::{Query, Read, Unreadable, View};

/// Appends the number of clusters that cannot be read, and the name of the first one, to the message of a
/// condition. Without such clusters, the message stays as it is.
pub(super) fn append(message: &mut String, clusters: &[String]) {
    let [first, ..] = clusters else { return };
    if !message.ends_with('.') {
        message.push('.');
    }
    message.push_str(&format!(" {} of the clusters cannot be read, such as {first}.", clusters.len()));
}

/// Returns the clusters of sets that cannot be read, in the order of their names.
pub(super) fn of_sets(sets: &[SetMembers], view: &impl View) -> Read<Vec<String>> {
    let mut refused = view.unreadable::<ManagedCluster>(Query::ALL)?;
    refused.retain(|refused| {
        let attributes = ClusterAttributes::of(&metadata(refused));
        sets.iter().any(|set| set.contains(&attributes))
    });
    Ok(refused.iter().map(|refused| refused.key.name.clone()).collect())
}

/// Returns a cluster that has what can be read of one that does not fit its type: its name and its labels.
pub(super) fn metadata(refused: &Unreadable) -> ManagedCluster {
    let mut cluster = ManagedCluster::default();
    cluster.metadata.name = Some(refused.key.name.clone());
    cluster.metadata.labels.clone_from(&refused.labels);
    cluster
}
