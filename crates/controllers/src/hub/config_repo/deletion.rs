//! The deletion of a ConfigRepo, the finalizer that delays it until its objects are deleted, and the effect of
//! deleting an object on clusters.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Map, json};

use super::gate::Gate;
use super::identity::RepoIdentity;
use super::inventory::Recorded;
use super::moves::Moves;
use super::report::{Found, Outcome, report};
use crate::rollout_policy::RolloutOwner;
use api::addon::v1alpha1::ClusterManagementAddOn;
use api::gitops::v1alpha1::ConfigRepo;
use api::names;
use api::work::v1::ManifestWork;
use api::work::v1alpha1::ManifestWorkReplicaSet;
use engine::replica_set;
use engine::sync::{
    self, Comparisons, Deletion, Desired, ObjectId, Recent, SyncInput, SyncPlan, SyncPolicy, Withheld,
};
use object::{Key, Metadata as _, ObjectRef};
use reconcile::{Action, Plan, Precondition, Query, Read, Site, Subresource, View};

/// Deletes the objects of a ConfigRepo if its deletion policy says so, then removes the finalizer. Objects that
/// another ConfigRepo has requested are handed over first.
///
/// # Errors
/// Fails if the inventory, the other ConfigRepos or the identity for the deletions have not been read.
pub(super) fn finalize(repo: &ConfigRepo, view: &impl View, now: Timestamp) -> Read<Plan> {
    let Some(release) = Action::remove_finalizers(repo, &[names::CONFIG_REPO_FINALIZER]) else {
        return Ok(Plan::nothing());
    };
    let recorded = Recorded::of(repo, view)?;
    if repo.deletes_objects() {
        let key = Key::of(repo);
        let seen = repo.status.as_ref().and_then(|status| status.seen.as_ref());
        let Moves { requested, awaited, unjudged } = Moves::of(repo, seen, view, now)?;
        let approved = repo.annotation(names::APPROVE_DELETION_ANNOTATION).unwrap_or_default().to_owned();
        let input = SyncInput {
            repo: &key,
            inventory: &recorded.objects,
            claimed: &BTreeMap::new(),
            requested: &requested,
            awaits_requests: awaited.is_some(),
            unjudged: unjudged.as_deref(),
            are_permissions_needed: false,
            missing_namespaces: &BTreeSet::new(),
            withheld: &Withheld::default(),
            recent: &Recent::new(),
            now,
            policy: &SyncPolicy { prune: true, is_repo_deleted: true, approved, ..SyncPolicy::default() },
        };
        let nothing = Desired::default();
        let sync = sync::plan(&nothing, &input, &mut Comparisons::default(), |what| view.observed(what));
        if !sync.inventory.is_empty() {
            let (gate, steps) = match RepoIdentity::of(repo, view)? {
                Ok(identity) => (Gate::Open, deletions(&identity, &sync)),
                Err(problem) => (Gate::NotAllowed(vec![problem]), Vec::new()),
            };
            let found = Found::Deleting { sync: Box::new(sync), awaited };
            let report = report(&Outcome { repo, now, source: None, charts: None, gate, found });
            return Ok(Plan { steps, observe: sync::kinds(&[], &recorded.objects), ..report });
        }
    }
    let mut plan = Plan::default();
    plan.step(recorded.release());
    plan.step([release]);
    Ok(plan)
}

/// Returns the deletions for a ConfigRepo that is being deleted.
fn deletions(identity: &RepoIdentity, sync: &SyncPlan<'_>) -> Vec<Vec<Action>> {
    let mut plan = Plan::nothing();
    plan.step(sync.hand_over.iter().map(|one| identity.hand_over(one)));
    for stage in &sync.delete {
        plan.step(stage.iter().map(|deletion| identity.delete(deletion)));
    }
    plan.steps
}

/// Adds the finalizer if the deletion policy needs it and it is missing.
pub(super) fn missing_finalizer(repo: &ConfigRepo) -> Option<Action> {
    repo.deletes_objects().then(|| Action::add_finalizers(repo, &[names::CONFIG_REPO_FINALIZER])).flatten()
}

/// Marks a ClusterManagementAddOn whose deletion a person approved, so that the removal budget does not require a
/// second approval. The mark is the uid, so it applies only to this object.
pub(super) fn mark_approved(deletion: &Deletion) -> Option<Action> {
    let Deletion { target, uid, is_approved } = deletion;
    let is_asked_again = matches!(owner(&ObjectId::of(target)), Some(RolloutOwner::AddOn(_)));
    let mark = json!({"annotations": {names::REMOVAL_DECIDED_ANNOTATION: uid}});
    (*is_approved && is_asked_again).then(|| Action::Patch {
        site: Site::Hub,
        target: target.clone(),
        subresource: Subresource::None,
        patch: Map::from_iter([("metadata".to_owned(), mark)]),
        precondition: Precondition { uid: uid.clone(), ..Precondition::default() },
        impersonate: None,
    })
}

/// Removes the mark from existing ClusterManagementAddOns in the commit: their deletion was approved but did not
/// happen. See docs/hazards.md#approval-that-stays.
pub(super) fn unmark(desired: &Desired, view: &impl View) -> Read<Vec<Action>> {
    let mark = json!({"annotations": {names::REMOVAL_DECIDED_ANNOTATION: null}});
    let mut unmarked = Vec::new();
    for ObjectRef { gvk, key } in desired.objects.iter().map(|object| &object.reference) {
        let Some(RolloutOwner::AddOn(name)) = subject(&gvk.group, &gvk.kind, key) else { continue };
        let cma = view.get_readable::<ClusterManagementAddOn>(&Key::cluster(name))?;
        let living = cma.filter(|cma| !cma.is_terminating());
        let marked = living.filter(|cma| cma.annotation(names::REMOVAL_DECIDED_ANNOTATION).is_some());
        let patch = || Map::from_iter([("metadata".to_owned(), mark.clone())]);
        unmarked.extend(marked.map(|cma| Action::patch(&*cma, patch())));
    }
    Ok(unmarked)
}

/// Returns the rollout that an object of a repository defines.
pub(super) fn owner(id: &ObjectId) -> Option<RolloutOwner<'_>> {
    subject(&id.group, &id.kind, &id.key)
}

fn subject<'k>(group: &str, kind: &str, key: &'k Key) -> Option<RolloutOwner<'k>> {
    match (group, kind) {
        (names::ADDON_GROUP, "ClusterManagementAddOn") => Some(RolloutOwner::AddOn(&key.name)),
        (names::WORK_GROUP, "ManifestWorkReplicaSet") => Some(RolloutOwner::ReplicaSet(key)),
        _ => None,
    }
}

/// Returns the number of clusters that have a work of a set, even if the list of works is wrongly empty.
pub(super) fn clusters_of(set: &Key, view: &impl View) -> Read<usize> {
    let Ok(label) = replica_set::owner_label(set) else { return Ok(0) };
    let query = Query::label(names::WORK_REPLICA_SET_LABEL, &label);
    let works = view.list_readable::<ManifestWork>(query)?;
    let unreadable = view.unreadable::<ManifestWork>(query)?;
    let clusters: BTreeSet<&str> = (works.iter().map(|work| work.namespace()))
        .chain(unreadable.iter().map(|refused| refused.key.namespace.as_str()))
        .collect();
    let set = view.get_readable::<ManifestWorkReplicaSet>(set)?;
    let reported = set.and_then(|set| set.status.as_ref().map(|status| status.summary.total));
    let reported = reported.and_then(|total| usize::try_from(total).ok()).unwrap_or_default();
    Ok(clusters.len().max(reported))
}
