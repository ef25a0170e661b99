//! Sends a message when a repository needs a person, and when it has recovered.
//!
//! Each change of the state is sent once to each receiver, and recorded when the receiver has accepted it. If the
//! process ends in between, the next one sends the message again, with the same ID. If a receiver rejects the message or
//! does not respond, a condition reports it, and nothing else is delayed.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::commit_status::{DEBOUNCE, held_until};
use super::config_repo::RepoIdentity;
use super::report::fleet::{self, Workloads};
use super::report::hub_uid;
use api::Condition;
use api::condition::ConditionStatus::{False, True};
use api::condition::{Conditions as _, Observation, set_condition};
use api::gitops::v1alpha1::{ConfigRepo, LastNotification, NotificationReceiver, NotifiedState};
use api::names::fetch_reasons::TRANSIENT;
use api::names::gitops_conditions::{NOTIFIED, READY};
use engine::report::{self, Message, Situation, problem, recovery};
use object::duration::{doubled, later, whole_second};
use object::{Key, text};
use reconcile::{
    Action, Controller, Executed, Notification, Outcome, Plan, Read, StatusWrite, View, Watches,
};

/// Time after which people learn that a git server does not respond.
const UNREACHABLE: SignedDuration = SignedDuration::from_mins(10);
/// Minimum time between two messages to a receiver. Slack accepts one per second for each channel; a person reads fewer.
const REST: SignedDuration = SignedDuration::from_secs(30);
/// Delay between the first failure and the next attempt. It doubles with each further failure.
const RETRY: SignedDuration = SignedDuration::from_mins(1);
/// Maximum delay between two attempts.
const MAX_RETRY: SignedDuration = SignedDuration::from_mins(10);
/// Maximum length of an error, in characters.
const ERROR: usize = 600;

pub(crate) struct NotificationController;

impl Controller for NotificationController {
    const NAME: &'static str = "notification";
    type Primary = ConfigRepo;
    /// A plan processes the whole fleet, and a person does not notice the difference.
    const SPACING: SignedDuration = DEBOUNCE;

    fn watches<W: Watches>(watches: &mut W) {
        fleet::watches(watches);
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        let Some(repo) = view.get::<ConfigRepo>(key)? else { return Ok(Plan::nothing()) };
        let is_active = repo.metadata.deletion_timestamp.is_none() && !repo.spec.suspend;
        if repo.spec.notifications.is_empty() || !is_active || !is_judged(&repo) {
            return Ok(Plan { status: without_outdated(&repo, &[], now), ..Plan::default() });
        }
        fleet::observing(view, || plan(&repo, view, now))
    }

    fn conclude(key: &Key, view: &impl View, done: &Executed, now: Timestamp) -> Read<Option<StatusWrite>> {
        if done.results().next().is_none() {
            return Ok(done.plan.status.clone());
        }
        let Some(repo) = view.get::<ConfigRepo>(key)? else { return Ok(None) };
        let mut new = (*repo).clone();
        for (action, outcome) in done.results() {
            if let Action::Notify(sent) = action {
                record(&mut new, sent, outcome, now);
            }
        }
        set_notified(&mut new, now);
        Ok(StatusWrite::between(&*repo, &new))
    }
}

/// Returns true if the status describes the current spec.
fn is_judged(repo: &ConfigRepo) -> bool {
    repo.status.as_ref().is_some_and(|status| status.observed_generation == repo.metadata.generation)
}

fn plan(repo: &ConfigRepo, view: &impl View, now: Timestamp) -> Read<Plan> {
    let Ok(identity) = RepoIdentity::of(repo, view)? else {
        return Ok(Plan { status: without_outdated(repo, &[], now), ..Plan::default() });
    };
    let (workloads, mut plan) = (Workloads::read(repo, &identity, view)?, Plan::default());
    let fleet = workloads.fleet(&mut plan, view, now)?;
    let unreachable_at = unreachable_at(repo);
    if let Some(at) = unreachable_at.filter(|at| *at > now) {
        plan.wake(at);
    }
    let problem = problem(repo, &fleet, unreachable_at.is_some_and(|at| at <= now));
    let progress = workloads.last_progress(&fleet, now);
    let hub = hub_uid(view)?;
    let (mut due, mut idle) = (Vec::new(), Vec::new());
    for receiver in &repo.spec.notifications {
        let last = last(repo, &receiver.name);
        let news = match (&problem, &last.state) {
            (Some(problem), _) => Some(problem.clone()).filter(|problem| problem.digest != last.digest),
            (None, Some(reported)) => recovery(repo, &fleet, reported),
            (None, None) => None,
        };
        let Some(situation) = news else {
            idle.push(receiver.name.as_str());
            continue;
        };
        let held =
            recovers_at(repo, &last, progress, now).filter(|_| situation.state == NotifiedState::Recovered);
        match held.max(rests_until(repo, &last, now)).filter(|at| *at > now) {
            Some(at) => plan.wake(at),
            None => due.push(notification(repo, (receiver, &last), &situation, (&hub, now))),
        }
    }
    plan.step(due.into_iter().map(|one| Action::Notify(Box::new(one))));
    plan.status = without_outdated(repo, &idle, now);
    Ok(plan)
}

/// Returns when people learn that the git server does not respond; `None` if it does, or if a person must act anyway.
fn unreachable_at(repo: &ConfigRepo) -> Option<Timestamp> {
    let ready = repo.condition(READY)?;
    let is_unreachable = ready.is_false() && TRANSIENT.contains(&ready.reason.as_str());
    let since = repo.status.as_ref()?.unreachable_since.as_ref().filter(|_| is_unreachable)?;
    Some(later(since.0, UNREACHABLE))
}

/// Returns until when a recovery is not sent, because a cluster may report late that it does not run the commit yet.
/// Rollouts do not delay the recovery of the repository itself.
fn recovers_at(
    repo: &ConfigRepo,
    last: &LastNotification,
    progress: Option<Timestamp>,
    now: Timestamp,
) -> Option<Timestamp> {
    let is_of_rollouts = matches!(last.state, Some(NotifiedState::RolloutFailed | NotifiedState::RolledBack));
    held_until(repo, progress.filter(|_| is_of_rollouts), now)
}

/// Returns the record of a receiver.
fn last(repo: &ConfigRepo, receiver: &str) -> LastNotification {
    let all = repo.status.iter().flat_map(|status| &status.notifications);
    let last = all.into_iter().find(|last| last.name == receiver).cloned();
    last.unwrap_or_else(|| LastNotification { name: receiver.to_owned(), ..LastNotification::default() })
}

/// Returns until when a receiver gets no message. After a change of the spec, it gets one immediately.
fn rests_until(repo: &ConfigRepo, last: &LastNotification, now: Timestamp) -> Option<Timestamp> {
    let notified = repo.condition(NOTIFIED)?;
    let is_edited = notified.observed_generation != repo.metadata.generation;
    // A time in the future comes from a clock that was ahead; ignore it.
    let tried = last.time.as_ref().filter(|time| time.0 <= now && !is_edited)?;
    let rest = match u32::try_from(last.failures).unwrap_or_default() {
        0 => REST,
        failures => doubled(RETRY, MAX_RETRY, failures),
    };
    Some(later(tried.0, rest))
}

fn notification(
    repo: &ConfigRepo,
    (receiver, last): (&NotificationReceiver, &LastNotification),
    situation: &Situation,
    (hub, now): (&str, Timestamp),
) -> Notification {
    let NotificationReceiver { name, r#type: format, secret_ref, unknown: _ } = receiver;
    let key = Key::of(repo);
    let since = repo.condition(READY).map(|ready| ready.last_transition_time.0);
    let id = BTreeMap::from([
        ("repo".to_owned(), repo.metadata.uid.clone().unwrap_or_default()),
        ("receiver".to_owned(), name.clone()),
        ("state".to_owned(), situation.digest.clone()),
        // The same state may come back.
        ("sent".to_owned(), last.sent.to_string()),
        // The count starts again at zero if the receiver is removed and added again.
        ("before".to_owned(), last.digest.clone()),
        ("since".to_owned(), since.map(|since| since.to_string()).unwrap_or_default()),
    ]);
    let id = report::digest(&id);
    let message = Message {
        id: &id,
        hub,
        repo: &key.to_string(),
        url: &repo.spec.url,
        time: whole_second(now),
        situation,
    };
    Notification {
        receiver: name.clone(),
        format: format.clone(),
        secret: secret_ref.key(&key.namespace),
        state: situation.state.clone(),
        digest: situation.digest.clone(),
        body: message.body(format),
        repo: key,
        id,
    }
}

/// Records an attempt.
fn record(repo: &mut ConfigRepo, sent: &Notification, outcome: &Outcome, now: Timestamp) {
    let mut last = last(repo, &sent.receiver);
    last.time = Some(Time(whole_second(now)));
    match outcome {
        Ok(_) => {
            (last.state, last.digest) = (Some(sent.state.clone()), sent.digest.clone());
            (last.sent, last.failures) = (last.sent.saturating_add(1), 0);
            last.error = String::new();
        }
        Err(failure) => {
            last.failures = last.failures.saturating_add(1);
            last.error = text::plain(&failure.message, ERROR);
        }
    }
    let all = &mut repo.status.get_or_insert_default().notifications;
    match all.iter_mut().find(|one| one.name == last.name) {
        Some(one) => *one = last,
        None => all.push(last),
    }
}

/// Removes the records of receivers that the spec no longer has, and the errors of receivers without news, because
/// the message that failed is not sent again.
fn without_outdated(repo: &ConfigRepo, idle: &[&str], now: Timestamp) -> Option<StatusWrite> {
    let has_outdated_error =
        |last: &LastNotification| !last.error.is_empty() && idle.contains(&last.name.as_str());
    let recorded = &repo.status.as_ref()?.notifications;
    if recorded.iter().all(|last| is_receiver(repo, last) && !has_outdated_error(last)) {
        return None;
    }
    let mut new = repo.clone();
    let recorded = new.status.iter_mut().flat_map(|status| &mut status.notifications);
    for last in recorded.filter(|last| has_outdated_error(last)) {
        (last.failures, last.error) = (0, String::new());
    }
    set_notified(&mut new, now);
    StatusWrite::between(repo, &new)
}

fn is_receiver(repo: &ConfigRepo, last: &LastNotification) -> bool {
    repo.spec.notifications.iter().any(|receiver| receiver.name == last.name)
}

/// Sets the condition from the records of the receivers in the spec.
fn set_notified(repo: &mut ConfigRepo, now: Timestamp) {
    let mut status = repo.status.take().unwrap_or_default();
    status.notifications.retain(|last| is_receiver(repo, last));
    let failed = status.notifications.iter().filter(|last| !last.error.is_empty());
    let errors: Vec<String> = failed.map(|last| format!("{}: {}", last.name, last.error)).collect();
    let observed = match errors.as_slice() {
        [] => Observation::new(NOTIFIED, True, "NotificationsSent"),
        [_, ..] => Observation::new(NOTIFIED, False, "NotificationFailed")
            .message(text::plain(&errors.join("; "), ERROR)),
    };
    if status.notifications.is_empty() {
        status.conditions.retain(|condition: &Condition| condition.type_ != NOTIFIED);
    } else {
        let generation = repo.metadata.generation.unwrap_or_default();
        set_condition(&mut status.conditions, observed.at(generation), now);
    }
    repo.status = Some(status);
}

#[cfg(test)]
#[path = "tests/notification.rs"]
mod tests;
