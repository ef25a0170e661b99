//! Removes the permissions that OCM's template manager created for the agents of an add-on, once ours replace
//! them.
//!
//! OCM names such a RoleBinding without the role and the cluster, and each binds the agents of all clusters. See
//! docs/hazards.md#bindings-across-clusters.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::rbac::v1::RoleBinding;

use super::deployment::AddOnDeployment;
use crate::addon_reads;
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::gitops::v1alpha1::RolloutPolicy;
use api::work::v1::ManifestWork;
use engine::addon::{config_refs, registration};
use object::duration::later;
use object::{Key, Metadata as _, refers_to};
use reconcile::{Action, Controller, Plan, Read, View, Watches};

/// Interval between checks whether the permissions of all clusters have been replaced.
const RECHECK: SignedDuration = SignedDuration::from_mins(1);

pub(crate) struct AddOnTakeoverController;

impl Controller for AddOnTakeoverController {
    const NAME: &'static str = "addon-takeover";
    type Primary = RoleBinding;

    fn watches<W: Watches>(watches: &mut W) {
        watches.read::<ClusterManagementAddOn>();
        watches.read::<ManagedClusterAddOn>();
        watches.read::<ManagedCluster>();
        watches.read::<ManifestWork>();
        watches.read::<ControllerRevision>();
        watches.read::<RolloutPolicy>();
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        let mut plan = Plan::nothing();
        let Some(binding) = view.get::<RoleBinding>(key)? else { return Ok(plan) };
        let Some(addon) = registration::addon_of_ocm_binding(&binding) else { return Ok(plan) };
        let cma = view.get::<ClusterManagementAddOn>(&Key::cluster(addon))?;
        let is_ours = cma.is_some_and(|cma| config_refs::is_deployed(&cma));
        if binding.is_terminating() || !is_ours {
            return Ok(plan);
        }
        if is_replaced(&binding, addon, view)? {
            plan.step([Action::delete(binding.as_ref())]);
        } else {
            plan.wake(later(now, RECHECK));
        }
        Ok(plan)
    }
}

/// Returns true if all agents that need a binding have their own. A binding in a cluster's namespace is owned by
/// the add-on there; any other binding serves all clusters. Returns false if no agent is found, because a list may
/// not contain them.
fn is_replaced(binding: &RoleBinding, addon: &str, view: &impl View) -> Read<bool> {
    let mut owners = binding.metadata.owner_references.iter().flatten();
    let addons: Vec<Arc<ManagedClusterAddOn>> =
        if owners.any(|owner| refers_to::<ManagedClusterAddOn>(owner, addon)) {
            view.get(&Key::namespaced(binding.namespace(), addon))?.into_iter().collect()
        } else {
            let on_clusters = addon_reads::of_clusters(addon, view)?;
            if !on_clusters.unreadable.is_empty()
                || on_clusters.addons.len() != addon_reads::keys_of_name(addon, view)?.len()
            {
                return Ok(false);
            }
            on_clusters.addons
        };
    let is_any = !addons.is_empty();
    for addon in addons {
        if AddOnDeployment::read(addon, view)?.is_none_or(|deployment| !deployment.is_permitted()) {
            return Ok(false);
        }
    }
    Ok(is_any)
}
