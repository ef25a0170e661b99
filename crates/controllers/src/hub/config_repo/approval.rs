//! The approval of a plan by a person, if the ConfigRepo requires it.

use super::commit::Commit;
use super::draft::{Draft, MAX_LISTED};
use super::status::{Phase, Readiness, still_applied};
use api::gitops::v1alpha1::{HeldChanges, ListedObjects, PlanApproval};
use api::names::{APPROVE_PLAN_ANNOTATION, approval_reasons::PLAN_NOT_APPROVED};
use engine::sync::{ApplyRule, Inventory, ObjectId, SyncPlan};
use object::Metadata as _;
use object::text::short_commit;
use reconcile::View;

/// Returns the readiness of a commit that waits for the approval of its plan. A commit whose objects are already
/// applied changes nothing and needs no approval.
pub(super) fn unmet(draft: &mut Draft<'_>, commit: &Commit<'_>) -> Option<Readiness> {
    draft.status.held_plan.clear();
    match draft.repo.spec.plan_approval {
        PlanApproval::NotRequired => return None,
        // Treat an unknown value as the safest one.
        PlanApproval::Required | PlanApproval::Other(_) => {}
    }
    let applied = draft.status.applied.as_ref();
    let before = applied.map_or("", |applied| applied.digest.as_str());
    if before == commit.desired.digest {
        return None;
    }
    let hash = commit.desired.plan_hash(before);
    let approved = draft.repo.annotation(APPROVE_PLAN_ANNOTATION).unwrap_or_default();
    if approved == hash {
        return None;
    }
    let other = if approved.is_empty() { "" } else { "; the annotation approves another plan" };
    let revision = short_commit(&commit.checkout.revision);
    let message = format!(
        "{revision} waits for the approval of its plan; {}{other}. `wheelwright plan --hub KUBECONFIG --head {revision}` shows the plan. \
         To approve it, annotate the ConfigRepo: {APPROVE_PLAN_ANNOTATION}={hash}",
        still_applied(&draft.status)
    );
    draft.status.held_plan = hash;
    Some(Readiness::new(Phase::Stalled, PLAN_NOT_APPROVED, message))
}

/// Lists the changes that a commit makes to objects of the hub. `owned` is the current inventory, and `sync` the
/// plan of a commit without problems.
///
/// Drift does not affect the lists: an object counts as changed if another version of it was applied last.
pub(super) fn changes(
    commit: &Commit<'_>,
    owned: &Inventory,
    sync: &SyncPlan<'_>,
    view: &impl View,
) -> HeldChanges {
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
        match live.filter(|_| owned.contains_key(&id)) {
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
    let total = i32::try_from(ids.len()).unwrap_or(i32::MAX);
    let objects = ids.iter().take(MAX_LISTED).map(|id| id.entry("")).collect();
    (total > 0).then(|| ListedObjects { total, objects, ..ListedObjects::default() })
}
