//! Sets the status of a repository's newest commit at its git provider.
//!
//! Each state is sent once, for the newest fetched commit, after the hub has judged it. If the provider rejects
//! the request or does not respond, a condition reports it, and nothing else is delayed.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::config_repo::RepoIdentity;
use super::report::fleet::{self, Workloads};
use super::report::hub_uid;
use api::condition::ConditionStatus::{False, True};
use api::condition::{Conditions as _, Observation, set_condition};
use api::gitops::v1alpha1::{CommitState, CommitStatusProvider, ConfigRepo, LastCommitStatus};
use api::names::gitops_conditions::{COMMIT_STATUS_REPORTED, STALLED};
use engine::report::{self, commit_state, is_news};
use object::duration::{later, whole_second};
use object::{Key, text};
use reconcile::{
    Action, CommitStatus, Controller, Executed, Failure, FailureKind, Plan, Read, Source, SourceIdentity,
    StatusWrite, View, Watches,
};

/// Time for which a final state must be stable before it is sent.
pub(super) const DEBOUNCE: SignedDuration = SignedDuration::from_secs(5);
/// Delay between a failure and the next attempt.
const RETRY: SignedDuration = SignedDuration::from_mins(1);
/// Delay between a rejection by the provider and the next attempt.
const REJECTED_RETRY: SignedDuration = SignedDuration::from_mins(10);
/// Maximum number of statuses per commit. GitHub accepts 1,000 per name; only a commit that keeps changing between
/// success and failure needs more than a few.
const MAX_SENT: i32 = 100;
/// Maximum length of the context name, which GitLab limits.
const CONTEXT: usize = 255;

const REJECTED: &str = "CommitStatusRejected";

pub(crate) struct CommitStatusController;

impl Controller for CommitStatusController {
    const NAME: &'static str = "commit-status";
    type Primary = ConfigRepo;
    /// A plan processes the whole fleet. Because a final state must be stable for [`DEBOUNCE`], and the plan that
    /// finds it requests a wake-up then, this spacing delays no status.
    const SPACING: SignedDuration = DEBOUNCE;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on_source(|repo| vec![repo.clone()]);
        fleet::watches(watches);
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        let Some(repo) = view.get::<ConfigRepo>(key)? else { return Ok(Plan::nothing()) };
        let provider = repo.spec.report.as_ref().and_then(|report| report.commit_status.as_ref());
        let is_active = repo.metadata.deletion_timestamp.is_none() && !repo.spec.suspend;
        match (provider, judged_commit(&repo, view)) {
            (None, _) => Ok(Plan { status: without_status(&repo), ..Plan::default() }),
            (Some(provider), Some(commit)) if is_active => {
                fleet::observing(view, || plan(&repo, provider, (&commit, now), view))
            }
            (Some(_), _) => Ok(Plan::nothing()),
        }
    }

    fn conclude(key: &Key, view: &impl View, done: &Executed, now: Timestamp) -> Read<Option<StatusWrite>> {
        let Some((action, outcome)) = done.results().next() else { return Ok(done.plan.status.clone()) };
        let Action::SetCommitStatus(sent) = action else { return Ok(None) };
        let Some(repo) = view.get::<ConfigRepo>(key)? else { return Ok(None) };
        let mut new = (*repo).clone();
        let status = new.status.get_or_insert_default();
        let mut last = last(&repo, &sent.commit, &destination(sent));
        last.time = Some(Time(whole_second(now)));
        let observed = match outcome {
            Ok(_) => {
                (last.state, last.sent) = (Some(sent.state.clone()), last.sent.saturating_add(1));
                last.error = String::new();
                Observation::new(COMMIT_STATUS_REPORTED, True, "CommitStatusSet")
            }
            Err(failure) => {
                last.error = text::plain(&failure.message, 600);
                Observation::new(COMMIT_STATUS_REPORTED, False, reason(failure)).message(last.error.clone())
            }
        };
        status.commit_status = Some(last);
        let generation = repo.metadata.generation.unwrap_or_default();
        set_condition(&mut status.conditions, observed.at(generation), now);
        Ok(StatusWrite::between(&*repo, &new))
    }
}

/// Returns the condition reason for a failed status.
fn reason(failure: &Failure) -> &'static str {
    match failure.kind {
        FailureKind::Forbidden => REJECTED,
        FailureKind::Invalid => "CommitStatusMisconfigured",
        FailureKind::FieldConflict
        | FailureKind::Conflict
        | FailureKind::NotFound
        | FailureKind::Unavailable => "CommitStatusFailed",
    }
}

/// Returns the newest commit, if the conditions of the repository describe it under the current spec.
fn judged_commit(repo: &ConfigRepo, view: &impl View) -> Option<String> {
    let status = repo.status.as_ref()?;
    let seen = status.seen.as_ref()?;
    let source = view.source(&Key::of(repo))?;
    let Source { identity, checkout, failure, .. } = &*source;
    let is_newest = checkout.as_ref().is_some_and(|checkout| checkout.revision == seen.commit);
    let is_judged = status.observed_generation == repo.metadata.generation && failure.is_none();
    (is_newest && is_judged && *identity == SourceIdentity::of(repo)).then(|| seen.commit.clone())
}

/// Removes the record of commit statuses if no provider is configured.
fn without_status(repo: &ConfigRepo) -> Option<StatusWrite> {
    let mut new = repo.clone();
    let status = new.status.as_mut()?;
    status.commit_status = None;
    status.conditions.retain(|condition| condition.type_ != COMMIT_STATUS_REPORTED);
    StatusWrite::between(repo, &new)
}

/// Returns the last status of a commit at a destination.
fn last(repo: &ConfigRepo, commit: &str, destination: &str) -> LastCommitStatus {
    let last = repo.status.as_ref().and_then(|status| status.commit_status.clone());
    last.filter(|last| last.commit == commit && last.destination == destination).unwrap_or_else(|| {
        let (commit, destination) = (commit.to_owned(), destination.to_owned());
        LastCommitStatus { commit, destination, ..LastCommitStatus::default() }
    })
}

/// Returns a hash that identifies where a status is set.
fn destination(status: &CommitStatus) -> String {
    let CommitStatus { provider, address, url, context, .. } = status;
    let parts = [("provider", provider.as_str()), ("address", address), ("url", url), ("context", context)];
    report::digest(&parts.map(|(part, value)| (part.to_owned(), value.to_owned())).into())
}

fn plan(
    repo: &ConfigRepo,
    provider: &CommitStatusProvider,
    (commit, now): (&str, Timestamp),
    view: &impl View,
) -> Read<Plan> {
    let Ok(identity) = RepoIdentity::of(repo, view)? else { return Ok(Plan::nothing()) };
    let (workloads, mut plan) = (Workloads::read(repo, &identity, view)?, Plan::default());
    let fleet = workloads.fleet(&mut plan, view, now)?;
    let is_stalled = repo.condition(STALLED).is_some_and(api::Condition::is_true);
    let (state, description) = commit_state(&fleet, is_stalled);
    let key = Key::of(repo);
    let hub = hub_uid(view)?;
    let context = format!("wheelwright/{}/{key}", hub.get(..8).unwrap_or(&hub));
    let CommitStatusProvider { r#type, address, secret_ref, unknown: _ } = provider;
    let status = CommitStatus {
        provider: r#type.clone(),
        address: address.clone(),
        url: repo.spec.url.clone(),
        secret: secret_ref.key(&key.namespace),
        commit: commit.to_owned(),
        context: text::plain(&context, CONTEXT),
        state,
        description,
        repo: key,
    };
    let last = last(repo, commit, &destination(&status));
    if !is_news(&status.state, last.state.as_ref()) {
        return Ok(plan);
    }
    if last.sent >= MAX_SENT {
        plan.status = limit_reached(repo, now);
        return Ok(plan);
    }
    // Report a failing cluster even while others are still changing.
    let progress = workloads.last_progress(&fleet, now).filter(|_| status.state == CommitState::Success);
    let held = held_until(repo, progress, now).filter(|_| status.state != CommitState::Pending);
    match held.max(retry_at(repo, &last, now)).filter(|at| *at > now) {
        Some(at) => plan.wake(at),
        None => plan.step([Action::SetCommitStatus(Box::new(status))]),
    }
    Ok(plan)
}

/// Returns the time until which a final state is not sent, because a cluster may report late that it does not run
/// the commit yet or that the commit fails on it.
pub(super) fn held_until(
    repo: &ConfigRepo,
    progress: Option<Timestamp>,
    now: Timestamp,
) -> Option<Timestamp> {
    let status = repo.status.as_ref()?;
    let revisions = [&status.seen, &status.applied].into_iter().flatten();
    let since = revisions.filter_map(|revision| revision.since.as_ref().map(|since| since.0));
    since.filter(|since| *since <= now).chain(progress).max().map(|last| later(last, DEBOUNCE))
}

/// Returns when a failed status may be retried. After a change of the spec, it is retried immediately.
fn retry_at(repo: &ConfigRepo, last: &LastCommitStatus, now: Timestamp) -> Option<Timestamp> {
    let condition = repo.condition(COMMIT_STATUS_REPORTED)?;
    let is_answered = condition.observed_generation != repo.metadata.generation;
    // A time in the future comes from a clock that was ahead; ignore it.
    let tried = last.time.as_ref().filter(|time| time.0 <= now && !is_answered && !last.error.is_empty())?;
    Some(later(tried.0, if condition.reason == REJECTED { REJECTED_RETRY } else { RETRY }))
}

/// Reports that no more statuses are sent for the commit.
fn limit_reached(repo: &ConfigRepo, now: Timestamp) -> Option<StatusWrite> {
    let mut new = repo.clone();
    let status = new.status.get_or_insert_default();
    let message = format!(
        "the limit of {MAX_SENT} statuses for this commit is reached; the next commit starts again at zero"
    );
    let observed = Observation::new(COMMIT_STATUS_REPORTED, False, "CommitStatusLimit").message(message);
    set_condition(&mut status.conditions, observed.at(repo.metadata.generation.unwrap_or_default()), now);
    StatusWrite::between(repo, &new)
}

#[cfg(test)]
#[path = "tests/commit_status.rs"]
mod tests;
