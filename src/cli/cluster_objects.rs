//! The objects about one cluster, for the dashboard.

use std::sync::Arc;

use crate::dashboard::ClusterObjects;
use api::cluster::v1::ManagedCluster;
use api::cluster::v1beta2::ManagedClusterSet;
use engine::placement::filter::ClusterAttributes;
use engine::placement::sets::SetMembers;
use object::Key;
use reconcile::{Query, Read, View};

/// Reads the objects of a cluster. Unreadable add-ons and works are left out.
///
/// # Errors
/// Fails if a kind has not been read completely.
pub(crate) fn cluster_objects(name: &str, view: &impl View) -> Read<ClusterObjects> {
    let cluster = match view.get(&Key::cluster(name)) {
        Err(error) if error.is_unreadable() => Some(Err(error.to_string())),
        read => read?.map(Ok),
    };
    let sets = match &cluster {
        Some(Ok(cluster)) => sets(cluster, view)?,
        _ => Vec::new(),
    };
    let within = Query::namespace(name);
    Ok(ClusterObjects {
        cluster,
        sets,
        add_ons: view.list_readable(within)?,
        works: view.list_readable(within)?,
    })
}

/// Returns the sets that contain a cluster, by label or by selector.
fn sets(cluster: &ManagedCluster, view: &impl View) -> Read<Vec<SetMembers>> {
    let attributes = ClusterAttributes::from_cluster(cluster);
    let sets: Vec<Arc<ManagedClusterSet>> = view.list_readable(Query::ALL)?;
    let members = sets.iter().map(|set| SetMembers::from_set(set));
    Ok(members.filter(|set| set.contains(&attributes)).collect())
}
