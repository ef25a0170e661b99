//! Writes the status of a ConfigRepo.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

use super::commit;
use api::condition::{Conditions as _, Observation, set_condition};
use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoStatus, RecentResult, Revision, UnchangeableObject};
use api::names::gitops_conditions::{READY, RECONCILING, STALLED};
use engine::sync::{self, Desired, DesiredObject, Problem};
use object::duration::whole_second;
use object::text::short_commit;
use object::tree::Checkout;
use object::{Object, text};
use reconcile::{Action, Executed, Failure, FailureKind, StatusWrite, View};

/// Longest message of a condition; nobody reads more.
const MESSAGE: usize = 1500;

/// Number of results in the history, as in a Kustomization of Flux.
const HISTORY: usize = 5;

/// The reason while the hub refuses writes to the identity of the ConfigRepo.
const FORBIDDEN: &str = "Forbidden";

/// Reasons of failed fetches that end without a person.
pub(super) const TRANSIENT: &[&str] =
    &["SourceUnreachable", "SourceTimeout", "SourceAbandoned", "GitCacheFailed"];

/// The condition that is true, in the words of kstatus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The hub is as the repository says.
    Ready,
    /// The hub will reach the state without a change.
    Reconciling,
    /// The hub will become so only after a person does something.
    Stalled,
}

/// A phase with its reason and message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Readiness {
    pub(super) phase: Phase,
    pub(super) reason: String,
    pub(super) message: String,
}

impl Readiness {
    pub(super) fn new(phase: Phase, reason: &str, message: impl AsRef<str>) -> Self {
        Self { phase, reason: reason.into(), message: message.as_ref().into() }
    }

    /// Returns a commit that is refused for its problems.
    pub(super) fn refused(problems: &[Problem], status: &ConfigRepoStatus) -> Self {
        let reason = problems.first().map_or("Refused", |problem| problem.reason);
        let message = format!("{}; {}", sync::summary(problems), still_applied(status));
        Self::new(Phase::Stalled, reason, message)
    }
}

/// Names the commit that stays applied, and a later one that is applied in part.
pub(super) fn still_applied(status: &ConfigRepoStatus) -> String {
    match (&status.partial, &status.applied) {
        (Some(Revision { commit, .. }), _) => {
            format!("{} stays applied in part{}", short_commit(commit), applied_before(status, commit))
        }
        (None, Some(applied)) => format!("{} stays applied", short_commit(&applied.commit)),
        (None, None) => "nothing has been applied yet".into(),
    }
}

/// Names the commit that was applied before one that is applied in part.
pub(super) fn applied_before(status: &ConfigRepoStatus, commit: &str) -> String {
    let before = status.applied.as_ref().filter(|applied| applied.commit != commit);
    let named = before.map(|applied| format!(", and {} was applied before", short_commit(&applied.commit)));
    named.unwrap_or_default()
}

/// Returns whether the status is about a commit (an empty one means any), and about the present spec.
pub(super) fn is_about(repo: &ConfigRepo, commit: &str) -> bool {
    repo.status.as_ref().is_some_and(|status| {
        status.observed_generation == repo.metadata.generation
            && status.seen.as_ref().is_some_and(|seen| commit.is_empty() || seen.commit == commit)
    })
}

/// Returns whether the status reports that the operator waits for its own reads.
pub(super) fn is_waiting(repo: &ConfigRepo) -> bool {
    let conditions = repo.status.iter().flat_map(|status| &status.conditions);
    conditions.into_iter().any(|condition| {
        condition.type_ == RECONCILING
            && condition.is_true()
            && matches!(condition.reason.as_str(), "Fetching" | "Rendering" | "Waiting")
    })
}

/// Sets the three conditions that kstatus reads.
pub(super) fn conclude(
    status: &mut ConfigRepoStatus,
    generation: i64,
    readiness: &Readiness,
    now: Timestamp,
) {
    let Readiness { phase, reason, message } = readiness;
    // `kubectl get` shows one line.
    let message = text::plain(message, MESSAGE);
    let mut set = |condition: &str, holds: bool, says: bool| {
        let (reason, message) =
            if says { (reason.as_str(), message.clone()) } else { ("AsExpected", String::new()) };
        set_condition(
            &mut status.conditions,
            Observation::new(condition, holds.into(), reason).message(message).at(generation),
            now,
        );
    };
    set(READY, *phase == Phase::Ready, true);
    set(RECONCILING, *phase == Phase::Reconciling, *phase == Phase::Reconciling);
    set(STALLED, *phase == Phase::Stalled, *phase == Phase::Stalled);
    status.observed_generation = Some(generation);
}

/// Adds the result of the commit that was fetched last to the history. A commit that is still on its way has
/// none yet.
pub(super) fn record(status: &mut ConfigRepoStatus, readiness: &Readiness, now: Timestamp) {
    let Readiness { phase, reason, message: _ } = readiness;
    let Some(Revision { commit, digest, .. }) = status.seen.as_ref().filter(|_| *phase != Phase::Reconciling)
    else {
        return;
    };
    let is_it = |one: &RecentResult| (&one.commit, &one.digest, &one.reason) == (commit, digest, reason);
    if status.history.first().is_some_and(is_it) {
        return;
    }
    let others = status.history.iter().filter(|one| !is_it(one)).cloned();
    let newest = RecentResult {
        commit: commit.clone(),
        digest: digest.clone(),
        reason: reason.clone(),
        since: Some(Time(whole_second(now))),
        ..RecentResult::default()
    };
    status.history = std::iter::once(newest).chain(others).take(HISTORY).collect();
}

/// Returns the revision of a commit that was fetched. Under another spec, the commit is judged again.
pub(super) fn seen(repo: &ConfigRepo, checkout: &Checkout, now: Timestamp) -> Revision {
    let before = repo.status.as_ref().and_then(|status| status.seen.as_ref());
    let judged = before.filter(|_| is_about(repo, &checkout.revision));
    let digest = judged.map_or("", |seen| seen.digest.as_str());
    revision(before, checkout, repo, digest, now)
}

/// Returns a revision; its time stays as long as the revision does not change.
pub(super) fn revision(
    before: Option<&Revision>,
    checkout: &Checkout,
    repo: &ConfigRepo,
    digest: &str,
    now: Timestamp,
) -> Revision {
    let (commit, url, reference) = (&checkout.revision, &repo.spec.url, repo.spec.r#ref.name());
    let same = before.filter(|before| {
        let same_source = before.url == *url && before.reference == reference;
        same_source && before.commit == *commit && before.digest == digest
    });
    same.cloned().unwrap_or_else(|| Revision {
        commit: commit.clone(),
        url: url.clone(),
        reference: reference.into(),
        digest: digest.into(),
        since: Some(Time(whole_second(now))),
        ..Revision::default()
    })
}

/// Rebases a drafted status onto the object as it is now. The step that records the inventory has changed the
/// object, and another controller may have changed it too.
pub(super) fn rebase(now: &ConfigRepo, draft: &StatusWrite) -> Option<StatusWrite> {
    let mut new = drafted(now, draft)?;
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

/// Returns an object as it is now, with a drafted status.
fn drafted(now: &ConfigRepo, draft: &StatusWrite) -> Option<ConfigRepo> {
    let mut value = Object::from_typed(now).into_value();
    json_patch::merge(&mut value, &Value::Object(draft.patch.clone()));
    serde_json::from_value(value).ok()
}

/// Returns whether the hub refuses writes to the identity of a ConfigRepo.
pub(super) fn is_forbidden(repo: &ConfigRepo) -> bool {
    repo.condition(READY).is_some_and(|ready| ready.reason == FORBIDDEN)
}

/// Drafts the status after a plan with a failed write.
pub(super) fn failed(
    repo: &ConfigRepo,
    view: &impl View,
    done: &Executed,
    now: Timestamp,
) -> Option<StatusWrite> {
    let failures: Vec<(&Action, &Failure)> = done.failures().collect();
    let worst = failures.iter().map(|(_, failure)| failure).max_by_key(|failure| failure.kind)?;
    let (phase, reason) = match worst.kind {
        // Another client wrote in between, and that write wakes the next plan.
        FailureKind::Conflict => return None,
        FailureKind::FieldConflict => (Phase::Stalled, "FieldConflict"),
        FailureKind::Invalid => (Phase::Stalled, "InvalidObject"),
        FailureKind::Forbidden => (Phase::Stalled, FORBIDDEN),
        FailureKind::NotFound => (Phase::Stalled, "NotFound"),
        FailureKind::Unavailable => (Phase::Reconciling, "ApplyFailed"),
    };
    let mut new = repo.clone();
    let status = new.status.get_or_insert_default();
    let generation = repo.metadata.generation.unwrap_or_default();
    let source = commit::source(repo, view);
    let checkout = source.as_ref().and_then(|source| source.checkout.as_ref());
    let desired = checkout.and_then(|checkout| commit::completed(repo, checkout, view).ok()?.ok());
    let origin = |action: &Action| {
        let origin = desired.as_ref()?.origin(&action.target()?);
        origin.cloned()
    };
    let recreated = recreated(desired.as_deref(), &failures, view);
    let is_recreated = !recreated.is_empty() && recreated.len() == failures.len();
    let (phase, reason) = if is_recreated { (Phase::Reconciling, "Recreating") } else { (phase, reason) };
    status.recreate = recreated;
    let problem = |(action, failure): &(&Action, &Failure)| Problem {
        reason,
        message: format!("{}{}", failure.message, if is_recreated { RECREATED } else { hint(failure) }),
        origin: origin(action).unwrap_or_default(),
    };
    let problems: Vec<_> = failures.iter().map(problem).collect();
    let commit = checkout.map(|checkout| checkout.revision.clone()).unwrap_or_default();
    let message = format!(
        "cannot apply {}: {}; {}",
        short_commit(&commit),
        sync::summary(&problems),
        left_applied(desired.as_deref(), &commit, status, view)
    );
    let readiness = Readiness::new(phase, reason, message);
    let draft = done.plan.status.as_ref().and_then(|draft| drafted(repo, draft));
    let planned = draft.unwrap_or_else(|| repo.clone()).status.unwrap_or_default();
    // Whether the plan waits for an approval does not depend on its writes.
    (status.held_plan, status.held_changes) = (planned.held_plan, planned.held_changes);
    let digest = |revision: &Option<Revision>| revision.as_ref().map(|revision| revision.digest.clone());
    if has_applied(done) && digest(&planned.seen) != digest(&status.applied) {
        status.partial.clone_from(&planned.seen);
    }
    let planned = planned.seen.map(|seen| seen.commit);
    // A newer commit may have been fetched since.
    if let Some(checkout) = checkout.filter(|checkout| planned.as_ref() == Some(&checkout.revision)) {
        status.seen = Some(seen(repo, checkout, now));
        record(status, &readiness, now);
    } else if let Some(seen) = status.seen.as_mut().filter(|_| !is_about(repo, "")) {
        // The commit was judged under another spec.
        seen.digest.clear();
    }
    conclude(status, generation, &readiness, now);
    StatusWrite::between(repo, &new)
}

/// Returns whether a plan has applied an object of its commit.
fn has_applied(done: &Executed) -> bool {
    let mut results = done.results();
    results.any(|(action, outcome)| matches!(action, Action::Apply { dry_run: false, .. }) && outcome.is_ok())
}

/// The end of a message about a field that cannot change, if the object is recreated.
const RECREATED: &str = "; it is deleted and created again, as its annotation says";

/// Says what to do about a field that cannot change, or that an apply has emptied.
fn hint(failure: &Failure) -> &'static str {
    if cannot_change(failure) {
        "; give the object another name, or annotate it in the repository with gitops.wheelwright.dev/force: enabled, and it is \
         deleted and created again"
    } else if failure.kind == FailureKind::Invalid && failure.message.contains(EMPTIED) {
        "; an apply cannot empty a map of a custom resource: leave the field out"
    } else {
        ""
    }
}

/// The words of kube-apiserver about a map that lost its last field in an apply.
const EMPTIED: &str = r#"in body must be of type object: "null""#;

/// Returns whether the API server refused to change a field. Only the text of its message shows this.
fn cannot_change(failure: &Failure) -> bool {
    const WORDS: [&str; 4] =
        ["immutable", "may not change once set", "updates to statefulset spec", "cannot change roleref"];
    let message = failure.message.to_lowercase();
    failure.kind == FailureKind::Invalid && WORDS.iter().any(|words| message.contains(words))
}

/// Returns the objects that cannot be changed, and that are deleted and created again as their annotation
/// says.
fn recreated(
    desired: Option<&Desired>,
    failures: &[(&Action, &Failure)],
    view: &impl View,
) -> Vec<UnchangeableObject> {
    let refused = failures.iter().filter(|(_, failure)| cannot_change(failure));
    let refused: Vec<_> = refused.filter_map(|(action, _)| action.target()).collect();
    let objects = desired.into_iter().flat_map(|desired| &desired.objects);
    let recreated = objects.filter(|object| object.is_recreated && refused.contains(&object.reference));
    let unchangeable = recreated.filter_map(|object| {
        let live = view.observed(&object.reference).ok()??;
        let (uid, digest) = (live.uid().to_owned(), object.digest.clone());
        Some(UnchangeableObject { uid, digest, ..UnchangeableObject::default() })
    });
    unchangeable.collect()
}

/// Reports which commit the objects on the hub are from after a write of `commit` failed.
fn left_applied(
    desired: Option<&Desired>,
    commit: &str,
    status: &ConfigRepoStatus,
    view: &impl View,
) -> String {
    let objects = desired.map_or(&[][..], |desired| &desired.objects);
    let is_applied = |object: &&Arc<DesiredObject>| {
        let live = view.observed(&object.reference).ok().flatten();
        live.is_some_and(|live| object.is_last_applied(&live))
    };
    let (done, all) = (objects.iter().filter(is_applied).count(), objects.len());
    if done == 0 {
        return still_applied(status);
    }
    let before = applied_before(status, commit);
    format!("{done} of {all} objects are as in {}{before}", short_commit(commit))
}
