//! The status after a plan with a failed write.

use std::sync::Arc;

use jiff::Timestamp;

use super::commit;
use super::paths::directories;
use super::refusal::{RefusedField, TYPED_PATCH};
use super::report::{conclude, failed_fetch};
use super::status::{
    FORBIDDEN, Phase, Readiness, applied_before, drafted, is_about, is_forbidden, record, seen, still_applied,
};
use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoStatus, Revision, UnchangeableObject};
use engine::registration::rbac::RBAC;
use engine::sync::{self, Desired, DesiredObject, Problem};
use object::text::short_commit;
use object::tree::Checkout;
use object::{Gvk, Location};
use reconcile::{Action, Executed, Failure, FailureKind, StatusWrite, View};

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
    let source = commit::source(repo, view);
    let checkout = source.as_ref().and_then(|source| source.checkout.as_ref());
    let desired = checkout.and_then(|checkout| commit::completed(repo, checkout, view).ok()?.ok());
    let commit = checkout.map(|checkout| checkout.revision.clone()).unwrap_or_default();
    let recreated = recreated(desired.as_deref(), &failures, view);
    let is_recreated = !recreated.is_empty() && recreated.len() == failures.len();
    let is_told = is_forbidden(repo) && is_about(repo, &commit);
    let (phase, reason) = match () {
        () if is_recreated => (Phase::Reconciling, "Recreating"),
        () if is_early(done) => (Phase::Reconciling, "Waiting"),
        // The next plan writes the permissions before it retries the other objects.
        () if are_permissions_needed(done) && !is_told => (Phase::Reconciling, FORBIDDEN),
        () if are_permissions_needed(done) => (Phase::Stalled, FORBIDDEN),
        () => (phase, reason),
    };
    status.recreate = recreated;
    let what_to_do = |failure: &Failure| if is_recreated { RECREATED } else { hint(failure) };
    let problem = |(action, failure): &(&Action, &Failure)| {
        let (suggestion, origin) = match (&desired, checkout) {
            (Some(desired), Some(checkout)) => refused(repo, (checkout, desired), action, failure),
            (None, _) | (_, None) => Default::default(),
        };
        let message = format!("{}{suggestion}{}", said(failure), what_to_do(failure));
        Problem { reason, message, origin }
    };
    let unlisted = failures.iter().skip(MAX_LOCATED);
    let unlisted = unlisted.map(|(_, failure)| Problem::of_commit(reason, &failure.message));
    let problems: Vec<_> = failures.iter().take(MAX_LOCATED).map(problem).chain(unlisted).collect();
    let draft = done.plan.status.as_ref().and_then(|draft| drafted(repo, draft));
    let planned = draft.unwrap_or_else(|| repo.clone()).status.unwrap_or_default();
    // The pending approvals of a plan do not depend on its writes.
    (status.held_plan, status.held_changes) = (planned.held_plan, planned.held_changes);
    status.held_deletions = planned.held_deletions;
    let digest = |revision: &Option<Revision>| revision.as_ref().map(|revision| revision.digest.clone());
    if has_applied(done) && digest(&planned.seen) != digest(&status.applied) {
        status.partial.clone_from(&planned.seen);
    }
    let message = format!(
        "cannot apply {}: {}; {}",
        short_commit(&commit),
        sync::summary(&problems),
        left_applied(desired.as_deref(), &commit, status, view)
    );
    let mut readiness = Readiness::new(phase, reason, message);
    status.last_handled_reconcile_at = planned.last_handled_reconcile_at;
    status.unreachable_since = planned.unreachable_since;
    let planned = planned.seen.map(|seen| seen.commit);
    // A newer commit may have been fetched since.
    if let Some(checkout) = checkout.filter(|checkout| planned.as_ref() == Some(&checkout.revision)) {
        status.seen = Some(seen(repo, checkout, now));
        record(status, &readiness, now);
    } else if let Some(seen) = status.seen.as_mut().filter(|_| !is_about(repo, "")) {
        // The commit was judged under another spec.
        seen.digest.clear();
    }
    if let Some(failure) = source.as_ref().and_then(|source| source.failure.as_ref()) {
        readiness = failed_fetch(failure, Some(readiness), status);
    }
    let event = conclude(repo, status, &readiness, now);
    Some(StatusWrite::between(repo, &new)?.with_events(event.into_iter().collect()))
}

/// Returns the message of a failure without the repeated object: an API server that rejects the type of a field
/// prints the object with all its versions before the field.
fn said(failure: &Failure) -> String {
    let parts = failure.message.split_once(TYPED_PATCH);
    let rest = parts.and_then(|(before, rest)| Some((before, rest.split_once("): ")?.1)));
    rest.map_or_else(|| failure.message.clone(), |(before, field)| format!("{before}{field}"))
}

/// Maximum number of rejected fields to locate in the repository. A message lists fewer.
const MAX_LOCATED: usize = 5;

/// Returns a suggestion for a rejected field, and the location of the field in the repository.
fn refused(
    repo: &ConfigRepo,
    (checkout, desired): (&Checkout, &Desired),
    action: &Action,
    failure: &Failure,
) -> (String, Location) {
    let target = action.target();
    let object = desired.objects.iter().find(|object| Some(&object.reference) == target.as_ref());
    let Some(object) = object else { return Default::default() };
    let Some(field) = RefusedField::of(&failure.message).filter(|_| failure.kind == FailureKind::Invalid)
    else {
        return (String::new(), object.origin.clone());
    };
    let suggestion = field.suggestion(&object.object, desired).map(|hint| format!("; {hint}"));
    let directories = directories(&repo.spec, &checkout.tree).unwrap_or_default();
    (suggestion.unwrap_or_default(), field.location(object, &checkout.tree, &directories))
}

/// Returns true if a plan has applied any object of its commit.
fn has_applied(done: &Executed) -> bool {
    applied(done).next().is_some()
}

/// Returns the kinds of the commit's objects that a plan has applied.
fn applied(done: &Executed) -> impl Iterator<Item = Gvk> {
    done.results().filter(|(_, outcome)| outcome.is_ok()).filter_map(|(action, _)| written_kind(action))
}

/// Returns the kind of a commit's object that an action writes.
fn written_kind(action: &Action) -> Option<Gvk> {
    action.gvk().filter(|_| matches!(action, Action::Apply { dry_run: false, .. }))
}

/// Returns true if the API server may have rejected objects because it had not yet seen the plan's earlier writes:
/// it reads definitions and permissions from caches. The next plan tries again.
fn is_early(done: &Executed) -> bool {
    let needs_time = |gvk: Gvk| gvk.group == RBAC || gvk.kind == "CustomResourceDefinition";
    is_refused_before(done) && applied(done).any(needs_time)
}

/// Returns true if the API server rejected objects in dry runs, and nothing else failed.
fn is_refused_before(done: &Executed) -> bool {
    let is_dry_run = |action: &Action| matches!(action, Action::Apply { dry_run: true, .. });
    done.failures().all(|(action, failure)| is_dry_run(action) && failure.is_refusal())
}

/// Returns true if the identity lacks permissions that the commit itself may grant.
fn are_permissions_needed(done: &Executed) -> bool {
    // An API server answers 404 if the role of a binding does not exist.
    let is_lacking =
        |failure: &Failure| matches!(failure.kind, FailureKind::Forbidden | FailureKind::NotFound);
    let mut written = done.plan.steps.iter().flatten().filter_map(written_kind);
    is_refused_before(done)
        && done.failures().all(|(_, failure)| is_lacking(failure))
        && written.any(|gvk| gvk.group == RBAC)
}

/// The end of the message about an immutable field, if the object is recreated.
const RECREATED: &str = "; it will be recreated because of its annotation";

/// Returns a hint for an immutable field, or for a map that an apply has emptied.
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

/// Part of kube-apiserver's message if an apply removes the last field of a map.
const EMPTIED: &str = r#"in body must be of type object: "null""#;

/// Returns true if the API server refused to change a field. Only the text of its message shows this.
fn cannot_change(failure: &Failure) -> bool {
    const WORDS: [&str; 4] =
        ["immutable", "may not change once set", "updates to statefulset spec", "cannot change roleref"];
    let message = failure.message.to_lowercase();
    failure.kind == FailureKind::Invalid && WORDS.iter().any(|words| message.contains(words))
}

/// Returns the objects that cannot be changed and that are recreated because of their annotation.
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

/// Describes the commits from which the objects on the hub come after a write of `commit` failed.
fn left_applied(
    desired: Option<&Desired>,
    commit: &str,
    status: &ConfigRepoStatus,
    view: &impl View,
) -> String {
    if status.partial.as_ref().is_none_or(|partial| partial.commit != commit) {
        return still_applied(status);
    }
    let objects = desired.map_or(&[][..], |desired| &desired.objects);
    let is_applied = |object: &&Arc<DesiredObject>| {
        let live = view.observed(&object.reference).ok().flatten();
        live.is_some_and(|live| object.is_last_applied(&live))
    };
    let (done, all) = (objects.iter().filter(is_applied).count(), objects.len());
    let before = applied_before(status, commit);
    format!("{done} of the {all} objects of {} were applied{before}", short_commit(commit))
}
