//! The objects of the fleet that a report carries, so that `wheelwright plan --report` needs no hub.
//!
//! Objects of the repository itself are left out if only the commit decides them: a plan renders the applied
//! commit.

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

/// Returns the snapshot; `None` if the fleet is too large for one.
///
/// # Errors
/// A kind has not been read.
pub(super) fn snapshot(view: &impl View) -> Read<Option<String>> {
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
    Ok(report::snapshot(lists.into_iter().flatten()))
}

fn list<K: Kind>(view: &impl View) -> Read<Vec<Object>> {
    Ok(view.list::<K>(Query::ALL)?.iter().map(|object| Object::from_typed(&**object)).collect())
}
