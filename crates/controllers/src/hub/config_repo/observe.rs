//! Mode Observe: another tool applies the commit, and the status reports the progress.

use std::sync::Arc;

use engine::health::ObjectHealth;
use engine::plural::counted;
use engine::sync::{self, ApplyRule, DesiredObject, IgnoreRule, Problem, Unhealthy};
use object::text::short_commit;
use reconcile::{Read, View};

use super::commit::Commit;
use super::compare::Comparison;
use super::draft::Draft;
use super::health::{self, Found};
use super::identity::RepoIdentity;
use super::inventory::Recorded;
use super::status::{Phase, Readiness, revision};

/// Releases the objects that Argo CD now tracks, so that no later commit takes them back.
pub(super) fn release(draft: &mut Draft<'_>, recorded: &Recorded, identity: &RepoIdentity, view: &impl View) {
    if recorded.objects.is_empty() {
        return;
    }
    let release = sync::release(&draft.key, &recorded.objects, |object| view.observed(object));
    draft.plan.step(release.hand_over.iter().map(|one| identity.hand_over(one)));
    let records = draft.record_inventory(recorded, &release.inventory);
    draft.plan.step(records);
}

/// Compares the hub with a commit and drafts the status.
pub(super) fn observe(draft: &mut Draft<'_>, commit: &Commit<'_>, rules: &[IgnoreRule], view: &impl View) {
    let Commit { checkout, desired, identity } = *commit;
    let name = checkout.revision.as_str();
    // Argo CD applies a hook at a certain point of its sync, and often deletes it afterwards.
    let is_expected =
        |wanted: &&Arc<DesiredObject>| wanted.apply != ApplyRule::Ignore && wanted.hook().is_none();
    let expected: Vec<_> = desired.objects.iter().filter(is_expected).collect();
    let is_hidden = |wanted: &&&Arc<DesiredObject>| {
        *identity != RepoIdentity::Operator && sync::is_secret(&wanted.reference.gvk)
    };
    if let Some(secret) = expected.iter().find(is_hidden) {
        let message = format!(
            "{} cannot be observed: a ConfigRepo with a serviceAccountName does not compare Secrets",
            secret.reference
        );
        let origin = secret.origin.clone();
        draft.refuse(&[Problem { reason: "NotAllowed", message, origin }]);
        return;
    }
    draft.status.held_deletions = None;
    let (mut differing, mut unhealthy, mut unread) = (Vec::new(), Vec::new(), None);
    let mut comparison = Comparison::new(identity, view);
    for wanted in &expected {
        match state(wanted, rules, &mut comparison, view) {
            Ok(State::AsWanted(ObjectHealth::Current)) => {}
            Ok(State::AsWanted(health)) => {
                unhealthy.push(Unhealthy { object: wanted.reference.clone(), health });
            }
            Ok(State::Differs(why)) => differing.push((&wanted.reference, why)),
            // Continue, so that the API server answers all questions at once.
            Err(error) => unread = unread.or(Some(error)),
        }
    }
    if let Some(error) = unread {
        draft.wait_for_read(name, &error.to_string());
        return;
    }
    let (total, commit_name) = (expected.len(), short_commit(name));
    draft.readiness = Some(match differing.first() {
        None => {
            draft.status.partial = None;
            let applied = draft.status.applied.take();
            draft.status.applied =
                Some(revision(applied.as_ref(), checkout, draft.repo, &desired.digest, draft.now));
            let message = format!("the hub matches {commit_name} ({})", counted(total, "object"));
            let found = Found { unhealthy: &unhealthy, is_held: false, takes_time: false, is_whole: true };
            let waiting = health::judge(draft, commit, &found);
            waiting.unwrap_or_else(|| Readiness::new(Phase::Ready, "Observed", message))
        }
        Some((first, why)) => {
            let message = format!(
                "{} of {total} objects do not match {commit_name}, such as {first}: {why}; in mode Observe, another tool applies them",
                differing.len(),
            );
            Readiness::new(Phase::Reconciling, "NotApplied", message)
        }
    });
}

/// The state of an object of a commit on the hub.
enum State {
    AsWanted(ObjectHealth),
    /// It differs from the commit, for this reason.
    Differs(String),
}

/// Compares an object with the hub.
///
/// # Errors
/// Fails if the object has not been read, or if the API server has not compared it yet.
fn state<V: View>(
    wanted: &DesiredObject,
    rules: &[IgnoreRule],
    comparison: &mut Comparison<'_, V>,
    view: &V,
) -> Read<State> {
    let Some(live) = view.observed(&wanted.reference)? else {
        return Ok(State::Differs("it does not exist".into()));
    };
    let difference = match wanted.apply {
        ApplyRule::IfNotPresent => None,
        ApplyRule::Always | ApplyRule::Merge | ApplyRule::Ignore => {
            comparison.difference(&live, &wanted.compared(rules))?
        }
    };
    Ok(match difference {
        None => State::AsWanted(ObjectHealth::of(&live)),
        Some(field) => State::Differs(format!("it differs at {field}")),
    })
}
