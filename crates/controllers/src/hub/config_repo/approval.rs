//! The approval of a plan by a person, if the ConfigRepo requires it.

use super::gate::Gate;
use super::read::Commit;
use super::status::{MAX_LISTED, count};
use api::gitops::v1alpha1::{HeldChanges, ListedObjects, PlanApproval};
use api::names::APPROVE_PLAN_ANNOTATION;
use engine::sync::{ApplyRule, ObjectId, SyncPlan};
use object::Metadata as _;
use reconcile::View;

/// Returns the gate of a commit whose plan a person has to approve. A commit whose objects are already applied
/// changes nothing and needs no approval.
pub(super) fn gate(commit: &Commit<'_>, sync: &SyncPlan<'_>, view: &impl View) -> Option<Gate> {
    let is_required = match commit.repo.spec.plan_approval {
        PlanApproval::NotRequired => false,
        // Treat an unknown value as the safest one.
        PlanApproval::Required | PlanApproval::Other(_) => true,
    };
    if !is_required || commit.is_applied() {
        return None;
    }
    let hash = commit.desired.plan_hash(commit.applied_digest());
    if commit.repo.annotation(APPROVE_PLAN_ANNOTATION).unwrap_or_default() == hash {
        return None;
    }
    let changes = sync.problems.is_empty().then(|| Box::new(changes(commit, sync, view)));
    Some(Gate::NotApproved { hash, changes })
}

/// Lists the changes that a commit makes to objects of the hub. `sync` is the plan of a commit without problems.
///
/// Drift does not affect the lists: an object counts as changed if another version of it was applied last.
fn changes(commit: &Commit<'_>, sync: &SyncPlan<'_>, view: &impl View) -> HeldChanges {
    let (mut created, mut changed) = (Vec::new(), Vec::new());
    for wanted in &commit.desired.objects {
        // The commit defines a kind that cannot be read, so none of its objects exists.
        let live = view.observed(&wanted.reference).ok().flatten();
        let is_left = match wanted.apply {
            ApplyRule::Ignore => true,
            ApplyRule::IfNotPresent => live.is_some(),
            ApplyRule::Always | ApplyRule::Merge => false,
        };
        let id = ObjectId::of(&wanted.reference);
        match live.filter(|_| commit.recorded.objects.contains_key(&id)) {
            _ if is_left => {}
            None => created.push(id),
            Some(live) if wanted.is_last_applied(&live) => {}
            Some(_) => changed.push(id),
        }
    }
    let mut stays = commit.desired.ids();
    stays.extend(sync.hand_over.iter().map(|one| ObjectId::of(&one.target)));
    let deleted: Vec<_> = sync.inventory.keys().filter(|id| !stays.contains(*id)).cloned().collect();
    HeldChanges {
        created: listed(&created),
        changed: listed(&changed),
        deleted: listed(&deleted),
        ..HeldChanges::default()
    }
}

/// Returns the first objects of a list and the total number; `None` if there are none.
fn listed(ids: &[ObjectId]) -> Option<ListedObjects> {
    let total = count(ids.len());
    let objects = ids.iter().take(MAX_LISTED).map(|id| id.entry("")).collect();
    (total > 0).then(|| ListedObjects { total, objects, ..ListedObjects::default() })
}
