//! Reports the outcome of a plan: the status, the conditions, the events, and when to plan again.
//!
//! Every message of the condition Ready is here, except those about a failed write, which [`failed`](super::failed)
//! has.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::drift::{Contested, DRIFTED, Drift, FIGHT, Next, repeated};
use super::gate::Gate;
use super::observe::Observation;
use super::policy::health_timeout;
use super::read::Commit;
use super::status::{
    FORBIDDEN, MAX_LISTED, Phase, Readiness, applied_before, count, is_about, is_waiting, record, seen,
    still_applied,
};
use super::{charts, event, moves, random_values};
use api::condition::{self, Conditions as _};
use api::gitops::v1alpha1::{
    ApprovedDeletions, ConfigRepo, ConfigRepoStatus, HeldDeletions, RecentDeletion, UnhealthyObjects,
};
use api::names::approval_reasons::{
    DELETIONS_HELD, FROZEN, OUTSIDE_APPLY_WINDOWS, PLAN_NOT_APPROVED, POLICY_HELD,
};
use api::names::fetch_reasons;
use api::names::gitops_conditions::{READY, RECONCILING, STALLED};
use api::names::{self, APPROVE_PLAN_ANNOTATION, IGNORE_FIELDS_ANNOTATION, RECONCILE_AT_ANNOTATION};
use engine::health::ObjectHealth;
use engine::plural::counted;
use engine::rollout::ApplyWait;
use engine::sync::{self, DeletionHold, ObjectId, SyncPlan, Terminating, Unhealthy};
use object::duration::{later, whole_second};
use object::text::{self, short_commit};
use object::tree::Checkout;
use object::{Key, Metadata as _};
use reconcile::{Action, Event, Plan, Source, SourceFailure, StatusWrite};

/// Maximum length of a condition message; nobody reads more.
const MESSAGE: usize = 1500;
/// Delay before a refusal that depends on objects of others is checked again.
const REFUSAL_RECHECK: SignedDuration = SignedDuration::from_mins(1);
/// Minimum time after which a stuck deletion is reported.
const LEAST_DELETION: SignedDuration = SignedDuration::from_mins(5);
/// Maximum number of finalizers in a message.
const MAX_FINALIZERS: usize = 3;

/// The outcome of a plan.
pub(super) struct Outcome<'a> {
    pub(super) repo: &'a ConfigRepo,
    pub(super) now: Timestamp,
    /// The last fetch; `None` if there is none, or if it does not matter.
    pub(super) source: Option<&'a Source>,
    /// The remote charts of the commit; `None` if it could not be read.
    pub(super) charts: Option<&'a [String]>,
    pub(super) gate: Gate,
    pub(super) found: Found<'a>,
}

/// The result of the comparison with the hub.
pub(super) enum Found<'a> {
    /// No commit was compared.
    Nothing,
    /// In mode Observe: the objects that are released, and the comparison with the commit if the gate is open.
    Observed { release: Option<Box<SyncPlan<'static>>>, observation: Option<Observation<'a>> },
    /// The writes of a commit.
    Planned(Box<Planned<'a>>),
    /// The deletions of a ConfigRepo that is being deleted, and the ConfigRepo that they wait for.
    Deleting { sync: Box<SyncPlan<'a>>, awaited: Option<(Key, Timestamp)> },
}

/// The writes of a commit, and what they wait for.
pub(super) struct Planned<'a> {
    pub(super) commit: &'a Commit<'a>,
    pub(super) sync: SyncPlan<'a>,
    /// The writes that remove the marks of deletions that did not happen.
    pub(super) unmark: Vec<Action>,
    /// The corrections of drift, which also happen while a commit waits; `None` if the commit has problems or not all
    /// objects have been read.
    pub(super) drift: Option<Drift>,
    /// A ConfigRepo that will soon request the objects that it wants, and the time when the wait for it ends.
    pub(super) awaited: Option<(Key, Timestamp)>,
    /// The policies of the commit that wait for the deletions of another ConfigRepo.
    pub(super) held_policies: Option<String>,
    /// The cycle of ConfigRepos that wait for each other's health, if this is one of them.
    pub(super) cycle: Option<Vec<String>>,
}

/// Returns a plan that reports an outcome.
pub(super) fn report(outcome: &Outcome<'_>) -> Plan {
    let Outcome { repo, now, .. } = *outcome;
    let mut status = outcome.status();
    let all = outcome.readiness(&status);
    let wakes = all.iter().filter_map(|readiness| readiness.until).chain(outcome.wake_at());
    let mut plan = Plan { wake_at: wakes.min(), ..Plan::default() };
    let mut readiness = all.into_iter().next();
    // If the earlier result is kept, a failed fetch does not replace it.
    let mut failure = outcome.fetched().and_then(|source| source.failure.as_ref());
    if let Some(checkout) = outcome.checkout() {
        plan.events.extend(event::collision(repo, checkout));
        match &readiness {
            Some(readiness) => record(&mut status, readiness, now),
            None if matches!(outcome.gate, Gate::Fetching) => {}
            None => failure = None,
        }
    }
    if let Some(failure) = failure {
        readiness = Some(failed_fetch(failure, readiness, &status));
    }
    if let Some(readiness) = &readiness {
        plan.events.extend(conclude(repo, &mut status, readiness, now));
        if let Some(source) = outcome.source {
            status.last_handled_reconcile_at.clone_from(&source.reconcile_at);
        }
    }
    let new = ConfigRepo { status: Some(status), ..repo.clone() };
    Plan { status: StatusWrite::between(repo, &new), ..plan }
}

impl<'a> Outcome<'a> {
    /// Returns the last fetch, if the ConfigRepo may apply it.
    fn fetched(&self) -> Option<&'a Source> {
        self.source.filter(|_| !matches!(self.gate, Gate::NotAllowed(_)))
    }

    fn checkout(&self) -> Option<&'a Checkout> {
        self.fetched()?.checkout.as_deref()
    }

    /// Returns the remote charts of the commit that have not been fetched.
    fn missing_charts(&self) -> Vec<&'a str> {
        let Some(checkout) = self.checkout() else { return Vec::new() };
        let missing = self.charts.iter().copied().flatten();
        missing.filter(|chart| !checkout.tree.charts().contains_key(*chart)).map(String::as_str).collect()
    }

    /// Returns since when fetches have failed because the source does not respond; `before` is the recorded time. It
    /// survives a restart of the operator, and starts again after `spec.suspend`.
    fn unreachable_since(&self, before: Option<Time>) -> Option<Time> {
        let Some(source) = self.source else { return before.filter(|_| !self.repo.spec.suspend) };
        let failure = source.failure.as_ref().filter(|failure| is_transient(failure));
        failure.map(|_| before.unwrap_or_else(|| Time(whole_second(self.now))))
    }

    /// Returns the status after the writes of the plan, except for its conditions and its history.
    fn status(&self) -> ConfigRepoStatus {
        let Self { repo, now, .. } = *self;
        let mut status = repo.status.clone().unwrap_or_default();
        status.unreachable_since = self.unreachable_since(status.unreachable_since);
        if let Some(checkout) = self.checkout() {
            status.seen = Some(seen(repo, checkout, now));
            if let Some(charts) = self.charts {
                status.charts = charts::record(repo, charts, &checkout.tree);
            }
        }
        match (&self.gate, &self.found) {
            (_, Found::Nothing) => {}
            (gate, Found::Planned(planned)) => planned.record(gate, &mut status, now),
            (gate, Found::Observed { release, observation }) => {
                if let Some(release) = release {
                    record_inventory(&mut status, release);
                }
                if let Gate::Reading(_) | Gate::Open = gate {
                    status.held_deletions = None;
                }
                if let Some(Observation { commit, sync, .. }) =
                    observation.as_ref().filter(|it| it.differing.is_empty())
                {
                    status.partial = None;
                    status.paths.clone_from(&commit.paths);
                    status.applied = commit.revision(status.applied.as_ref(), now);
                    record_health(&mut status, commit, sync, now);
                }
            }
            (Gate::Open, Found::Deleting { sync, awaited: _ }) => {
                status.held_deletions = sync.hold.as_ref().map(held_deletions);
            }
            (_, Found::Deleting { .. }) => {}
        }
        if let Gate::Drawing(releases) = &self.gate {
            status.random_values.extend(random_values::drawn(repo, releases, now));
        }
        if let Gate::NotAllowed(_) | Gate::Forbidden(_) | Gate::Refused(_) = self.gate {
            status.held_plan.clear();
        }
        if status.held_plan.is_empty() {
            status.held_changes = None;
        }
        status
    }

    /// Returns what the condition Ready says, followed by what it would say otherwise. If it is empty, the conditions
    /// stay as they are.
    fn readiness(&self, status: &ConfigRepoStatus) -> Vec<Readiness> {
        let repo = self.repo;
        let commit = self.checkout().map_or("", |checkout| checkout.revision.as_str());
        // After a restart, the result for a commit that was judged before is kept, but an earlier wait for it is not.
        let is_kept = is_about(repo, commit) && !is_waiting(repo);
        let (name, applied) = (short_commit(commit), still_applied(status));
        vec![match &self.gate {
            Gate::Open => return self.progress(status),
            Gate::Failed(_) => return Vec::new(),
            Gate::Suspended => suspended(repo),
            // The failure of the fetch is reported.
            Gate::NotFetched if self.source.is_some() => return Vec::new(),
            Gate::Fetching if self.source.is_some_and(|source| source.failure.is_some()) => {
                return Vec::new();
            }
            Gate::NotFetched | Gate::Rendering | Gate::Fetching | Gate::Drawing(_) | Gate::Reading(_)
                if is_kept =>
            {
                return Vec::new();
            }
            Gate::NotFetched => reconciling("Fetching", "the repository has not been fetched yet"),
            Gate::Rendering => reconciling("Rendering", format!("{name} is being rendered; {applied}")),
            Gate::Reading(why) => reconciling("Waiting", format!("{name} waits: {why}; {applied}")),
            Gate::Fetching => {
                let missing = self.missing_charts().join(", ");
                reconciling("Waiting", format!("charts are being fetched: {missing}"))
            }
            Gate::Drawing(releases) => {
                let releases = random_values::names(releases);
                reconciling("Waiting", format!("random values are being drawn for {releases}"))
            }
            Gate::Forbidden(problems) => {
                let summary = sync::summary(problems);
                stalled(FORBIDDEN, format!("cannot apply {name}: {summary}; {applied}"))
            }
            Gate::NotAllowed(problems) | Gate::Refused(problems) | Gate::InvalidWindows(problems) => {
                let reason = problems.first().map_or("Refused", |problem| problem.reason);
                stalled(reason, format!("{}; {applied}", sync::summary(problems)))
            }
            Gate::DependencyCycle(way) => {
                let way = way.join(" -> ");
                let message = format!(
                    "spec.dependsOn forms a cycle: {way}; remove one of these dependencies; {applied}"
                );
                stalled("DependencyCycle", message)
            }
            Gate::DependencyNotReady(on, why) => {
                let message = format!("{name} waits for the ConfigRepo {on}, which {why}; {applied}");
                reconciling("DependencyNotReady", message)
            }
            Gate::NotApproved { hash, changes: _ } => {
                let approves = repo.annotation(APPROVE_PLAN_ANNOTATION).unwrap_or_default();
                let other = if approves.is_empty() { "" } else { "; the annotation approves another plan" };
                let message = format!(
                    "{name} waits for the approval of its plan; {applied}{other}. `wheelwright repo diff {key}` shows what changes. To \
                     approve it, run `wheelwright repo approve {key}`, or annotate the ConfigRepo: {APPROVE_PLAN_ANNOTATION}={hash}",
                    key = Key::of(repo),
                );
                stalled(PLAN_NOT_APPROVED, message)
            }
            Gate::Frozen(wait) => frozen(wait, name, &applied),
        }]
    }

    /// Returns the readiness of a plan that nothing holds.
    fn progress(&self, status: &ConfigRepoStatus) -> Vec<Readiness> {
        match &self.found {
            Found::Nothing | Found::Observed { observation: None, .. } => Vec::new(),
            Found::Observed { observation: Some(observation), .. } => {
                vec![observed(observation, status, self.now)]
            }
            Found::Planned(planned) => planned.readiness(status, self.now),
            Found::Deleting { sync, awaited } => {
                const DELETED: &str = "the ConfigRepo is being deleted";
                let readiness = awaiting(DELETED, awaited.as_ref(), sync.awaiting_requests)
                    .or_else(|| sync.hold.as_ref().map(|hold| held(DELETED, hold)))
                    .or_else(|| terminating(DELETED, self.repo, &sync.terminating, self.now))
                    .or_else(|| {
                        let first = sync.inventory.keys().next()?;
                        let left = counted(sync.inventory.len(), "object");
                        let message = format!("{DELETED} together with {left}, such as {first}");
                        Some(reconciling("Deleting", message))
                    });
                readiness.into_iter().collect()
            }
        }
    }

    /// Returns when to plan again, in addition to the times in the readiness.
    fn wake_at(&self) -> Option<Timestamp> {
        let Found::Planned(planned) = &self.found else { return None };
        match &planned.drift {
            Some(drift) => drift.wake_at,
            None => (!planned.sync.problems.is_empty()).then(|| later(self.now, REFUSAL_RECHECK)),
        }
    }
}

impl Planned<'_> {
    /// Returns true if every object of the commit waits for its namespace.
    fn waits_as_a_whole(&self) -> bool {
        let pending = self.sync.pending_namespace.len();
        pending > 0 && pending == self.commit.wanted()
    }

    /// Records the writes of the commit.
    fn record(&self, gate: &Gate, status: &mut ConfigRepoStatus, now: Timestamp) {
        let Self { commit, sync, drift, held_policies, .. } = self;
        if let Gate::Reading(_) = gate {
            return;
        }
        status.held_plan.clear();
        if let Gate::NotApproved { hash, changes } = gate {
            status.held_plan.clone_from(hash);
            status.held_changes = changes.as_deref().cloned();
        }
        if let Some(seen) = status.seen.as_mut().filter(|_| sync.unread.is_empty()) {
            seen.digest.clone_from(&commit.desired.digest);
        }
        if let Some(drift) = drift {
            status.drift.clone_from(&drift.counts);
        }
        if !matches!(gate, Gate::Open) {
            return;
        }
        record_inventory(status, sync);
        status.paths.clone_from(&commit.paths);
        record_deletions(status, commit, sync);
        record_health(status, commit, sync, now);
        status.recreate.clear();
        status.held_deletions = sync.hold.as_ref().map(held_deletions);
        if !sync.is_held && !self.waits_as_a_whole() {
            status.applied = commit.revision(status.applied.as_ref(), now);
            let lacks_objects = !sync.pending_namespace.is_empty() || held_policies.is_some();
            status.partial = status.seen.clone().filter(|_| lacks_objects);
        } else if !sync.apply.is_empty() || !sync.delete.is_empty() {
            status.partial.clone_from(&status.seen);
        }
    }

    /// Returns the readiness of a commit that is being applied: the most important first.
    fn readiness(&self, status: &ConfigRepoStatus, now: Timestamp) -> Vec<Readiness> {
        let Self { commit, sync, awaited, .. } = self;
        let name = commit.name();
        let state = match self.waits_as_a_whole() {
            true => format!("no object of {name} is applied"),
            false => is_applied(name, status),
        };
        let health = health(commit, sync, self.cycle.as_deref(), status, now);
        let policies = self
            .held_policies
            .as_ref()
            .map(|policies| stalled(POLICY_HELD, format!("{name} is applied except {policies}")));
        let terminating = terminating(&state, commit.repo, &sync.terminating, now);
        let all = [
            health.clone().filter(|_| sync.is_held),
            awaiting(&state, awaited.as_ref(), sync.awaiting_requests).filter(|_| !sync.is_held),
            sync.hold.as_ref().map(|hold| held(&state, hold)),
            policies,
            self.drift.as_ref().and_then(|drift| drift.waiting.as_ref()).map(contested),
            health,
            terminating.clone().filter(|stuck| stuck.phase == Phase::Stalled),
            self.namespace_missing(&state),
            terminating,
        ];
        let mut all: Vec<_> = all.into_iter().flatten().collect();
        if all.is_empty() {
            let message = format!("{} of {name}", counted(commit.wanted(), "object"));
            let ready = Readiness::new(Phase::Ready, "Applied", message);
            all.push(repeated(status.drift.as_ref(), now).as_ref().map_or(ready, contested));
        }
        all
    }

    /// Reports objects that wait for their namespace.
    fn namespace_missing(&self, state: &str) -> Option<Readiness> {
        let pending = &self.sync.pending_namespace;
        let first = pending.first()?;
        let objects = format!("{first}{}", and_more(pending.len()));
        let (part, rest) = match self.waits_as_a_whole() {
            true => (format!("{state}, {objects} wait"), "They are"),
            false => (format!("{} is applied except {objects}", self.commit.name()), "The rest is"),
        };
        let message = format!(
            "{part}: namespace {} does not exist. {rest} applied when it does: the namespace of a cluster comes with the \
             cluster; add any other to the repository",
            first.key.namespace
        );
        Some(reconciling("NamespaceNotFound", message))
    }
}

/// Records the objects that the ConfigRepo owns.
fn record_inventory(status: &mut ConfigRepoStatus, sync: &SyncPlan<'_>) {
    status.objects = Some(count(sync.inventory.len()));
    status.inventory.clear();
}

/// Records the deletions of a commit, and a person's approval of them.
pub(super) fn record_deletions(status: &mut ConfigRepoStatus, commit: &Commit<'_>, sync: &SyncPlan<'_>) {
    let approval = commit.repo.annotation(names::APPROVE_DELETION_ANNOTATION).unwrap_or_default();
    status.approved_deletions = sync.is_approved.then(|| ApprovedDeletions {
        approval: approval.to_owned(),
        digest: commit.desired.digest.clone(),
        ..ApprovedDeletions::default()
    });
    let deletion = |(id, at): (&ObjectId, &Timestamp)| RecentDeletion {
        object: id.path(),
        time: Time(*at),
        unknown: Default::default(),
    };
    status.recent_deletions = sync.recent.iter().map(deletion).collect();
}

/// Records the health of the objects of a commit.
fn record_health(status: &mut ConfigRepoStatus, commit: &Commit<'_>, sync: &SyncPlan<'_>, now: Timestamp) {
    let (digest, now) = (&commit.desired.digest, whole_second(now));
    let before = status.unhealthy.take().filter(|before| before.digest == *digest);
    let SyncPlan { unhealthy, is_held, takes_time, pending_namespace, terminating, .. } = sync;
    if !unhealthy.is_empty() {
        let since = before.and_then(|before| before.since).map(|time| time.0);
        // A time in the future comes from a clock that was ahead.
        let since = since.filter(|since| *since <= now).unwrap_or(now);
        let is_timed = !unhealthy.iter().all(is_rolling_out);
        let entry = |one: &Unhealthy| ObjectId::of(&one.object).entry(&one.object.gvk.version);
        status.unhealthy = Some(UnhealthyObjects {
            digest: digest.clone(),
            since: is_timed.then_some(Time(since)),
            total: count(unhealthy.len()),
            objects: unhealthy.iter().take(MAX_LISTED).map(entry).collect(),
            ..UnhealthyObjects::default()
        });
    } else if !is_held && !takes_time && pending_namespace.is_empty() && terminating.is_empty() {
        status.healthy = commit.revision(status.healthy.as_ref(), now);
    }
}

/// Returns the waiting deletions for the status.
fn held_deletions(hold: &DeletionHold) -> HeldDeletions {
    HeldDeletions {
        approval: hold.approval.clone(),
        total: count(hold.objects.len()),
        objects: hold.objects.iter().take(MAX_LISTED).map(|id| id.entry("")).collect(),
        until: hold.until.map(Time),
        ..HeldDeletions::default()
    }
}

/// Sets the three kstatus conditions, and returns the event about them.
pub(super) fn conclude(
    repo: &ConfigRepo,
    status: &mut ConfigRepoStatus,
    readiness: &Readiness,
    now: Timestamp,
) -> Option<Event> {
    let generation = repo.metadata.generation.unwrap_or_default();
    let Readiness { phase, reason, message, until: _ } = readiness;
    // `kubectl get` shows only one line.
    let message = text::plain(message, MESSAGE);
    let mut set = |name: &str, holds: bool, says: bool| {
        let (reason, message) =
            if says { (reason.as_str(), message.clone()) } else { ("AsExpected", String::new()) };
        condition::set_condition(
            &mut status.conditions,
            condition::Observation::new(name, holds.into(), reason).message(message).at(generation),
            now,
        );
    };
    set(READY, *phase == Phase::Ready, true);
    set(RECONCILING, *phase == Phase::Reconciling, *phase == Phase::Reconciling);
    set(STALLED, *phase == Phase::Stalled, *phase == Phase::Stalled);
    status.observed_generation = Some(generation);
    event::event(repo, status, readiness)
}

/// Returns true if a failed fetch resolves without a person.
fn is_transient(failure: &SourceFailure) -> bool {
    fetch_reasons::TRANSIENT.contains(&failure.reason)
}

/// Reports a failed fetch; `of_commit` is the readiness of the last fetched commit.
///
/// A failure that a person has to fix comes before the commit, because no correction of the commit can arrive. A
/// commit that is refused comes before a failure that resolves without a person.
pub(super) fn failed_fetch(
    failure: &SourceFailure,
    of_commit: Option<Readiness>,
    status: &ConfigRepoStatus,
) -> Readiness {
    let SourceFailure { reason, message } = failure;
    match of_commit.filter(|readiness| readiness.phase == Phase::Stalled) {
        Some(refused) if is_transient(failure) => {
            let message = format!("{}; the last fetch failed: {message}", refused.message);
            Readiness { message, ..refused }
        }
        refused => {
            let phase = if is_transient(failure) { Phase::Reconciling } else { Phase::Stalled };
            let rest = refused.map_or_else(|| still_applied(status), |refused| refused.message);
            Readiness::new(phase, reason, format!("{message}; {rest}"))
        }
    }
}

/// Reports that the ConfigRepo is suspended, in addition to its last result.
fn suspended(repo: &ConfigRepo) -> Readiness {
    const SUSPENDED: &str = "suspended (spec.suspend)";
    let Some(ready) = repo.condition(READY) else { return reconciling("Suspended", SUSPENDED) };
    let phase = match () {
        () if repo.holds(READY) => Phase::Ready,
        () if repo.holds(STALLED) => Phase::Stalled,
        () => Phase::Reconciling,
    };
    let is_told = ready.message.starts_with(SUSPENDED);
    let message = if is_told { ready.message.clone() } else { format!("{SUSPENDED}; {}", ready.message) };
    Readiness::new(phase, &ready.reason, message)
}

/// Reports a commit that waits for the end of a freeze window or the start of an apply window.
fn frozen(wait: &ApplyWait, name: &str, applied: &str) -> Readiness {
    let says = |what: String| format!("{name} waits for {what}; {applied}");
    let readiness = match wait {
        ApplyWait::Freeze { window, until } => {
            let what = format!("the freeze {window} to end at {until} at the earliest");
            reconciling(FROZEN, says(what))
        }
        ApplyWait::Window { window, until } => {
            let what = format!("the apply window {window} to open at {until}");
            reconciling(OUTSIDE_APPLY_WINDOWS, says(what))
        }
        ApplyWait::NoWindow { until: _ } => {
            let what = "an apply window, and none opens within a year".to_owned();
            stalled(OUTSIDE_APPLY_WINDOWS, says(what))
        }
    };
    readiness.until(wait.until())
}

/// Reports how far another tool has applied a commit.
fn observed(observation: &Observation<'_>, status: &ConfigRepoStatus, now: Timestamp) -> Readiness {
    let Observation { commit, total, differing, sync } = observation;
    let name = commit.name();
    if let Some((first, why)) = differing.first() {
        let message = format!(
            "{} of {total} objects do not match {name}, such as {first}: {why}; in mode Observe, another tool applies them",
            differing.len(),
        );
        return reconciling("NotApplied", message);
    }
    let message = format!("the hub matches {name} ({})", counted(*total, "object"));
    let unhealthy = health(commit, sync, None, status, now);
    unhealthy.unwrap_or_else(|| Readiness::new(Phase::Ready, "Observed", message))
}

/// Returns true if an object is being rolled out. Its own deadlines apply, not `spec.healthTimeout`.
fn is_rolling_out(one: &Unhealthy) -> bool {
    matches!(one.health, ObjectHealth::RollingOut(_))
}

/// Reports that the objects of a commit are not healthy yet, if the ConfigRepo waits for that. `cycle` is the cycle
/// of ConfigRepos that wait for each other.
fn health(
    commit: &Commit<'_>,
    sync: &SyncPlan<'_>,
    cycle: Option<&[String]>,
    status: &ConfigRepoStatus,
    now: Timestamp,
) -> Option<Readiness> {
    let SyncPlan { unhealthy, is_held, takes_time, .. } = sync;
    let (name, timeout) = (commit.name(), health_timeout(commit.repo));
    if timeout.is_zero() {
        return None;
    }
    let before = applied_before(status, &commit.checkout.revision);
    // An object that has failed comes first, then one whose time is limited.
    let all_failed = || unhealthy.iter().filter(|one| matches!(one.health, ObjectHealth::Failed(_)));
    let failed = all_failed().next();
    let timed = unhealthy.iter().find(|one| !is_rolling_out(one));
    let Some(first) = failed.or(timed).or(unhealthy.first()) else {
        let message = match is_held {
            true => {
                format!("{name} is being applied; later stages wait until earlier ones are healthy{before}")
            }
            false => format!("{}; not all of its objects are healthy yet", is_applied(name, status)),
        };
        return (*is_held || *takes_time).then(|| reconciling("WaitingForHealth", message));
    };
    if let Some(way) = cycle {
        let state = if *is_held { format!("{name} is applied in part") } else { is_applied(name, status) };
        let message = format!(
            "{state}, but these ConfigRepos wait for each other: {}; set spec.healthTimeout of one of them to 0s, or let \
             another repository hold it",
            way.join(" -> ")
        );
        return Some(stalled("DependencyCycle", message));
    }
    let alike = if failed.is_some() { all_failed().count() } else { unhealthy.len() };
    let object = format!("{}{}", first.object, and_more(alike));
    let why = match &first.health {
        ObjectHealth::Current => "it is healthy",
        ObjectHealth::InProgress(why) | ObjectHealth::RollingOut(why) | ObjectHealth::Failed(why) => why,
    };
    let held = match is_held {
        true => format!("; later stages of the commit are not applied{before}"),
        false => String::new(),
    };
    if failed.is_some() {
        return Some(stalled("HealthCheckFailed", format!("{object} of {name} has failed: {why}{held}")));
    }
    let Some(since) = status.unhealthy.as_ref()?.since.as_ref() else {
        return Some(reconciling("WaitingForHealth", format!("{name} waits for {object}: {why}{held}")));
    };
    let end = later(since.0, timeout);
    if end > now {
        let message = format!("{name} waits until {end} for {object}: {why}{held}");
        return Some(reconciling("WaitingForHealth", message).until(end));
    }
    let limit = &commit.repo.spec.health_timeout;
    let message = format!("{object} of {name} did not become healthy within {limit}: {why}{held}");
    Some(stalled("HealthTimeout", message))
}

/// Reports that deletions wait for another ConfigRepo. `state` describes the rest of the state.
pub(super) fn awaiting(
    state: &str,
    awaited: Option<&(Key, Timestamp)>,
    deletions: usize,
) -> Option<Readiness> {
    let (other, end) = awaited.filter(|_| deletions > 0)?;
    let message = format!(
        "{state}; {deletions} deletions wait until {end} for the ConfigRepo {other}, which may want the objects"
    );
    Some(reconciling(moves::REASON, message).until(*end))
}

/// Reports deletions that wait for an approval. `state` describes the rest of the state.
fn held(state: &str, hold: &DeletionHold) -> Readiness {
    let names: Vec<_> = hold.objects.iter().take(3).map(ToString::to_string).collect();
    let more = if hold.objects.len() > names.len() { ", …" } else { "" };
    let message = format!(
        "{state}, but deletions wait{}: {} ({}{more}). To approve, annotate the ConfigRepo: {}={}",
        hold.until.map(|until| format!(" until {until}")).unwrap_or_default(),
        hold.why,
        names.join(", "),
        names::APPROVE_DELETION_ANNOTATION,
        hold.approval
    );
    match hold.until {
        Some(until) => reconciling(DELETIONS_HELD, message).until(until),
        None => stalled(DELETIONS_HELD, message),
    }
}

/// Reports an object that another client changes again and again.
fn contested(one: &Contested) -> Readiness {
    let Contested { object, corrections, changed_by, next } = one;
    let by = if changed_by.is_empty() { String::new() } else { format!("; {changed_by}") };
    let summary = format!("{object} was changed on the hub and corrected {corrections} times{by}");
    let hint = format!(
        "Stop the other client, list the fields in the annotation {IGNORE_FIELDS_ANNOTATION}, or remove them from the repository"
    );
    match next {
        Next::Watch(end) => reconciling(DRIFTED, format!("{summary}. {hint}")).until(*end),
        Next::Correct(at) => {
            let message = format!("{summary}; the next correction is at {at}. {hint}");
            reconciling(DRIFTED, message).until(*at)
        }
        Next::GiveUp(more) => {
            let others = if *more > 0 { format!(", nor are {more} more") } else { String::new() };
            let message = format!(
                "{summary}; it is no longer corrected{others}. {hint}; then set the annotation {RECONCILE_AT_ANNOTATION} to try again"
            );
            stalled(FIGHT, message)
        }
    }
}

/// Reports objects that are being deleted, and the one that takes longest if it exceeds `spec.healthTimeout`. `state`
/// describes the rest of the state.
fn terminating(
    state: &str,
    repo: &ConfigRepo,
    terminating: &[Terminating],
    now: Timestamp,
) -> Option<Readiness> {
    let slowest = terminating.iter().min_by_key(|one| one.since.unwrap_or(Timestamp::MAX))?;
    let end = slowest.since.map(|since| later(since, health_timeout(repo).max(LEAST_DELETION)));
    if let (Some(since), Some(end)) = (slowest.since, end)
        && end <= now
    {
        let more = terminating.len() - 1;
        let others = if more > 0 { format!(", and {more} more are being deleted") } else { String::new() };
        let (object, obstacle) = (&slowest.object, obstacle(slowest));
        let message = format!("{object} has been terminating since {since}: {obstacle}{others}");
        return Some(stalled("DeletionStuck", message));
    }
    let (first, all) = (&terminating.first()?.object, terminating.len());
    let message = format!("{state}; {all} objects are being deleted, such as {first}");
    Some(Readiness { until: end, ..reconciling("Deleting", message) })
}

/// Describes what the deletion of an object waits for.
fn obstacle(one: &Terminating) -> String {
    if one.finalizers.is_empty() {
        return "it has no finalizer; see its status and what it contains".into();
    }
    let named: Vec<&str> = one.finalizers.iter().take(MAX_FINALIZERS).map(String::as_str).collect();
    format!(
        "it waits for its finalizers to be removed ({}); check that their controllers are running",
        named.join(", ")
    )
}

fn reconciling(reason: &str, message: impl AsRef<str>) -> Readiness {
    Readiness::new(Phase::Reconciling, reason, message)
}

fn stalled(reason: &str, message: impl AsRef<str>) -> Readiness {
    Readiness::new(Phase::Stalled, reason, message)
}

/// Describes a commit as fully or partly applied.
fn is_applied(commit: &str, status: &ConfigRepoStatus) -> String {
    let part = if status.partial.is_some() { " in part" } else { "" };
    format!("{commit} is applied{part}")
}

/// Counts the objects of a list after the first one.
fn and_more(objects: usize) -> String {
    let more = objects.saturating_sub(1);
    if more > 0 { format!(" and {more} more") } else { String::new() }
}
