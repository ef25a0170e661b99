//! The freeze windows of a ConfigRepo, in which no new commit is applied, and its apply windows, outside of which
//! none is.

use super::commit::Commit;
use super::draft::Draft;
use super::status::{Phase, Readiness, still_applied};
use api::names::approval_reasons::{FROZEN, OUTSIDE_APPLY_WINDOWS};
use engine::rollout::{ApplyWait, ApplyWindows};
use engine::sync::Problem;
use object::text::short_commit;

/// Returns the readiness of a commit that waits for the end of a freeze window or the start of an apply window. A
/// commit whose objects are already applied changes nothing and does not wait.
///
/// # Errors
/// Returns the problem of an invalid window.
pub(super) fn unmet(draft: &mut Draft<'_>, commit: &Commit<'_>) -> Result<Option<Readiness>, Problem> {
    let windows = ApplyWindows::read(&draft.repo.spec)
        .map_err(|refused| Problem::of_commit("InvalidSpec", refused.to_string()))?;
    let applied = draft.status.applied.as_ref();
    if applied.is_some_and(|applied| applied.digest == commit.desired.digest) {
        return Ok(None);
    }
    let Some(wait) = windows.wait(draft.now) else { return Ok(None) };
    draft.plan.wake(wait.until());
    let (phase, reason, what) = match wait {
        ApplyWait::Freeze { window, until } => {
            (Phase::Reconciling, FROZEN, format!("the freeze {window} to end at {until} at the earliest"))
        }
        ApplyWait::Window { window, until } => {
            let what = format!("the apply window {window} to open at {until}");
            (Phase::Reconciling, OUTSIDE_APPLY_WINDOWS, what)
        }
        ApplyWait::NoWindow { until: _ } => {
            let what = "an apply window, and none opens within a year".to_owned();
            (Phase::Stalled, OUTSIDE_APPLY_WINDOWS, what)
        }
    };
    let revision = short_commit(&commit.checkout.revision);
    let message = format!("{revision} waits for {what}; {}", still_applied(&draft.status));
    Ok(Some(Readiness::new(phase, reason, message)))
}
