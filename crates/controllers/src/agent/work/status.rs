//! The status of a work after its writes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use super::decision::ManifestDecision;
use super::plan::WorkOnSpoke;
use super::pods::PodReader;
use api::Manifest;
use api::condition::ConditionStatus::True;
use api::condition::{Observation, set_condition};
use api::names::{WORK_FINALIZER, work_conditions};
use api::work::v1::{ManifestWork, ManifestWorkStatus};
use engine::work::{
    ApplyRefusal, Attempt, Live, ManifestResult, Wanted, is_contested, was_applied, work_status,
};
use object::{Key, Metadata as _, Object, ObjectRef};
use reconcile::{Action, Answer, Executed, Outcome, Site, View};

/// The writes of a plan by object; `None` if a write was not attempted.
type Writes<'a> = BTreeMap<ObjectRef, (&'a Action, Option<&'a Outcome>)>;

impl WorkOnSpoke {
    pub(super) fn status(
        &self,
        view: &impl View,
        done: &Executed,
        now: Timestamp,
    ) -> Option<ManifestWorkStatus> {
        let work = self.work.as_ref()?;
        if work.is_terminating() {
            return work.has_finalizer(WORK_FINALIZER).then(|| deleting(work, done, now));
        }
        let owner = self.owner()?;
        let writes = writes(done);
        // Writes that were not attempted are not reported; the next attempt reports them.
        let mut own = self.wanted.iter().filter_map(|wanted| writes.get(&wanted.reference));
        let is_reached = own.any(|(_, outcome)| outcome.is_some());
        if done.outcomes.len() < done.plan.steps.len() && !is_reached {
            return None;
        }
        let decisions: Vec<ManifestDecision> =
            self.wanted.iter().map(|wanted| ManifestDecision::new(wanted, work, &owner, view)).collect();
        // One status write reports all manifests once all outcomes are known. A write that this plan could not
        // make yet, such as without an inventory, is made and reported by the next plan.
        if !is_reached && decisions.iter().any(|decision| matches!(decision.attempt(), Attempt::None)) {
            return None;
        }
        let mut reader = PodReader::default();
        let seen = self.wanted.iter().zip(&decisions).map(|(wanted, decision)| {
            let attempt = self.attempt(wanted, &writes).unwrap_or_else(|| decision.attempt());
            // The object that a write returned is newer than the one that the plan read.
            let outcome = writes.get(&wanted.reference).and_then(|(_, outcome)| *outcome);
            let returned = outcome.and_then(|outcome| outcome.as_ref().ok()).and_then(Answer::object);
            let live = returned.map_or_else(|| decision.live_state(), |returned| Live::Read(Some(returned)));
            // Another work may have caused the correction. It may be waiting before its own next correction, so the
            // object stays contested while the two differ.
            let is_corrected = outcome.is_some() && was_applied(work, &wanted.meta);
            let attempt = match (attempt, &live) {
                (Attempt::Done, Live::Read(Some(live)))
                    if is_corrected || is_contested(work, &wanted.meta) =>
                {
                    self.rival(wanted, live, view).map_or(Attempt::Done, Attempt::Contested)
                }
                (attempt, _) => attempt,
            };
            let pods = reader.read(&live, view);
            ManifestResult { live, attempt, pods }
        });
        Some(work_status(work, &self.wanted, &seen.collect::<Vec<_>>(), now))
    }

    /// Returns another work on the cluster that owns an object and has other content for it.
    fn rival(&self, wanted: &Wanted, live: &Object, view: &impl View) -> Option<String> {
        let ordinal = usize::try_from(wanted.meta.ordinal).ok()?;
        let own = self.work.as_ref()?.spec.workload.manifests.get(ordinal)?;
        let is_rival =
            |other: &Manifest| other != own && Object(other.clone()).reference() == wanted.reference;
        let prefix = self.identity.applied_name("");
        let owners =
            live.at(&["metadata", "ownerReferences"]).and_then(Value::as_array).into_iter().flatten();
        let mut works = owners
            .filter(|owner| owner.get("kind").and_then(Value::as_str) == Some("AppliedManifestWork"))
            .filter_map(|owner| owner.get("name")?.as_str()?.strip_prefix(&prefix));
        let rival = works.find(|name| {
            let other = view.get::<ManifestWork>(&Key::namespaced(&self.identity.cluster, *name));
            other.ok().flatten().is_some_and(|other| other.spec.workload.manifests.iter().any(is_rival))
        });
        rival.map(str::to_owned)
    }

    /// Returns the outcome of the write of a manifest; `None` if no write was planned.
    fn attempt(&self, wanted: &Wanted, writes: &Writes<'_>) -> Option<Attempt> {
        let failed = |reason: String| Attempt::Failed(ApplyRefusal::Failed(reason));
        Some(match writes.get(&wanted.reference)? {
            // The decision about the content follows the write of the metadata.
            (Action::Patch { patch, .. }, Some(Ok(_))) if patch.keys().eq(["metadata"]) => Attempt::None,
            (_, Some(Ok(_))) => Attempt::Done,
            (_, Some(Err(failure))) if failure.rejects_object() => {
                Attempt::Failed(ApplyRefusal::Rejected(failure.message.clone()))
            }
            (_, Some(Err(failure))) => failed(failure.message.clone()),
            (_, None) => {
                match self.namespace_of(wanted).and_then(|namespace| writes.get(&namespace.reference)) {
                    Some((_, Some(Err(_)))) => {
                        failed(format!("namespaces {:?} not found", wanted.meta.namespace))
                    }
                    Some(_) | None => Attempt::None,
                }
            }
        })
    }

    /// Returns the manifest of the namespace that a manifest requires.
    fn namespace_of(&self, wanted: &Wanted) -> Option<&Wanted> {
        let needed = Key::cluster(&wanted.meta.namespace);
        self.wanted.iter().find(|other| other.is_namespace() && other.reference.key == needed)
    }
}

fn deleting(work: &ManifestWork, done: &Executed, now: Timestamp) -> ManifestWorkStatus {
    let mut status = work.status.clone().unwrap_or_default();
    let message = match done.failures().next() {
        Some((_, failure)) => format!("ManifestWork is being deleted: {failure}"),
        None => "ManifestWork is being deleted".to_owned(),
    };
    let deleting = Observation::new(work_conditions::DELETING, True, "WorkDeleting")
        .message(message)
        .at(work.metadata.generation.unwrap_or_default());
    set_condition(&mut status.conditions, deleting, now);
    status
}

fn writes(done: &Executed) -> Writes<'_> {
    let mut writes = Writes::new();
    for (step, actions) in done.plan.steps.iter().enumerate() {
        let outcomes = done.outcomes.get(step);
        for (index, action) in actions.iter().enumerate() {
            let outcome = outcomes.and_then(|outcomes| outcomes.get(index));
            if let Some(object) = written_object(action) {
                writes.insert(object, (action, outcome));
            }
        }
    }
    writes
}

/// Returns the object on the spoke that an action writes.
fn written_object(action: &Action) -> Option<ObjectRef> {
    match action {
        Action::Apply { site: Site::Spoke, object, .. }
        | Action::Create { site: Site::Spoke, object, .. } => Some(object.reference()),
        Action::Patch { site: Site::Spoke, target, .. } => Some(target.clone()),
        Action::Apply { .. }
        | Action::Create { .. }
        | Action::Replace { .. }
        | Action::Patch { .. }
        | Action::Delete { .. }
        | Action::Push(_)
        | Action::SetCommitStatus(_)
        | Action::Notify(_) => None,
    }
}
