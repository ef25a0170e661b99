//! What a repository's status says.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

use super::commit;
use api::condition::{Observation, set_condition};
use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoStatus, Revision};
use api::names::gitops_conditions::{READY, RECONCILING, STALLED};
use engine::sync::{self, Problem};
use object::text;
use object::{Object, ObjectRef};
use reconcile::{Action, Executed, Failure, FailureKind, StatusWrite, View};

/// Longest message of a condition; what is longer does not help.
const MESSAGE: usize = 1500;

/// Where a repository stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The hub is as the repository says.
    Ready,
    /// It will be, without anybody's help.
    Progressing,
    /// It will not be before a person does something.
    Stalled,
}

/// A phase with its reason and message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) phase: Phase,
    pub(super) reason: String,
    pub(super) message: String,
}

impl Verdict {
    pub(super) fn new(phase: Phase, reason: &str, message: impl AsRef<str>) -> Self {
        Self { phase, reason: reason.into(), message: message.as_ref().into() }
    }

    /// Problems that stop a commit.
    pub(super) fn stopped(problems: &[Problem], applied: Option<&Revision>) -> Self {
        let reason = problems.first().map_or("Refused", |problem| problem.reason);
        Self::new(Phase::Stalled, reason, format!("{}; {}", sync::summary(problems), stays(applied)))
    }
}

/// What stays applied when something fails.
pub(super) fn stays(applied: Option<&Revision>) -> String {
    match applied {
        Some(applied) => format!("{} stays applied", short(&applied.commit)),
        None => "nothing has been applied yet".into(),
    }
}

/// The first digits of a commit, as people name it.
pub(super) fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}

/// Sets the three conditions that kstatus reads.
pub(super) fn conclude(status: &mut ConfigRepoStatus, generation: i64, verdict: &Verdict, now: Timestamp) {
    let Verdict { phase, reason, message } = verdict;
    // Several lines are one: what is shown in a table has no room for more.
    let message = text::plain(message, MESSAGE);
    let mut set = |condition: &str, holds: bool, says: bool| {
        let (reason, message) =
            if says { (reason.as_str(), message.clone()) } else { ("AsExpected", String::new()) };
        let status_value = if holds { "True" } else { "False" };
        set_condition(
            &mut status.conditions,
            Observation::new(condition, status_value, reason, message).at(generation),
            now,
        );
    };
    set(READY, *phase == Phase::Ready, true);
    set(RECONCILING, *phase == Phase::Progressing, *phase == Phase::Progressing);
    set(STALLED, *phase == Phase::Stalled, *phase == Phase::Stalled);
    status.observed_generation = Some(generation);
}

/// A revision, dated from when it became what it is now.
pub(super) fn revision(
    before: Option<&Revision>,
    commit: &str,
    reference: &str,
    digest: &str,
    now: Timestamp,
) -> Revision {
    let same = before
        .filter(|before| before.commit == commit && before.digest == digest && before.reference == reference);
    let seconds = Timestamp::from_second(now.as_second()).unwrap_or(now);
    same.cloned().unwrap_or_else(|| Revision {
        commit: commit.into(),
        reference: reference.into(),
        digest: digest.into(),
        since: Some(Time(seconds)),
        ..Revision::default()
    })
}

/// A drafted status on the object as it is now: writing the inventory ahead has changed it since, and another controller may have.
pub(super) fn rebase(now: &ConfigRepo, draft: &StatusWrite) -> Option<StatusWrite> {
    let mut value = Object::from_typed(now).into_value();
    json_patch::merge(&mut value, &Value::Object(draft.patch.clone()));
    let mut new: ConfigRepo = serde_json::from_value(value).ok()?;
    let (status, before) = (new.status.as_mut()?, now.status.as_ref());
    let drafted = std::mem::take(&mut status.conditions);
    status.conditions = before.map(|status| status.conditions.clone()).unwrap_or_default();
    for condition in drafted.into_iter().filter(|c| [READY, RECONCILING, STALLED].contains(&c.type_.as_str()))
    {
        match status.conditions.iter_mut().find(|held| held.type_ == condition.type_) {
            Some(held) => *held = condition,
            None => status.conditions.push(condition),
        }
    }
    StatusWrite::between(now, &new)
}

/// What a plan that was not executed whole leaves to say.
pub(super) fn failed(
    repo: &ConfigRepo,
    view: &impl View,
    done: &Executed,
    now: Timestamp,
) -> Option<StatusWrite> {
    let failures: Vec<(&Action, &Failure)> = done.failures().collect();
    let worst = failures.iter().map(|(_, failure)| failure).max_by_key(|failure| failure.kind)?;
    let (phase, reason) = match worst.kind {
        // Somebody wrote in between; the next plan is on its way.
        FailureKind::Conflict => return None,
        FailureKind::Owned => (Phase::Stalled, "FieldConflict"),
        FailureKind::Invalid => (Phase::Stalled, "InvalidObject"),
        FailureKind::Forbidden => (Phase::Stalled, "Forbidden"),
        FailureKind::NotFound => (Phase::Stalled, "NotFound"),
        FailureKind::Unavailable => (Phase::Progressing, "ApplyFailed"),
    };
    let mut new = repo.clone();
    let status = new.status.get_or_insert_default();
    let generation = repo.metadata.generation.unwrap_or_default();
    let source = view.source(&object::Key::of(repo));
    let checkout = source.as_ref().and_then(|source| source.checkout.as_ref());
    let desired =
        checkout.and_then(|checkout| commit::desired(repo, checkout, view).ok()).unwrap_or_default();
    let origin = |what: &ObjectRef| {
        desired.iter().find(|d| d.reference == *what).map(|d| d.origin.clone()).unwrap_or_default()
    };
    let problems: Vec<_> = failures
        .iter()
        .map(|(action, failure)| {
            let origin = action_target(action).map(|what| origin(&what)).unwrap_or_default();
            Problem { reason, message: failure.message.clone(), origin }
        })
        .collect();
    let commit = checkout.map(|checkout| checkout.revision.clone()).unwrap_or_default();
    let message = format!(
        "cannot apply {}: {}; {}",
        short(&commit),
        sync::summary(&problems),
        stays(status.applied.as_ref())
    );
    conclude(status, generation, &Verdict::new(phase, reason, message), now);
    StatusWrite::between(repo, &new)
}

fn action_target(action: &Action) -> Option<ObjectRef> {
    match action {
        Action::Apply { object, .. } | Action::Create { object, .. } | Action::Replace { object, .. } => {
            Some(object.reference())
        }
        Action::Patch { target, .. } | Action::Delete { target, .. } => Some(target.clone()),
        Action::Push(_) => None,
    }
}
