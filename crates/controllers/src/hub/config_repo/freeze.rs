//! Freeze windows of a ConfigRepo, in which no new commit is applied.

use super::plan::{Commit, Draft};
use super::status::{Phase, Readiness, still_applied};
use engine::rollout;
use engine::sync::Problem;
use object::text::short_commit;

/// Says that a commit waits until a freeze window ends. A commit with the objects that are applied already
/// changes nothing and does not wait.
///
/// # Errors
/// The problem of a window that cannot be read.
pub(super) fn unmet(draft: &mut Draft<'_>, commit: &Commit<'_>) -> Result<Option<Readiness>, Problem> {
    let open = rollout::open_window(&draft.repo.spec.freeze_windows, draft.now)
        .map_err(|refused| Problem::of_commit("InvalidSpec", refused.to_string()))?;
    let applied = draft.status.applied.as_ref();
    if applied.is_some_and(|applied| applied.digest == commit.desired.digest) {
        return Ok(None);
    }
    let Some((window, until)) = open else { return Ok(None) };
    draft.plan.wake(until);
    let message = format!(
        "{} waits for the freeze {window} to end at {until}; {}",
        short_commit(&commit.checkout.revision),
        still_applied(applied)
    );
    Ok(Some(Readiness::new(Phase::Reconciling, "Frozen", message)))
}
