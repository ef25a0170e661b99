//! The status of a work after its writes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::plan::WorkOnSpoke;
use api::condition::ConditionStatus::True;
use api::condition::{Observation, set_condition};
use api::names::{WORK_FINALIZER, work_conditions};
use api::work::v1::ManifestWorkStatus;
use engine::work::{Seen, refusal, work_status};
use object::{Metadata as _, Object, ObjectRef};
use reconcile::{Action, Executed, Outcome, Read, Site, View};

impl WorkOnSpoke {
    pub(super) fn status(
        &self,
        view: &impl View,
        done: &Executed,
        now: Timestamp,
    ) -> Option<ManifestWorkStatus> {
        let work = self.work.as_ref()?;
        if work.is_terminating() {
            let mut status = work.status.clone().unwrap_or_default();
            let deleting = Observation::new(work_conditions::DELETING, True, "WorkDeleting")
                .message("ManifestWork is being deleted");
            set_condition(&mut status.conditions, deleting, now);
            return work.has_finalizer(WORK_FINALIZER).then_some(status);
        }
        self.applied.as_ref()?;
        let written: BTreeMap<ObjectRef, &Outcome> =
            done.results().filter_map(|(action, outcome)| Some((written_object(action)?, outcome))).collect();
        // Writes that were not reached say nothing; the next attempt will.
        if done.outcomes.len() < done.plan.steps.len() && written.is_empty() {
            return None;
        }
        // A manifest whose write was not reached is not as wanted, although nothing has failed for it.
        let planned: BTreeSet<ObjectRef> =
            done.plan.steps.iter().flatten().filter_map(written_object).collect();
        let live: Vec<Read<Option<Arc<Object>>>> =
            self.wanted.iter().map(|wanted| view.observed(&wanted.reference)).collect();
        let seen = self.wanted.iter().zip(&live).map(|(wanted, live)| {
            let outcome = written.get(&wanted.reference);
            if outcome.is_none() && planned.contains(&wanted.reference) {
                return Seen::default();
            }
            let result = outcome.map(|outcome| match outcome {
                Ok(_) => Ok(()),
                Err(failure) => Err(failure.message.clone()),
            });
            // The object that a write returned is newer than the one that was read before it.
            let returned = outcome.and_then(|outcome| outcome.as_ref().ok()).and_then(Option::as_ref);
            let read = live.as_ref().ok().map(Option::as_deref);
            let refused = refusal(wanted).map(|why| Err(why.to_owned()));
            Seen { live: returned.map(Some).or(read), written: refused.or(result) }
        });
        Some(work_status(work, &self.wanted, &seen.collect::<Vec<_>>(), now))
    }
}

/// The object that an action applies or creates on the spoke.
fn written_object(action: &Action) -> Option<ObjectRef> {
    match action {
        Action::Apply { site: Site::Spoke, object, .. } | Action::Create { site: Site::Spoke, object } => {
            Some(object.reference())
        }
        Action::Apply { .. }
        | Action::Create { .. }
        | Action::Replace { .. }
        | Action::Patch { .. }
        | Action::Delete { .. }
        | Action::Push(_) => None,
    }
}
