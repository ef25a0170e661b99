//! The deletion of a ClusterManagementAddOn.
//!
//! A finalizer keeps it until the add-on has been removed from every cluster, within the removal budget of its
//! RolloutPolicy or the default budget. OCM removes it from every cluster at once, which is like a budget of 100%.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Map, json};

use crate::addon_reads::{self, OnClusters};
use crate::addon_removal::{AddOnDeletion, Installed};
use crate::rollout_policy::{self, RolloutOwner};
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::condition::ConditionStatus::True;
use api::condition::{Observation, set_condition};
use api::names::addon_conditions::PROGRESSING;
use api::names::{ADD_ONS_OWNED_ANNOTATION, ADDON_REMOVAL_FINALIZER, REMOVAL_DECIDED_ANNOTATION};
use engine::plural::counted;
use object::{Key, Metadata as _};
use reconcile::{Action, Plan, Query, Read, StatusWrite, View};

/// The finalizer that the API server sets until the dependents of an object are orphaned.
const ORPHAN: &str = "orphan";

/// Returns how the add-on is removed from clusters, within the budget or approved; `None` if they keep it.
pub(super) fn of(cma: &ClusterManagementAddOn) -> Option<AddOnDeletion> {
    let is_held =
        cma.is_terminating() && cma.has_finalizer(ADDON_REMOVAL_FINALIZER) && !cma.has_finalizer(ORPHAN);
    let is_approved = cma.annotation(REMOVAL_DECIDED_ANNOTATION) == Some(cma.uid());
    is_held.then_some(if is_approved { AddOnDeletion::Approved } else { AddOnDeletion::Budgeted })
}

/// Sets a person's matching policy on the add-on, or else adds the finalizer.
pub(super) fn hold(cma: &ClusterManagementAddOn, view: &impl View) -> Read<Option<Action>> {
    let policies = rollout_policy::policies_for(RolloutOwner::AddOn(cma.name()), view)?;
    let named = rollout_policy::name_on(cma, &policies);
    Ok(named.or_else(|| Action::add_finalizers(cma, &[ADDON_REMOVAL_FINALIZER])))
}

/// Marks an add-on that is safe to delete in the foreground: the garbage collector keeps its add-ons on clusters,
/// because the clusters own them too.
pub(super) fn may_be_in_foreground(cma: &ClusterManagementAddOn) -> Option<Action> {
    let mark = json!({"annotations": {ADD_ONS_OWNED_ANNOTATION: "true"}});
    let patch = Map::from_iter([("metadata".to_owned(), mark)]);
    cma.annotation(ADD_ONS_OWNED_ANNOTATION).is_none().then(|| Action::patch(cma, patch))
}

/// Removes the finalizer when no cluster has the add-on any longer, or when the clusters keep it.
pub(super) fn release(
    cma: &ClusterManagementAddOn,
    on_clusters: &OnClusters,
    view: &impl View,
) -> Read<Option<Action>> {
    let is_over = of(cma).is_none() || is_everywhere_gone(cma.name(), on_clusters, view)?;
    Ok(is_over.then(|| Action::remove_finalizers(cma, &[ADDON_REMOVAL_FINALIZER])).flatten())
}

/// Returns true if no cluster has the add-on. Asks the API server about clusters that are missing from the list
/// but have the add-on, and about the add-on of each cluster. See docs/hazards.md#deleted-addon.
fn is_everywhere_gone(add_on: &str, on_clusters: &OnClusters, view: &impl View) -> Read<bool> {
    if !on_clusters.addons.is_empty() || !on_clusters.unreadable.is_empty() {
        return Ok(false);
    }
    for addon in addon_reads::keys_of_name(add_on, view)? {
        if view.exists::<ManagedCluster>(&Key::cluster(addon.namespace))? {
            return Ok(false);
        }
    }
    let clusters = view.list_readable::<ManagedCluster>(Query::ALL)?;
    let keys = clusters.iter().map(|cluster| Key::namespaced(cluster.name(), add_on));
    // Send all requests before the first answer is needed.
    let answers: Vec<Read<bool>> = keys.map(|key| view.exists::<ManagedClusterAddOn>(&key)).collect();
    let exist = answers.into_iter().collect::<Read<Vec<bool>>>()?;
    Ok(!exist.contains(&true))
}

/// Reports in the status what the deletion waits for. Until then, clusters keep what they run.
pub(super) fn report(cma: &ClusterManagementAddOn, view: &impl View, now: Timestamp) -> Read<Plan> {
    let deletion = of(cma);
    if deletion.is_none() {
        return Ok(Plan::nothing());
    }
    let OnClusters { addons, unreadable } = addon_reads::of_clusters(cma.name(), view)?;
    let (add_on, selected) = (cma.name(), &BTreeSet::new());
    let removal = Installed { add_on, addons: &addons, selected, deletion }.removal(view, now)?;
    let message = if removal.decision.kept.is_empty() {
        let left = addons.len() + unreadable.len();
        format!("the add-on is being deleted; it is still on {}", counted(left, "cluster"))
    } else {
        removal.to_string()
    };
    let mut new = cma.clone();
    for progression in new.status.iter_mut().flat_map(|status| &mut status.install_progressions) {
        let observed = Observation::new(PROGRESSING, True, "Deleting").message(&message);
        set_condition(&mut progression.conditions, observed, now);
    }
    Ok(Plan { status: StatusWrite::between(cma, &new), ..Plan::nothing() })
}
