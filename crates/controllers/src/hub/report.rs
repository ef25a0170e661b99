//! Pushes reports to the status branch of a repository.
//!
//! A report is pushed only if it has changed, at most once per interval, and not while changes keep arriving; only
//! the end of a rollout is reported immediately. If a push fails, a condition reports it, and nothing else is
//! delayed.

pub(super) mod fleet;
mod fleet_snapshot;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::config_repo::RepoIdentity;
use crate::followed::{follows, url_of};
use api::Condition;
use api::condition::ConditionStatus::{False, True};
use api::condition::{Conditions as _, Observation, find_condition, set_condition};
use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoReport, PushedReport, ReportStatus, SecretRef};
use api::names::RECONCILE_AT_ANNOTATION;
use api::names::gitops_conditions::REPORTED;
use engine::report;
use fleet::Workloads;
use fleet_snapshot::AppliedObjects;
use object::duration::{self, later, whole_second};
use object::text;
use object::{Key, Metadata as _};
use reconcile::{
    Action, Answer, Controller, Event, EventType, Executed, Failure, FailureKind, Plan, Push, Query, Read,
    ReportTakeover, StatusWrite, View, Watches,
};

/// Time that a report waits for more changes after the last one.
const DEBOUNCE: SignedDuration = SignedDuration::from_secs(5);
/// Delay between a rejection by the server and the next attempt.
const REJECTED_RETRY: SignedDuration = SignedDuration::from_mins(10);
/// Minimum interval between reports if the spec has no valid one.
const DEFAULT_INTERVAL: SignedDuration = SignedDuration::from_secs(30);
/// Maximum number of reports in the status. With [`SUMMARY`], they take less than 5 KiB of a ConfigRepo.
const HISTORY: usize = 10;
/// Maximum length of a report summary in bytes.
const SUMMARY: usize = 400;

/// Pushes reports.
pub struct ReportController;

/// When a plan is made in the life of the process.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moment {
    Usual,
    /// The process is about to exit, so a report does not wait for its interval or for more changes.
    End,
}

/// Returns the reports to push before the process exits: those that are due or waiting. A rejected report is
/// excluded until a person edits the spec.
pub fn last_reports(view: &impl View, now: Timestamp) -> Vec<(Key, Plan)> {
    let mut last = Vec::new();
    for repo in view.readable::<ConfigRepo>(Query::ALL) {
        let planned = planned(&repo, view, now, Moment::End);
        last.extend(planned.ok().filter(|plan| !plan.steps.is_empty()).map(|plan| (Key::of(&*repo), plan)));
    }
    last
}

impl Controller for ReportController {
    const NAME: &'static str = "report";
    type Primary = ConfigRepo;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on_source(|repo| vec![repo.clone()]);
        fleet::watches(watches);
        watches.on::<ConfigRepo>(fleet::reporting_repos);
        fleet_snapshot::watches(watches);
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        let Some(repo) = view.get::<ConfigRepo>(key)? else { return Ok(Plan::nothing()) };
        planned(&repo, view, now, Moment::Usual)
    }

    fn conclude(key: &Key, view: &impl View, done: &Executed, now: Timestamp) -> Read<Option<StatusWrite>> {
        if done.plan.steps.is_empty() {
            return Ok(done.plan.status.clone());
        }
        let Some((Action::Push(push), outcome)) = done.results().next() else { return Ok(None) };
        let Some(repo) = view.get::<ConfigRepo>(key)? else { return Ok(None) };
        let mut new = (*repo).clone();
        let status = new.status.get_or_insert_default();
        let generation = repo.metadata.generation.unwrap_or_default();
        let before = status.report.take().unwrap_or_default();
        let seconds = whole_second(now);
        let is_flush = not_before(&repo, now).is_some_and(|at| at > now);
        let flushed = if is_flush { Some(Time(seconds)) } else { before.flushed.clone() };
        let tried = ReportStatus { time: Some(Time(seconds)), flushed, ..before };
        let (report, observed) = match outcome {
            Ok(answer) => {
                let commit =
                    if let Answer::Commit(commit) = answer { commit.clone() } else { push.last.clone() };
                let (url, branch, path) = (push.url.clone(), push.branch.clone(), push.directory.clone());
                let (digest, error) = (report::digest(&push.files), String::new());
                let history = history(&tried, push, &commit);
                let pushed = ReportStatus { url, branch, path, commit, digest, error, history, ..tried };
                (pushed, Observation::new(REPORTED, True, "Pushed").message(missing(&repo, push)))
            }
            // The status still names the previous report, which is still on the branch.
            Err(failure) => {
                let error = text::plain(&failure.message, 600);
                let observed = Observation::new(REPORTED, False, reason(failure)).message(error.clone());
                (ReportStatus { error, ..tried }, observed)
            }
        };
        status.report = Some(report);
        let events = not_reported(&repo, &observed).into_iter().collect();
        set_condition(&mut status.conditions, observed.at(generation), now);
        Ok(StatusWrite::between(&*repo, &new).map(|write| write.with_events(events)))
    }
}

/// Returns a note if a report lacks the snapshot that the spec requests.
fn missing(repo: &ConfigRepo, push: &Push) -> &'static str {
    let is_wanted = repo.spec.report.as_ref().is_some_and(|report| report.snapshot);
    let is_of_snapshot = |path: &String| path.split('/').next() == Some(report::SNAPSHOT);
    if !is_wanted || push.files.keys().any(is_of_snapshot) {
        return "";
    }
    "without a snapshot: it would have more than 64 MiB, an object cannot be read, or the ConfigRepo does not act as the operator"
}

/// Returns the last reports at the destination of a push, including the commit of this push. A push without
/// changes makes no commit.
fn history(tried: &ReportStatus, push: &Push, commit: &str) -> Vec<PushedReport> {
    let is_there = tried.url == push.url && tried.branch == push.branch && tried.path == push.directory;
    let before = if is_there { tried.history.as_slice() } else { &[] };
    let head = push.message.lines().next().unwrap_or_default();
    let summary = text::plain(head.strip_prefix("report: ").unwrap_or(head), SUMMARY);
    let (commit, time) = (commit.to_owned(), tried.time.clone());
    let is_new = !commit.is_empty() && before.first().is_none_or(|last| last.commit != commit);
    let new = is_new.then(|| PushedReport { commit, time, summary, ..PushedReport::default() });
    new.into_iter().chain(before.iter().cloned()).take(HISTORY).collect()
}

/// Returns the condition reason for a failed push.
fn reason(failure: &Failure) -> &'static str {
    match failure.kind {
        FailureKind::Forbidden => REJECTED,
        FailureKind::Invalid => MISCONFIGURED,
        FailureKind::FieldConflict => FENCED,
        FailureKind::Conflict => "StatusPushContended",
        FailureKind::NotFound => STOPPED,
        FailureKind::Unavailable => "StatusPushFailed",
    }
}

const REJECTED: &str = "StatusPushRejected";
const MISCONFIGURED: &str = "StatusPushMisconfigured";
const FENCED: &str = "StatusPushFenced";
const STOPPED: &str = "StatusPushStopped";

fn planned(repo: &ConfigRepo, view: &impl View, now: Timestamp, moment: Moment) -> Read<Plan> {
    let active = repo.metadata.deletion_timestamp.is_none() && !repo.spec.suspend;
    match &repo.spec.report {
        Some(spec) if active && repo.status.as_ref().is_some_and(|status| status.seen.is_some()) => {
            fleet::observing(view, || plan((repo, spec), view, now, moment))
        }
        Some(_) | None => Ok(Plan::nothing()),
    }
}

fn plan(
    (repo, spec): (&ConfigRepo, &ConfigRepoReport),
    view: &impl View,
    now: Timestamp,
    moment: Moment,
) -> Read<Plan> {
    let Ok(identity) = RepoIdentity::of(repo, view)? else { return Ok(Plan::nothing()) };
    let status = repo.status.clone().unwrap_or_default();
    let last = status.report.clone().unwrap_or_default();
    let interval = interval(spec);
    let condition = find_condition(&status.conditions, REPORTED);
    // If a person edited the spec after a rejection, the next attempt is immediate.
    let answered = condition.is_some_and(|c| c.observed_generation != repo.metadata.generation);
    let takes_over = takeover(condition, answered);
    let mut plan = Plan::default();
    let is_flush = match moment {
        Moment::Usual => flushes(repo, &identity, view, now)?,
        Moment::End => answered || !condition.is_some_and(is_refusal),
    };
    if let Some(at) = not_before(repo, now).filter(|at| *at > now && !is_flush) {
        plan.wake(at);
        return Ok(plan);
    }
    let reported = last.time.as_ref().map(|time| time.0).filter(|time| *time <= now);
    let workloads = Workloads::read(repo, &identity, view)?;
    let changes = workloads.changes(view, now)?;
    // Changes that keep arriving delay a report by at most one interval.
    let since = last.time.or_else(|| status.seen.as_ref().and_then(|seen| seen.since.clone()));
    let since = since.filter(|time| time.0 <= now);
    let deadline = since.map_or(Timestamp::MIN, |time| later(time.0, interval + interval));
    let debounced = changes.last.map_or(Timestamp::MIN, |last| later(last, DEBOUNCE));
    if debounced > now && deadline > now && !is_flush {
        plan.wake(debounced.min(deadline));
        return Ok(plan);
    }
    let has_snapshot = spec.snapshot && identity == RepoIdentity::Operator;
    let applied = if has_snapshot { Some(AppliedObjects::read(repo, view)?) } else { None };
    let wait = applied.as_ref().map(|applied| applied.wait(&Key::of(repo), view, now)).transpose()?;
    if let Some(until) = wait.flatten().filter(|_| moment == Moment::Usual) {
        plan.wake(until);
        return Ok(plan);
    }
    let fleet = workloads.fleet(&mut plan, view, now)?;
    let mut files = report::files(&fleet);
    if let Some(applied) = applied {
        files.extend(fleet_snapshot::snapshot(applied, view, now)?.into_iter().flatten());
    }
    let digest = report::digest(&files);
    let hub = hub_uid(view)?;
    let push = to_branch(repo, spec, &hub);
    let is_on_branch = last.url == push.url && last.branch == push.branch;
    if digest == last.digest && is_on_branch && last.path == push.directory && last.error.is_empty() {
        return Ok(plan);
    }
    let neighbors = view.list::<ConfigRepo>(Query::namespace(&Key::of(repo).namespace))?;
    if let Some(follower) = neighbors.iter().find(|neighbor| follows(neighbor, &push.url, &push.branch)) {
        plan.status = followed_by(repo, follower, now);
        plan.wake(later(now, REJECTED_RETRY));
        return Ok(plan);
    }
    if condition.is_some_and(|condition| condition.status == False) {
        plan.events.push(pushed_again(repo, spec));
    }
    let changed = reported.map(|time| changes.since(time));
    let previous = last.history.into_iter().nth(1).filter(|_| is_on_branch);
    plan.step([Action::Push(Box::new(Push {
        previous: previous.map(|it| it.commit).unwrap_or_default(),
        last: if is_on_branch { last.commit } else { String::new() },
        takes_over,
        message: format!("{}Wheelwright-Hub: {hub}\n", report::message(&fleet, changed.as_ref(), &digest)),
        files,
        // Some changes have no time in a condition, such as a deadline that passes.
        time: changes.last.filter(|last| reported.is_none_or(|time| *last > time)).unwrap_or(now),
        ..push
    }))]);
    Ok(plan)
}

/// Returns the rule for replacing another process's report. `answered` is true if a person edited the spec after
/// the rejection.
fn takeover(condition: Option<&Condition>, answered: bool) -> ReportTakeover {
    match condition.is_some_and(|condition| condition.reason == FENCED) {
        false => ReportTakeover::Continued,
        true if answered => ReportTakeover::Always,
        true => ReportTakeover::Never,
    }
}

/// Returns a push to the branch of the spec, without contents.
fn to_branch(repo: &ConfigRepo, spec: &ConfigRepoReport, hub: &str) -> Push {
    let ConfigRepoReport {
        url: _,  // read by `url_of`
        path: _, // read by `directory`
        branch,
        secret_ref,
        signing_key_ref,
        author,
        on_branch_deleted,
        on_rewritten,
        history_limit,
        commit_status: _, // read by the commit status controller
        interval: _,      // read by `interval`
        snapshot: _,      // read by `plan`
        unknown: _,
    } = spec;
    let secret = |secret: &SecretRef| secret.key(repo.namespace());
    Push {
        repo: Key::of(repo),
        url: url_of(spec, repo).to_owned(),
        secret: secret_ref.as_ref().map(secret),
        branch: branch.clone(),
        directory: directory(spec, hub),
        owner: format!("ConfigRepo {} of hub {hub}", Key::of(repo)),
        last: String::new(),
        previous: String::new(),
        on_branch_deleted: on_branch_deleted.clone(),
        on_rewritten: on_rewritten.clone(),
        history_limit: *history_limit,
        takes_over: ReportTakeover::Never,
        message: String::new(),
        files: BTreeMap::new(),
        time: Timestamp::UNIX_EPOCH,
        author: author.clone(),
        signing: signing_key_ref.as_ref().map(secret),
    }
}

/// Returns the directory for the reports on the branch. It is derived from the uid of the hub: hubs that share a
/// branch write to different directories, while a copy of a hub writes to the same one and is detected there.
fn directory(spec: &ConfigRepoReport, hub: &str) -> String {
    match (spec.path.as_str(), hub.get(..8)) {
        ("", Some(short)) => format!("hubs/{short}"),
        (path, _) => path.trim_matches('/').to_owned(),
    }
}

/// Returns true if the next attempt after a report waits ten minutes.
fn is_refusal(condition: &Condition) -> bool {
    [REJECTED, FENCED, STOPPED].contains(&condition.reason.as_str())
}

fn interval(spec: &ConfigRepoReport) -> SignedDuration {
    duration::parse(&spec.interval).unwrap_or(DEFAULT_INTERVAL)
}

/// Returns the time before which no report is due, if one was attempted before.
fn not_before(repo: &ConfigRepo, now: Timestamp) -> Option<Timestamp> {
    let interval = repo.spec.report.as_ref().map_or(DEFAULT_INTERVAL, interval);
    let status = repo.status.as_ref()?;
    let condition = find_condition(&status.conditions, REPORTED);
    let refused = condition.is_some_and(is_refusal);
    let answered = condition.is_some_and(|c| c.observed_generation != repo.metadata.generation);
    // A time in the future comes from a clock that was ahead; ignore it.
    let last =
        status.report.as_ref()?.time.as_ref().filter(|time| time.0 <= now && !(refused && answered))?.0;
    let asked = repo.annotation(RECONCILE_AT_ANNOTATION).and_then(|at| at.parse().ok());
    let is_asked = asked.is_some_and(|asked: Timestamp| asked > last);
    Some(later(last, if refused && !is_asked { REJECTED_RETRY.max(interval) } else { interval }))
}

/// Returns true if a report does not wait for the interval or for more changes: a rollout has ended since the last
/// report, and none is in progress. This happens at most once per interval.
fn flushes(repo: &ConfigRepo, identity: &RepoIdentity, view: &impl View, now: Timestamp) -> Read<bool> {
    let (Some(spec), Some(status)) = (&repo.spec.report, &repo.status) else { return Ok(false) };
    let Some(ReportStatus { time: Some(reported), flushed, error, .. }) = &status.report else {
        return Ok(false);
    };
    let has_flushed = flushed.as_ref().is_some_and(|at| at.0 <= now && later(at.0, interval(spec)) > now);
    if has_flushed || !error.is_empty() {
        return Ok(false);
    }
    Ok(fleet::rollouts_ended(repo, identity, view)?.is_some_and(|ended| ended >= reported.0))
}

/// Returns the status of a ConfigRepo whose reports another ConfigRepo would apply.
///
/// A ConfigRepo in another namespace does not count, because it could stop everyone's reports.
fn followed_by(repo: &ConfigRepo, follower: &ConfigRepo, now: Timestamp) -> Option<StatusWrite> {
    let message = format!(
        "spec.report.branch is the branch that ConfigRepo {} follows, so every report would be a new commit to apply; use a separate branch for reports",
        follower.name()
    );
    let observed = Observation::new(REPORTED, False, MISCONFIGURED).message(message);
    let events = not_reported(repo, &observed).into_iter().collect();
    let mut new = repo.clone();
    let conditions = &mut new.status.get_or_insert_default().conditions;
    set_condition(conditions, observed.at(repo.metadata.generation.unwrap_or_default()), now);
    StatusWrite::between(repo, &new).map(|write| write.with_events(events))
}

/// Returns the event for reports that fail until a person acts. There is none if the report waits for the git
/// server or other writers, or if the problem is not new.
fn not_reported(repo: &ConfigRepo, observed: &Observation) -> Option<Event> {
    let Observation { reason, message, .. } = observed;
    let is_new = repo.condition(REPORTED).is_none_or(|before| before.reason != *reason);
    let needs_a_person = [REJECTED, MISCONFIGURED, FENCED, STOPPED].contains(&reason.as_str());
    let event = || Event::new(repo, EventType::Warning, reason, "Report", message.clone());
    (is_new && needs_a_person).then(event)
}

/// Returns the event for a successful report after a failed one.
fn pushed_again(repo: &ConfigRepo, spec: &ConfigRepoReport) -> Event {
    let message = format!("the report is on the branch {} again", spec.branch);
    Event::new(repo, EventType::Normal, "Pushed", "Report", message)
}

/// Returns the uid of the namespace `kube-system`, which identifies the hub, as is usual for clusters.
pub(super) fn hub_uid(view: &impl View) -> Read<String> {
    let system = view.get::<Namespace>(&Key::cluster("kube-system"))?;
    Ok(system.as_ref().map_or("", |namespace| namespace.uid()).to_owned())
}

#[cfg(test)]
mod tests;
