//! Corrects objects that another client changed on the hub.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use object::duration::later;

use super::identity::RepoIdentity;
use super::plan::{Draft, MAX_LISTED};
use super::status::{Phase, Readiness};
use api::gitops::v1alpha1::DriftStatus;
use api::names::{IGNORE_FIELDS_ANNOTATION, RECONCILE_AT_ANNOTATION};
use engine::sync::{Correction, ObjectId};

/// Longest wait between two corrections of the same drift.
const LONGEST_DRIFT_WAIT: SignedDuration = SignedDuration::from_mins(10);

/// Most corrections in a row; after them a person has to resolve the conflict. The waits between them make 17
/// minutes.
const MAX_CORRECTIONS: i32 = 10;
/// Most fields that a message names.
const MAX_FIELDS: usize = 3;

/// Applies objects again that another client changed on the hub. The wait doubles with each correction, and
/// after [`MAX_CORRECTIONS`] there are no more until a person asks for one.
pub(super) fn correct(
    draft: &mut Draft<'_>,
    drifted: &[Correction<'_>],
    identity: &RepoIdentity,
) -> Option<Readiness> {
    let handled = draft.repo.status.as_ref().map(|status| status.last_handled_reconcile_at.as_str());
    let is_requested = handled.unwrap_or_default() != draft.status.last_handled_reconcile_at;
    let before = draft.status.drift.clone().filter(|_| !is_requested).unwrap_or_default();
    // A time in the future was written by a clock that was ahead, so it does not count.
    let last = before.last_time.as_ref().map(|time| time.0).filter(|last| *last <= draft.now);
    let Some(first) = drifted.first() else {
        // A drift that ended long ago is dropped, so that the next one is corrected at once.
        match last.map(|last| later(last, LONGEST_DRIFT_WAIT * 3)) {
            Some(end) if end <= draft.now => draft.status.drift = None,
            Some(end) => draft.plan.wake(end),
            None => draft.status.drift = None,
        }
        return None;
    };
    let wait = SignedDuration::from_secs(1 << before.corrections.clamp(0, 10)).min(LONGEST_DRIFT_WAIT);
    let due = last.map(|last| later(last, wait)).filter(|due| before.corrections > 0 && *due > draft.now);
    let summary = || {
        let (object, by) = (&first.apply.desired.reference, by(first));
        let times = before.corrections;
        format!("{object} was changed on the hub {times} times and corrected each time{by}")
    };
    let hint = format!(
        "Stop what changes it, or leave it the fields with the annotation {IGNORE_FIELDS_ANNOTATION}, or remove them from the repository"
    );
    if before.corrections >= MAX_CORRECTIONS {
        let message = format!(
            "{}; it is not corrected any more. {hint}; the annotation {RECONCILE_AT_ANNOTATION} begins anew",
            summary()
        );
        return Some(Readiness::new(Phase::Stalled, "Fight", message));
    }
    if let Some(due) = due {
        draft.plan.wake(due);
        let message = format!("{}; the next correction is at {due}. {hint}", summary());
        return Some(Readiness::new(Phase::Reconciling, "Drifted", message));
    }
    draft.plan.step(drifted.iter().filter_map(|one| identity.take_over(&one.apply)));
    draft.plan.step(drifted.iter().map(|one| identity.apply(&one.apply, &draft.key)));
    let entry = |one: &Correction<'_>| {
        let reference = &one.apply.desired.reference;
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

/// Names the managers that own fields of the commit, and the fields.
fn by(correction: &Correction<'_>) -> String {
    let one = |(manager, fields): &(String, Vec<String>)| {
        let more = fields.len().saturating_sub(MAX_FIELDS);
        let shown: Vec<_> = fields.iter().take(MAX_FIELDS).map(String::as_str).collect();
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("; {manager} sets {}{rest}", shown.join(", "))
    };
    correction.changed_by.iter().take(MAX_FIELDS).map(one).collect()
}
