//! The deletion of a ConfigRepo, the finalizer that delays it until its objects are deleted, and what a
//! deletion takes from clusters.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Map, json};

use super::identity::Identity;
use super::inventory::Recorded;
use super::plan::Draft;
use crate::hub::addon_removal;
use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoMode, DeletionPolicy};
use api::names;
use engine::sync::{self, Comparisons, Deletion, Desired, Input, Inventory, ObjectId, SyncPolicy};
use reconcile::{Action, Plan, Precondition, Read, Site, Subresource, View};

/// Deletes the objects of a ConfigRepo if its deletion policy says so, and then removes the finalizer.
///
/// # Errors
/// The inventory or the identity for the deletions has not been read.
pub(super) fn finalize(repo: &ConfigRepo, view: &impl View, now: Timestamp) -> Read<Plan> {
    let Some(release) = Action::remove_finalizers(repo, &[names::CONFIG_REPO_FINALIZER]) else {
        return Ok(Plan::nothing());
    };
    let mut draft = Draft::of(repo, now);
    let recorded = Recorded::of(repo, view)?;
    if deletes_objects(repo) {
        let inventory = &recorded.objects;
        let input = Input {
            repo: &draft.key,
            inventory,
            claimed: &BTreeMap::new(),
            requested: &BTreeMap::new(),
            awaits_requests: false,
            missing_namespaces: &BTreeSet::new(),
            policy: &SyncPolicy { prune: true, ..SyncPolicy::default() },
        };
        let nothing = Desired::default();
        let sync = sync::plan(&nothing, &input, &mut Comparisons::default(), |what| view.observed(what));
        if !sync.inventory.is_empty() {
            let identity = match Identity::of(repo, view)? {
                Ok(identity) => identity,
                Err(problem) => {
                    draft.refuse(&[problem]);
                    return Ok(draft.finish());
                }
            };
            let mut plan = Plan { observe: sync::kinds(&[], inventory), ..Plan::default() };
            for stage in &sync.delete {
                plan.step(stage.iter().map(|deletion| identity.delete(deletion)));
            }
            return Ok(plan);
        }
    }
    let mut plan = Plan::default();
    plan.step(recorded.release());
    plan.step([release]);
    Ok(plan)
}

/// Adds the finalizer if the deletion policy needs it and it is not there.
pub(super) fn missing_finalizer(repo: &ConfigRepo) -> Option<Action> {
    deletes_objects(repo).then(|| Action::add_finalizers(repo, &[names::CONFIG_REPO_FINALIZER])).flatten()
}

/// Returns whether the objects are deleted with their ConfigRepo. In mode Observe they belong to another
/// tool.
fn deletes_objects(repo: &ConfigRepo) -> bool {
    repo.spec.deletion_policy == DeletionPolicy::Delete && repo.spec.mode != ConfigRepoMode::Observe
}

/// Marks a ClusterManagementAddOn whose deletion a person approved, so that the removal budget does not ask again.
pub(super) fn mark_approved(deletion: &Deletion) -> Option<Action> {
    let Deletion { target, uid, is_approved } = deletion;
    let mark = json!({"annotations": {names::REMOVAL_DECIDED_ANNOTATION: "true"}});
    is_approved.then(|| Action::Patch {
        site: Site::Hub,
        target: target.clone(),
        subresource: Subresource::None,
        patch: Map::from_iter([("metadata".to_owned(), mark)]),
        precondition: Precondition { uid: uid.clone(), ..Precondition::default() },
        impersonate: None,
    })
}

/// Returns the ClusterManagementAddOns that left the repository and whose deletion takes the add-on from more
/// clusters than its policy lets lose it at once.
pub(super) fn uninstalls(
    inventory: &Inventory,
    desired: &Desired,
    view: &impl View,
) -> Read<BTreeMap<ObjectId, usize>> {
    let stays: BTreeSet<ObjectId> =
        desired.objects.iter().map(|object| ObjectId::of(&object.reference)).collect();
    let is_addon = |id: &&ObjectId| id.group == names::ADDON_GROUP && id.kind == "ClusterManagementAddOn";
    let mut uninstalls = BTreeMap::new();
    for id in inventory.keys().filter(is_addon).filter(|id| !stays.contains(*id)) {
        let clusters = addon_removal::clusters_over_budget(&id.key.name, view)?;
        uninstalls.extend(clusters.map(|clusters| (id.clone(), clusters)));
    }
    Ok(uninstalls)
}
