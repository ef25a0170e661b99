//! The approval of a plan by a person, where the ConfigRepo asks for it.

use super::plan::{Commit, Draft};
use super::status::{Phase, Readiness, still_applied};
use api::gitops::v1alpha1::PlanApproval;
use api::names::APPROVE_PLAN_ANNOTATION;
use object::Metadata as _;
use object::text::short_commit;

/// Says that a commit waits for the approval of its plan. A commit with the objects that are applied already
/// changes nothing and needs none.
pub(super) fn unmet(draft: &mut Draft<'_>, commit: &Commit<'_>) -> Option<Readiness> {
    draft.status.held_plan.clear();
    match draft.repo.spec.plan_approval {
        PlanApproval::NotRequired => return None,
        // An unknown value gets the safest meaning.
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
        still_applied(applied)
    );
    draft.status.held_plan = hash;
    Some(Readiness::new(Phase::Stalled, "PlanNotApproved", message))
}
