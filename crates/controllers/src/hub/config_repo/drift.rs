//! Corrects objects that another client changed on the hub.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::identity::Identity;
use super::plan::{Draft, MAX_LISTED, later};
use super::status::{Phase, Readiness};
use api::gitops::v1alpha1::DriftStatus;
use engine::sync::{Apply, ObjectId};

/// Longest wait between two corrections of the same drift.
const LONGEST_DRIFT_WAIT: SignedDuration = SignedDuration::from_mins(10);

/// Applies objects again that another client changed on the hub. The wait doubles with each correction.
pub(super) fn correct(
    draft: &mut Draft<'_>,
    drifted: &[Apply<'_>],
    identity: &Identity,
) -> Option<Readiness> {
    let before = draft.status.drift.clone().unwrap_or_default();
    // A time in the future was written by a clock that was ahead, so it does not count.
    let last = before.last_time.as_ref().map(|time| time.0).filter(|last| *last <= draft.now);
    let Some(first) = drifted.first() else {
        // A drift that ended long ago is forgotten, so that the next one is corrected at once.
        match last.map(|last| later(last, LONGEST_DRIFT_WAIT * 3)) {
            Some(end) if end <= draft.now => draft.status.drift = None,
            Some(end) => draft.plan.wake(end),
            None => draft.status.drift = None,
        }
        return None;
    };
    let wait = SignedDuration::from_secs(1 << before.corrections.clamp(0, 10)).min(LONGEST_DRIFT_WAIT);
    let due = last.map(|last| later(last, wait)).filter(|due| before.corrections > 0 && *due > draft.now);
    if let Some(due) = due {
        draft.plan.wake(due);
        let message = format!(
            "{} was changed on the hub {} times and corrected each time; the next correction is at {due}. Stop the program or person that changes it, or remove the field from the repository",
            first.desired.reference, before.corrections
        );
        return Some(Readiness::new(Phase::Reconciling, "Drifted", message));
    }
    draft.plan.step(drifted.iter().map(|one| identity.apply(one, &draft.key)));
    let entry = |apply: &Apply<'_>| {
        let reference = &apply.desired.reference;
        ObjectId::of(reference).entry(&reference.gvk.version)
    };
    let seconds = Timestamp::from_second(draft.now.as_second()).unwrap_or(draft.now);
    draft.status.drift = Some(DriftStatus {
        corrections: before.corrections.saturating_add(1),
        last_time: Some(Time(seconds)),
        objects: drifted.iter().take(MAX_LISTED).map(entry).collect(),
        ..before
    });
    None
}
