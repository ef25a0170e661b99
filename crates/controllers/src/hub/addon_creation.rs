//! The creation of an add-on on a cluster: at once where a placement selects the cluster, or when its turn
//! in a rollout comes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::addon_annotation;
use api::addon::v1alpha1::{ClusterManagementAddOn, InstallStrategyType, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::names::INSTALLED_BY_ANNOTATION;
use object::{Key, Metadata as _, Object};
use reconcile::{Action, Read, View};

/// Returns whether placements say which clusters get the add-on.
pub(super) fn is_by_placements(cma: &ClusterManagementAddOn) -> bool {
    cma.spec.install_strategy.r#type == InstallStrategyType::Placements
}

/// Creates the add-on of a cluster, unless the cluster does not exist or leaves.
pub(super) fn install(cma: &ClusterManagementAddOn, cluster: &str, view: &impl View) -> Read<Option<Action>> {
    let managed = view.get::<ManagedCluster>(&Key::cluster(cluster))?;
    let living = managed.filter(|managed| !managed.is_terminating());
    Ok(living.map(|managed| Action::create(Object::from_typed(&new_addon(cma, &managed)))))
}

fn new_addon(cma: &ClusterManagementAddOn, cluster: &ManagedCluster) -> ManagedClusterAddOn {
    let mut annotations = addon_annotation::of_new_addon(cluster);
    annotations.insert(INSTALLED_BY_ANNOTATION.into(), "true".into());
    let metadata = ObjectMeta {
        namespace: cluster.metadata.name.clone(),
        name: cma.metadata.name.clone(),
        annotations: Some(annotations),
        owner_references: Some(vec![cma.controller_reference()]),
        ..ObjectMeta::default()
    };
    ManagedClusterAddOn { metadata, ..ManagedClusterAddOn::default() }
}
