//! The approval of a plan by a person, if the ConfigRepo requires it.

use super::gate::Gate;
use super::held_changes::changes;
use super::read::Commit;
use api::gitops::v1alpha1::PlanApproval;
use api::names::APPROVE_PLAN_ANNOTATION;
use engine::sync::SyncPlan;
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
