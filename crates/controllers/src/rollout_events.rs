//! Events of rollouts, for `kubectl describe` and `wheelwright events`.
//!
//! An event describes a change. The previous state is read from the status that the plan replaces, so a plan that
//! repeats a decision has no event.

use api::cluster::v1beta1::Placement;
use api::gitops::v1alpha1::RolloutPolicy;
use engine::addon::progress;
use engine::plural::counted;
use engine::replica_set::ReportedErrors;
use engine::rollout::state::{ClusterState, Wait};
use engine::rollout::{Input, RolloutDecision};
use object::{Gvk, Key, Kind, ObjectRef};
use reconcile::{Action, Event, EventType, Executed, Plan, StatusWrite};

/// Reason of the event for a quarantined revision.
const ROLLED_BACK: &str = "RolledBack";

/// The rollout of a revision on the clusters of a placement, before and after a decision.
pub(super) struct RolloutChange<'a> {
    pub(super) placement: &'a Key,
    /// The input of the decision.
    pub(super) input: &'a Input,
    pub(super) decision: &'a RolloutDecision,
    /// The display name of the revision.
    pub(super) revision: &'a str,
    /// Where and why it failed; empty if it has not failed.
    pub(super) failure: &'a str,
    /// The previous message of the rollout's condition; empty if it was about another revision.
    pub(super) before: &'a str,
    /// The new message of the condition.
    pub(super) message: &'a str,
    /// The approvals that it previously waited for.
    pub(super) waited: &'a [String],
    /// True if the first clusters get the revision now.
    pub(super) starts: bool,
    /// True if the revision has now succeeded on every cluster, but had not before.
    pub(super) completes: bool,
}

impl RolloutChange<'_> {
    /// Returns the events for the object that is rolled out.
    pub(super) fn events<K: Kind>(&self, object: &K) -> Vec<Event> {
        let about = format!("{} on placement {}", self.named(), self.placement);
        let event = |(event_type, reason, message): (EventType, &str, String)| Event {
            related: Some((ObjectRef::of::<Placement>(self.placement.clone()), String::new())),
            ..event(object, event_type, reason, format!("{about}: {message}"))
        };
        let rolled_back = self.rolled_back().map(|message| (EventType::Warning, ROLLED_BACK, message));
        let rolled_back = rolled_back.or_else(|| self.quarantined());
        let started = self.starts.then(|| (EventType::Normal, "RolloutStarted", self.state()));
        let completed = self.completes.then(|| (EventType::Normal, "RolloutCompleted", self.state()));
        let stages = rolled_back.into_iter().chain(started).chain(self.stopped()).chain(self.held());
        stages.chain(self.failing()).chain(self.approvals()).chain(completed).map(event).collect()
    }

    /// Returns the display name of the revision with the start of its hash.
    fn named(&self) -> String {
        let hash = self.input.revision.short();
        match self.revision {
            "" => hash.to_owned(),
            revision => format!("{revision} ({hash})"),
        }
    }

    /// Returns the message of the condition without OCM's numbers or, if nothing is left, the number of clusters
    /// that start or are done.
    fn state(&self) -> String {
        let (counts, details) = (&self.decision.counts, progress::details(self.message));
        let total = counted(counts.total, "cluster");
        match (details, counts.starting) {
            ("", 0) => format!("{} of {total} done", counts.done + counts.skipped),
            ("", starting) => format!("{starting} of {total} start"),
            _ => details.to_owned(),
        }
    }

    fn rolled_back(&self) -> Option<String> {
        let revision = self.decision.quarantine.as_ref();
        revision.filter(|new| self.input.quarantined.as_ref() != Some(*new))?;
        let states = self.decision.clusters.values().map(|assignment| &assignment.state);
        let returning = states.filter(|state| matches!(state, ClusterState::Returning { .. }));
        let failed = if self.failure.is_empty() { String::new() } else { format!(" on {}", self.failure) };
        Some(format!(
            "it is quarantined; rolling back {} to the previous revision; it failed{failed}",
            counted(returning.count(), "cluster")
        ))
    }

    /// Returns the event for a revision that someone else has quarantined, such as `wheelwright rollout undo`.
    fn quarantined(&self) -> Option<(EventType, &'static str, String)> {
        let is_quarantined = self.decision.quarantine.is_some();
        (is_quarantined && self.is_news("is quarantined"))
            .then(|| (EventType::Warning, "RevisionQuarantined", self.state()))
    }

    fn stopped(&self) -> Option<(EventType, &'static str, String)> {
        // A rollback has a separate event.
        let breach = self.decision.breach.as_ref().filter(|_| self.decision.quarantine.is_none())?;
        self.is_news(&breach.to_string()).then(|| (EventType::Warning, "RolloutStopped", self.state()))
    }

    /// Returns the event for a new reason that nothing more is started.
    fn held(&self) -> Option<(EventType, &'static str, String)> {
        let hold = self.decision.hold.as_ref()?;
        let (event_type, reason) = match hold {
            Wait::Paused { .. } => (EventType::Normal, "RolloutPaused"),
            Wait::Frozen { .. } => (EventType::Normal, "RolloutFrozen"),
            Wait::Superseded { .. } => (EventType::Normal, "RolloutHeld"),
            Wait::Refused | Wait::Unreachable { .. } => (EventType::Warning, "RolloutHeld"),
            // A quarantine and a breach have separate events. The other reasons hold single stages.
            Wait::Quarantine { .. }
            | Wait::Breach(_)
            | Wait::Stage { .. }
            | Wait::StageSoak { .. }
            | Wait::Unassigned
            | Wait::Approval { .. }
            | Wait::Slot { .. } => return None,
        };
        self.is_news(&hold.to_string()).then(|| (event_type, reason, self.state()))
    }

    /// Returns the event with the error of the first cluster, if more clusters report an error than before.
    fn failing(&self) -> Option<(EventType, &'static str, String)> {
        let [before, now] = [self.before, self.message].map(ReportedErrors::in_message);
        (now > before).then(|| (EventType::Warning, "ClusterFailing", self.state()))
    }

    /// Returns true if the condition names a reason now but did not before. The number of clusters follows a
    /// colon, and a different number is not a different reason.
    fn is_news(&self, reason: &str) -> bool {
        let head = reason.split(':').next().unwrap_or_default();
        self.message.contains(reason) && !self.before.contains(head)
    }

    fn approvals(&self) -> impl Iterator<Item = (EventType, &'static str, String)> {
        let new = self.decision.approvals.iter().filter(|token| !self.waited.contains(token));
        new.map(|token| {
            let message =
                format!("waits for a person; to allow it, add {token} to spec.approved of its RolloutPolicy");
            (EventType::Warning, "ApprovalNeeded", message)
        })
    }
}

/// Adds a status write and its events to a plan.
pub(super) fn draft(plan: &mut Plan, status: Option<StatusWrite>, events: Vec<Event>) {
    match status {
        Some(write) => plan.status = Some(write.with_events(events)),
        // An approval is stored in the RolloutPolicy, so the status may not change.
        None => plan.events.extend(events),
    }
}

/// Returns true if a plan has recorded its rollouts in their policy. A plan reports a quarantine that the policy
/// does not have yet, so the plan that records it is the last to report it.
fn has_recorded(done: &Executed) -> bool {
    let is_policy = |action: &Action| action.gvk() == Some(Gvk::of::<RolloutPolicy>());
    done.results().any(|(action, outcome)| outcome.is_ok() && is_policy(action))
}

/// Returns true if an event for a set is published after a plan with failed writes. A rollout has started once one
/// of its works is written; until then, each plan drafts that event. The other events describe the new state of
/// the status or the policy.
pub(super) fn is_published_for_set(event: &Event, done: &Executed) -> bool {
    match event.reason.as_str() {
        "RolloutStarted" => done.outcomes.last().is_some_and(|step| step.iter().any(Result::is_ok)),
        ROLLED_BACK => has_recorded(done),
        _ => true,
    }
}

/// Returns the status of an add-on after a plan, if every step was attempted or if a rollback was recorded.
pub(super) fn status_of_addon(done: &Executed) -> Option<StatusWrite> {
    let mut status = done.plan.status.clone()?;
    status.events.retain(|event| event.reason != ROLLED_BACK || has_recorded(done));
    let is_reached = done.outcomes.len() == done.plan.steps.len();
    (is_reached || tells_of_rollback(&status)).then_some(status)
}

/// Returns true if the events of a status report a rollback.
pub(super) fn tells_of_rollback(status: &StatusWrite) -> bool {
    status.events.iter().any(|event| event.reason == ROLLED_BACK)
}

/// Returns an event for an object that is rolled out.
pub(super) fn event<K: Kind>(object: &K, event_type: EventType, reason: &str, message: String) -> Event {
    let action = match reason {
        ROLLED_BACK => "Rollback",
        _ => "RollOut",
    };
    Event::new(object, event_type, reason, action, message)
}

#[cfg(test)]
mod tests;
