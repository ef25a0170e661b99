//! Objects that are being deleted, including those whose deletion is stuck.

use jiff::{SignedDuration, Timestamp};

use super::draft::Draft;
use super::health;
use super::status::{Phase, Readiness};
use engine::sync::Terminating;
use object::duration::later;

/// Minimum time after which a stuck deletion is reported.
const LEAST: SignedDuration = SignedDuration::from_mins(5);
/// Maximum number of finalizers in a message.
const MAX_FINALIZERS: usize = 3;

/// Reports the object whose deletion has taken longest, if it exceeds `spec.healthTimeout`. Otherwise, schedules a
/// wake-up for when it will.
pub(super) fn stuck(draft: &mut Draft<'_>, terminating: &[Terminating]) -> Option<Readiness> {
    let began = |one: &Terminating| one.since.unwrap_or(Timestamp::MAX);
    let first = terminating.iter().min_by_key(|one| began(one))?;
    let end = later(first.since?, health::timeout(draft.repo).max(LEAST));
    if end > draft.now {
        draft.plan.wake(end);
        return None;
    }
    let more = terminating.len() - 1;
    let others = if more > 0 { format!(", and {more} more are being deleted") } else { String::new() };
    let message =
        format!("{} has been terminating since {}: {}{others}", first.object, began(first), obstacle(first));
    Some(Readiness::new(Phase::Stalled, "DeletionStuck", message))
}

/// Reports objects that are being deleted. `state` describes the rest of the ConfigRepo's state.
pub(super) fn progress(state: &str, terminating: &[Terminating]) -> Option<Readiness> {
    let first = &terminating.first()?.object;
    let message = format!("{state}; {} objects are being deleted, such as {first}", terminating.len());
    Some(Readiness::new(Phase::Reconciling, "Deleting", message))
}

/// Describes what an object waits for.
fn obstacle(one: &Terminating) -> String {
    if one.finalizers.is_empty() {
        return "it has no finalizer; see its status and what it contains".into();
    }
    let named: Vec<&str> = one.finalizers.iter().take(MAX_FINALIZERS).map(String::as_str).collect();
    format!(
        "it waits for its finalizers to be removed ({}); check that their controllers are running",
        named.join(", ")
    )
}
