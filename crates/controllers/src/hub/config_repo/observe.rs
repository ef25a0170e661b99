//! Mode Observe: another tool applies the commit, and the status reports how much of it is applied.

use std::sync::Arc;

use engine::health::ObjectHealth;
use engine::plural::counted;
use engine::sync::{self, ApplyRule, DesiredObject, IgnoreRule, Problem, Unhealthy};
use object::fields::covers;
use object::text::short_commit;
use reconcile::View;

use super::commit::Commit;
use super::draft::Draft;
use super::health::{self, Found};
use super::identity::RepoIdentity;
use super::status::{Phase, Readiness, revision};

/// Compares the hub with a commit and drafts the status.
pub(super) fn observe(draft: &mut Draft<'_>, commit: &Commit<'_>, rules: &[IgnoreRule], view: &impl View) {
    let Commit { checkout, desired, identity } = *commit;
    let name = checkout.revision.as_str();
    let is_hidden = |wanted: &&Arc<DesiredObject>| {
        *identity != RepoIdentity::Operator && sync::is_secret(&wanted.reference.gvk)
    };
    if let Some(secret) = desired.objects.iter().find(is_hidden) {
        let message = format!(
            "{} cannot be observed: a ConfigRepo with a serviceAccountName does not compare Secrets",
            secret.reference
        );
        let origin = secret.origin.clone();
        draft.refuse(&[Problem { reason: "NotAllowed", message, origin }]);
        return;
    }
    draft.status.held_deletions = None;
    let (mut differing, mut unhealthy) = (Vec::new(), Vec::new());
    for wanted in desired.objects.iter().filter(|wanted| wanted.apply != ApplyRule::Ignore) {
        match view.observed(&wanted.reference) {
            Ok(Some(live))
                if wanted.apply == ApplyRule::IfNotPresent || covers(&live, &wanted.compared(rules)) =>
            {
                match ObjectHealth::of(&live) {
                    ObjectHealth::Current => {}
                    health => unhealthy.push(Unhealthy { object: wanted.reference.clone(), health }),
                }
            }
            Ok(_) => differing.push(wanted.reference.to_string()),
            Err(error) => {
                draft.wait(name, "Waiting", &error.to_string());
                return;
            }
        }
    }
    let (total, commit_name) = (desired.objects.len(), short_commit(name));
    draft.readiness = Some(match differing.first() {
        None => {
            draft.status.partial = None;
            let applied = draft.status.applied.take();
            draft.status.applied =
                Some(revision(applied.as_ref(), checkout, draft.repo, &desired.digest, draft.now));
            let message = format!("the hub is as {commit_name} says ({})", counted(total, "object"));
            let found = Found { unhealthy: &unhealthy, is_held: false, takes_time: false, is_whole: true };
            let waiting = health::judge(draft, commit, &found);
            waiting.unwrap_or_else(|| Readiness::new(Phase::Ready, "Observed", message))
        }
        Some(first) => {
            let message = format!(
                "{} of {total} objects are not as {commit_name} says, {first} for one; mode Observe leaves them to the tool that applies them",
                differing.len(),
            );
            Readiness::new(Phase::Reconciling, "NotApplied", message)
        }
    });
}
