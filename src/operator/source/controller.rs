//! Schedules the fetches of all repositories.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::{info, warn};

use super::commit_status::CommitStatuses;
use super::mirrors::{FetchError, Mirrors, SourceOptions};
use super::notification::Notifications;
use super::webhook::Webhooks;
use crate::git::{self, RefWatcher, watch};
use crate::operator::sealing::SealingKey;
use crate::operator::traces::{FetchTimes, Tracer};
use crate::pki;
use crate::shell::{CommitStatusFn, Handle, Leadership, NotifyFn, PushFn, WallClockWait, now};
use api::gitops::v1alpha1::{ConfigRepo, RandomValues, SecretHandling};
use api::names;
use object::duration::{self, later};
use object::{Key, Seed};
use reconcile::{Query, Source, SourceFailure, SourceIdentity, View};

/// The interval between checks for edits of ConfigRepos that request a fetch.
const TICK: SignedDuration = SignedDuration::from_millis(500);
/// The delay between a local change and the fetch, because a push changes several references.
const LOCAL_CHANGE_DELAY: SignedDuration = SignedDuration::from_millis(100);
/// The maximum number of queued changes of local repositories. A push causes a few.
const LOCAL_CHANGES: usize = 1024;
/// The wait after the first failure. It doubles with each failure, up to the interval.
const FIRST_RETRY: SignedDuration = SignedDuration::from_secs(2);
/// The maximum number of queued hints. Each ConfigRepo needs one.
const MAX_HINTS: usize = 1024;
/// The minimum interval, and the minimum time between two fetches that webhooks request. Shorter intervals are
/// rounded up.
const SHORTEST_INTERVAL: SignedDuration = SignedDuration::from_secs(1);
/// The interval if the one in the spec is invalid.
const DEFAULT_INTERVAL: SignedDuration = SignedDuration::from_mins(1);

/// Fetches and pushes for one hub.
pub struct SourceController {
    mirrors: Arc<Mirrors>,
    hub: kube::Client,
    sealing: SealingKey,
    tracer: Option<Arc<Tracer>>,
    /// The ConfigRepos in webhooks, which are fetched at once.
    hints: (mpsc::Sender<Key>, mpsc::Receiver<Key>),
}

/// The state of one repository between fetches.
#[derive(Default)]
struct RepoState {
    /// The identity of the source. The state is reset when a ConfigRepo follows another reference.
    identity: SourceIdentity,
    due: Option<Timestamp>,
    /// The start of the last fetch.
    began: Option<Timestamp>,
    /// The time when a webhook first requested the next fetch.
    hinted: Option<Timestamp>,
    running: Option<RunningFetch>,
    failures: u32,
    /// The end of the server's rate limit.
    paused: Option<Timestamp>,
    /// The trigger of the last fetch. A different trigger requests another fetch.
    trigger: FetchTrigger,
    source: Source,
    watcher: Option<RefWatcher>,
    /// Requests a fetch when a Secret changes that may fix the last one.
    secrets: Option<AbortOnDropHandle<()>>,
}

/// A running fetch. It is canceled when no task awaits its result.
struct RunningFetch {
    task: AbortHandle,
    /// The time when a webhook requested it.
    hinted: Option<Timestamp>,
}

impl Drop for RunningFetch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The fields of a ConfigRepo that trigger a fetch when they change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct FetchTrigger {
    generation: Option<i64>,
    reconcile_at: Option<String>,
    webhook_at: Option<String>,
    accepted: Option<String>,
    random_values: Vec<RandomValues>,
    charts: Vec<String>,
}

impl FetchTrigger {
    fn new(repo: &ConfigRepo) -> Self {
        let annotation = |name: &str| {
            repo.metadata.annotations.as_ref().and_then(|annotations| annotations.get(name).cloned())
        };
        let charts = repo.status.iter().flat_map(|status| &status.charts);
        Self {
            generation: repo.metadata.generation,
            reconcile_at: annotation(names::RECONCILE_AT_ANNOTATION),
            webhook_at: annotation(names::WEBHOOK_AT_ANNOTATION),
            accepted: annotation(names::ACCEPT_REVISION_ANNOTATION),
            random_values: repo.status.iter().flat_map(|status| status.random_values.clone()).collect(),
            charts: charts.map(|one| one.chart.clone()).collect(),
        }
    }
}

/// The result of a fetch.
struct Fetched {
    key: Key,
    source: Source,
    /// The pause that the server requested.
    pause: Option<Duration>,
    /// See [`RepoState::secrets`].
    secrets: Option<AbortOnDropHandle<()>>,
}

impl SourceController {
    /// Returns a controller that reads credentials from the hub.
    pub(in crate::operator) fn new(
        hub: kube::Client,
        options: SourceOptions,
        sealing: SealingKey,
        tracer: Option<Arc<Tracer>>,
    ) -> Self {
        let mirrors = Arc::new(Mirrors::new(hub.clone(), options));
        Self { mirrors, hub, sealing, tracer, hints: mpsc::channel(MAX_HINTS) }
    }

    /// Returns the receiver for webhooks. With an election, all candidates receive them.
    pub(crate) fn webhooks(&self, leadership: Option<Leadership>) -> Webhooks {
        let (hub, mirrors, hints) = (self.hub.clone(), Arc::clone(&self.mirrors), self.hints.0.clone());
        Webhooks { hub, mirrors, hints, leadership }
    }

    /// Returns the function that the shell calls to push.
    pub fn push(&self) -> PushFn {
        let mirrors = Arc::clone(&self.mirrors);
        Arc::new(move |push| {
            let mirrors = Arc::clone(&mirrors);
            Box::pin(async move { mirrors.push(push).await })
        })
    }

    /// Returns the function that the shell calls to set commit statuses.
    pub fn commit_status(&self) -> CommitStatusFn {
        let statuses = Arc::new(CommitStatuses::new(Arc::clone(&self.mirrors)));
        Arc::new(move |status| {
            let statuses = Arc::clone(&statuses);
            Box::pin(async move { statuses.set(status).await })
        })
    }

    /// Returns the function that the shell calls to send notifications.
    pub fn notify(&self) -> NotifyFn {
        let notifications = Arc::new(Notifications::new(Arc::clone(&self.mirrors)));
        Arc::new(move |notification| {
            let notifications = Arc::clone(&notifications);
            Box::pin(async move { notifications.send(notification).await })
        })
    }

    /// Fetches until `stop`.
    pub async fn run(mut self, handle: Handle, stop: CancellationToken) {
        let mut states: BTreeMap<Key, RepoState> = BTreeMap::new();
        let (changed, mut changes) = mpsc::channel::<Key>(LOCAL_CHANGES);
        let mut fetches = JoinSet::new();
        let mut next = now();
        loop {
            let rest = next.duration_since(now()).max(SignedDuration::ZERO);
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(rest.unsigned_abs()) => {}
                Some(key) = changes.recv() => {
                    if let Some(one) = states.get_mut(&key) {
                        let at = later(now(), LOCAL_CHANGE_DELAY);
                        one.due = Some(at);
                        next = next.min(at);
                    }
                    continue;
                }
                Some(key) = self.hints.1.recv() => {
                    if let Some(one) = states.get_mut(&key) {
                        one.hint(now());
                    }
                }
                Some(ended) = fetches.join_next_with_id() => match ended {
                    Ok((_, fetched)) => {
                        trace(self.tracer.as_deref(), &handle, &states, &fetched);
                        finish(&handle, &self.mirrors, &mut states, fetched);
                    }
                    Err(error) => fetch_panicked(&handle, &self.mirrors, &mut states, &error),
                },
            }
            next = later(now(), TICK);
            let Ok(repos) = handle.caches().list::<ConfigRepo>(Query::ALL) else { continue };
            drop_deleted(&handle, &mut states, &repos);
            for repo in repos
                .into_iter()
                .filter(|repo| !repo.spec.suspend && repo.metadata.deletion_timestamp.is_none())
            {
                let key = Key::of(&*repo);
                let one = states.entry(key.clone()).or_default();
                let identity = SourceIdentity::of(&repo);
                if one.identity != identity {
                    *one = RepoState { identity, ..RepoState::default() };
                }
                let trigger = FetchTrigger::new(&repo);
                if one.running.is_some() {
                    continue;
                }
                if let Some(due) = one.rests_until(now()).filter(|_| one.trigger == trigger) {
                    next = next.min(due);
                    continue;
                }
                (one.due, one.secrets) = (None, None);
                if one.trigger.generation != trigger.generation || one.watcher.is_none() {
                    one.watcher = watch_local(&self.mirrors, &repo, &changed);
                }
                (one.trigger, one.began) = (trigger, Some(now()));
                let sealing = (repo.spec.secrets != SecretHandling::Plain).then(|| self.sealing.clone());
                let task = fetch(Arc::clone(&self.mirrors), repo, one.source.clone(), changed.clone());
                let task = with_key(sealing, task);
                one.running = Some(RunningFetch { task: fetches.spawn(task), hinted: one.hinted.take() });
            }
        }
        fetches.abort_all();
    }
}

impl RepoState {
    /// Returns when the next fetch is due; `None` if it is due now, or if the clock was set back to before the
    /// last fetch.
    fn rests_until(&self, now: Timestamp) -> Option<Timestamp> {
        let since = self.began.unwrap_or(Timestamp::MIN);
        self.due.filter(|until| !WallClockWait { since, until: *until }.is_over(now))
    }

    /// Requests a fetch now, or soon if the last one has just started.
    fn hint(&mut self, now: Timestamp) {
        let rest = |began: Timestamp| later(began, SHORTEST_INTERVAL);
        let at = self.began.filter(|began| *began <= now).map_or(now, rest).max(now);
        self.due = Some(self.due.map_or(at, |due| due.min(at))).max(self.paused);
        self.hinted = self.hinted.or(Some(now));
    }
}

/// Watches a local repository, if local repositories are allowed.
fn watch_local(mirrors: &Mirrors, repo: &ConfigRepo, changed: &mpsc::Sender<Key>) -> Option<RefWatcher> {
    let (changed, key) = (changed.clone(), Key::of(repo));
    watch(&mirrors.remote(&repo.spec.url).ok()?, move || {
        // If the queue is full, the next scheduled fetch finds the change.
        let _ = changed.try_send(key.clone());
    })
}

/// Drops the states and sources of deleted ConfigRepos.
fn drop_deleted(handle: &Handle, states: &mut BTreeMap<Key, RepoState>, repos: &[Arc<ConfigRepo>]) {
    let exist: BTreeSet<Key> = repos.iter().map(|repo| Key::of(&**repo)).collect();
    for key in states.keys().filter(|key| !exist.contains(key)) {
        handle.source_changed(key, Source::default());
    }
    states.retain(|key, _| exist.contains(key));
}

/// Cleans up after a fetch that panicked, so that the repository is fetched again.
fn fetch_panicked(
    handle: &Handle,
    mirrors: &Mirrors,
    states: &mut BTreeMap<Key, RepoState>,
    error: &JoinError,
) {
    // A fetch is aborted when its state is dropped, so nothing waits for it.
    if error.is_cancelled() {
        return;
    }
    let is_it = |one: &RepoState| one.running.as_ref().is_some_and(|running| running.task.id() == error.id());
    let Some((key, one)) = states.iter().find(|(_, one)| is_it(one)) else { return };
    let failure = git::Error::Cache(format!("the fetch panicked: {error}"));
    let failure = Some(SourceFailure { reason: failure.reason(), message: failure.to_string() });
    let fetched = Fetched {
        key: key.clone(),
        source: Source { identity: one.identity.clone(), failure, ..one.source.clone() },
        pause: None,
        secrets: None,
    };
    finish(handle, mirrors, states, fetched);
}

/// Loads the key that encrypts Secrets, if a ConfigRepo needs it, and then fetches.
async fn with_key(sealing: Option<SealingKey>, fetch: impl Future<Output = Fetched>) -> Fetched {
    if let Some(sealing) = sealing {
        sealing.ensure().await;
    }
    fetch.await
}

/// Fetches a repository. If fetches keep failing and a Secret may fix them, sends the ConfigRepo to `changed`
/// when one of its Secrets has changed since this fetch began.
async fn fetch(
    mirrors: Arc<Mirrors>,
    repo: Arc<ConfigRepo>,
    before: Source,
    changed: mpsc::Sender<Key>,
) -> Fetched {
    let key = Key::of(&*repo);
    // After the first failure, the wait for the next fetch is short anyway.
    let versions = match &before.failure {
        Some(_) => mirrors.secrets.versions(&repo).await,
        None => Vec::new(),
    };
    let fetched = mirrors.fetch_with_charts(&repo, &before).await;
    let seed = mirrors.secrets.seed(&repo, before.seed.as_ref()).await;
    let keys = mirrors.secrets.keys(&repo, before.keys.as_ref()).await;
    let is_lost = matches!((&before.seed, &seed), (Some(Ok(_)), None));
    let entropy = before.entropy.filter(|_| !is_lost).or_else(entropy);
    match fetched {
        Ok(checkout) => {
            let source = Source { seed, entropy, keys, ..Source::of(&repo, Some(checkout), None) };
            Fetched { key, source, pause: None, secrets: None }
        }
        Err(FetchError { checkout, error }) => {
            let failure = SourceFailure { reason: error.reason(), message: message(&error) };
            let source = Source { seed, entropy, keys, ..Source::of(&repo, checkout, Some(failure)) };
            let pause = error.pause();
            let is_mended_by_secrets = error.is_of_secret() && !versions.is_empty();
            let look = async move {
                mirrors.secrets.changed(&repo, &versions).await;
                let _ = changed.send(Key::of(&*repo)).await;
            };
            let secrets = is_mended_by_secrets.then(|| AbortOnDropHandle::new(tokio::spawn(look)));
            Fetched { key, source, pause, secrets }
        }
    }
}

/// Generates the entropy of a ConfigRepo without a seed; `None` if the system has no randomness.
fn entropy() -> Option<Seed> {
    let mut bytes = [0; 32];
    pki::fill_random(&mut bytes).ok()?;
    Some(Seed { bytes, time: now() })
}

/// Returns the message of an error, including hints that name the hub API.
pub(crate) fn message(error: &git::Error) -> String {
    match error {
        git::Error::Rewound { from, to, .. } | git::Error::HistoryRefused { from, to, .. } => {
            let (annotation, rewind) = (names::ACCEPT_REVISION_ANNOTATION, git::rewind(from, to));
            format!("{error}. To accept, annotate the ConfigRepo: {annotation}={rewind}")
        }
        _ => error.to_string(),
    }
}

/// Creates the first spans of a commit, unless the last fetch returned the same commit.
fn trace(tracer: Option<&Tracer>, handle: &Handle, states: &BTreeMap<Key, RepoState>, fetched: &Fetched) {
    let (Some(tracer), Some(one)) = (tracer, states.get(&fetched.key)) else { return };
    let commit = |source: &Source| source.checkout.as_ref().map(|checkout| checkout.revision.clone());
    if let (Some(began), Ok(Some(repo))) = (one.began, handle.caches().get::<ConfigRepo>(&fetched.key))
        && commit(&one.source) != commit(&fetched.source)
    {
        let hinted = one.running.as_ref().and_then(|running| running.hinted);
        tracer.fetched(&repo, &fetched.source, FetchTimes { hinted, began, ended: now() });
    }
}

/// Publishes the result of a fetch, and schedules the next fetch.
fn finish(handle: &Handle, mirrors: &Mirrors, states: &mut BTreeMap<Key, RepoState>, fetched: Fetched) {
    let Fetched { key, source, pause, secrets } = fetched;
    let Some(one) = states.get_mut(&key).filter(|one| one.identity == source.identity) else { return };
    let took = one.began.map(|began| now().duration_since(began)).unwrap_or_default();
    handle.fetched(
        took,
        mirrors.arrivals.take_count(),
        source.failure.as_ref().map(|failure| failure.reason),
    );
    handle.sent_to_git(mirrors.arrivals.take_sent());
    let interval = handle
        .caches()
        .get::<ConfigRepo>(&key)
        .ok()
        .flatten()
        .map_or(DEFAULT_INTERVAL, |repo| interval(&repo));
    let interval = spread(&key, interval);
    (one.running, one.secrets) = (None, secrets);
    one.failures = if source.failure.is_some() { one.failures.saturating_add(1) } else { 0 };
    let wait = match one.failures {
        0 => interval,
        failures => duration::doubled(FIRST_RETRY, interval.max(FIRST_RETRY), failures),
    };
    one.paused = pause.and_then(|pause| now().checked_add(pause).ok());
    // A change during the fetch keeps its due time.
    one.due = one.due.or_else(|| now().checked_add(wait).ok()).max(one.paused);
    let commit = |source: &Source| source.checkout.as_ref().map(|checkout| checkout.revision.clone());
    if commit(&one.source) != commit(&source) {
        info!(repo = %key, commit = commit(&source).unwrap_or_default(), "fetched");
    }
    if let Some(failure) =
        source.failure.as_ref().filter(|failure| one.source.failure.as_ref() != Some(*failure))
    {
        warn!(repo = %key, reason = failure.reason, error = failure.message, "cannot fetch");
    }
    one.source = source.clone();
    handle.source_changed(&key, source);
}

/// Returns an interval that is shorter by up to a tenth, depending on the name. ConfigRepos that were created
/// together are therefore not always fetched together.
fn spread(key: &Key, interval: SignedDuration) -> SignedDuration {
    interval - duration::spread(&key.to_string(), interval / 10)
}

fn interval(repo: &ConfigRepo) -> SignedDuration {
    duration::parse(&repo.spec.interval).unwrap_or(DEFAULT_INTERVAL).max(SHORTEST_INTERVAL)
}

#[cfg(test)]
#[path = "tests/controller.rs"]
mod tests;
