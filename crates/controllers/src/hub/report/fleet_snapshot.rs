//! The objects of the fleet that a report carries, so that `wheelwright plan --report` needs no hub.
//!
//! Objects of the repository itself are left out if only the commit decides them: a plan renders the applied
//! commit.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::Namespace;

use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::cluster::v1alpha1::AddOnPlacementScore;
use api::cluster::v1beta1::{Placement, PlacementDecision};
use api::cluster::v1beta2::{ManagedClusterSet, ManagedClusterSetBinding};
use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoInventory, RolloutPolicy};
use api::work::v1::ManifestWork;
use api::work::v1alpha1::ManifestWorkReplicaSet;
use engine::report;
use object::{Kind, Object};
use reconcile::{Query, Read, View, Watches};

/// Registers the kinds of a snapshot that the controller does not read anyway.
pub(super) fn watches<W: Watches>(watches: &mut W) {
    watches.read::<ManagedClusterSet>();
    watches.read::<ManagedClusterSetBinding>();
    watches.read::<AddOnPlacementScore>();
    watches.read::<ConfigRepoInventory>();
    watches.read::<ControllerRevision>();
}

/// Returns the files of the snapshot, by path; `None` if the fleet is too large for one, or an object of it
/// cannot be read: a plan must not take that object for absent.
///
/// # Errors
/// A kind has not been read.
pub(super) fn snapshot(view: &impl View, now: Timestamp) -> Read<Option<BTreeMap<String, String>>> {
    match objects(view) {
        Err(error) if error.is_unreadable() => Ok(None),
        objects => Ok(report::snapshot(objects?, now)),
    }
}

/// Returns the objects one by one, so that a fleet that is too large is not converted to its end.
fn objects(view: &impl View) -> Read<impl Iterator<Item = Object>> {
    let lists = [
        list::<ManagedCluster>(view)?,
        list::<ManagedClusterSet>(view)?,
        list::<ManagedClusterSetBinding>(view)?,
        list::<Placement>(view)?,
        list::<PlacementDecision>(view)?,
        list::<AddOnPlacementScore>(view)?,
        list::<ClusterManagementAddOn>(view)?,
        list::<ManagedClusterAddOn>(view)?,
        list::<ManifestWork>(view)?,
        list::<ManifestWorkReplicaSet>(view)?,
        list::<RolloutPolicy>(view)?,
        list::<ConfigRepo>(view)?,
        list::<ConfigRepoInventory>(view)?,
        list::<ControllerRevision>(view)?,
        list::<Namespace>(view)?,
    ];
    Ok(lists.into_iter().flatten())
}

fn list<K: Kind>(view: &impl View) -> Read<Box<dyn Iterator<Item = Object>>> {
    let all = view.list::<K>(Query::ALL)?;
    Ok(Box::new(all.into_iter().map(|object| Object::from_typed(&*object))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::Key;
    use reconcile::{Caches, Delta, Site, Unreadable};

    #[test]
    fn a_report_has_no_snapshot_while_an_object_cannot_be_read() {
        let mut caches = Caches::default();
        assert!(snapshot(&caches, Timestamp::UNIX_EPOCH).is_err(), "nothing has been read");
        caches.replace::<ManagedCluster>(Site::Hub, Vec::new(), "1");
        caches.replace::<ManagedClusterSet>(Site::Hub, Vec::new(), "1");
        caches.replace::<ManagedClusterSetBinding>(Site::Hub, Vec::new(), "1");
        caches.replace::<Placement>(Site::Hub, Vec::new(), "1");
        caches.replace::<PlacementDecision>(Site::Hub, Vec::new(), "1");
        caches.replace::<AddOnPlacementScore>(Site::Hub, Vec::new(), "1");
        caches.replace::<ClusterManagementAddOn>(Site::Hub, Vec::new(), "1");
        caches.replace::<ManagedClusterAddOn>(Site::Hub, Vec::new(), "1");
        caches.replace::<ManifestWork>(Site::Hub, Vec::new(), "1");
        caches.replace::<ManifestWorkReplicaSet>(Site::Hub, Vec::new(), "1");
        caches.replace::<RolloutPolicy>(Site::Hub, Vec::new(), "1");
        caches.replace::<ConfigRepo>(Site::Hub, Vec::new(), "1");
        caches.replace::<ConfigRepoInventory>(Site::Hub, Vec::new(), "1");
        caches.replace::<ControllerRevision>(Site::Hub, Vec::new(), "1");
        caches.replace::<Namespace>(Site::Hub, Vec::new(), "1");
        assert!(snapshot(&caches, Timestamp::UNIX_EPOCH).unwrap().is_some());
        let refused = Unreadable { key: Key::cluster("c1"), labels: None, why: "spec: not a map".into() };
        caches.apply::<ManagedCluster>(Site::Hub, Delta::Unreadable(refused));
        assert_eq!(snapshot(&caches, Timestamp::UNIX_EPOCH).unwrap(), None);
    }
}
