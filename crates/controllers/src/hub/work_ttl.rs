//! Deletes completed works after their time to live.

use jiff::{SignedDuration, Timestamp};

use api::condition::find_condition;
use api::names::{WORK_REPLICA_SET_LABEL, work_conditions::COMPLETE};
use api::work::v1::ManifestWork;
use object::duration::later;
use object::{Key, Metadata as _};
use reconcile::{Action, Change, Controller, Plan, Read, View, Watches};

/// Deletes a work `deleteOption.ttlSecondsAfterFinished` after its completion. Works of a ManifestWorkReplicaSet
/// are left to their set.
pub(crate) struct WorkTtlController;

impl Controller for WorkTtlController {
    const NAME: &'static str = "work-ttl";
    type Primary = ManifestWork;

    fn concerns(change: &Change<ManifestWork>) -> bool {
        change.differs_in(|work| {
            (expires_at(work), work.is_terminating(), work.label(WORK_REPLICA_SET_LABEL).is_some())
        })
    }

    fn watches<W: Watches>(_: &mut W) {}

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        let mut plan = Plan::nothing();
        let Some(work) = view.get::<ManifestWork>(key)? else { return Ok(plan) };
        if work.is_terminating() || work.label(WORK_REPLICA_SET_LABEL).is_some() {
            return Ok(plan);
        }
        match expires_at(&work) {
            Some(at) if at <= now => plan.step([Action::delete(work.as_ref())]),
            Some(at) => plan.wake(at),
            None => {}
        }
        Ok(plan)
    }
}

fn expires_at(work: &ManifestWork) -> Option<Timestamp> {
    let seconds = work.spec.delete_option.as_ref()?.ttl_seconds_after_finished?;
    let complete = find_condition(&work.status.as_ref()?.conditions, COMPLETE).filter(|c| c.is_true())?;
    let is_current = complete.observed_generation.is_none_or(|seen| Some(seen) == work.metadata.generation);
    let ended = complete.last_transition_time.0;
    is_current.then(|| later(ended, SignedDuration::from_secs(seconds.max(0))))
}
