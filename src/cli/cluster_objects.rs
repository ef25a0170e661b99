//! The objects about one cluster, for the dashboard.

use std::sync::Arc;

use crate::dashboard::ClusterObjects;
use api::names::WORK_REPLICA_SET_LABEL;
use api::work::v1::ManifestWork;
use object::{Key, Metadata as _};
use reconcile::{Query, Read, View};

/// Reads the objects. Add-ons and works that cannot be read are left out.
///
/// # Errors
/// A kind has not been read completely.
pub(crate) fn cluster_objects(name: &str, view: &impl View) -> Read<ClusterObjects> {
    let cluster = match view.get(&Key::cluster(name)) {
        Err(error) if error.is_unreadable() => Some(Err(error.to_string())),
        read => read?.map(Ok),
    };
    let within = Query::namespace(name);
    let mut works: Vec<Arc<ManifestWork>> = view.list_readable(within)?;
    works.retain(|work| work.label(WORK_REPLICA_SET_LABEL).is_some());
    Ok(ClusterObjects { cluster, add_ons: view.list_readable(within)?, works })
}
