//! The git station: keeps the [`Source`] of every `ConfigRepo` fresh, and pushes reports.
//!
//! A repository is fetched when its interval has passed, when a local one changes, when its spec or an annotation asks for it, and
//! after a failure with growing waits. Nothing here decides what a commit means.

mod mirrors;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::mirrors::Mirrors;
use crate::git::{Error, Remote, Watching, watch};
use crate::shell::{Handle, PushFn, now};
use api::gitops::v1alpha1::ConfigRepo;
use api::names;
use object::Key;
use object::duration;
use reconcile::{Query, Source, View};

/// How often the list of repositories is looked through for what is due.
const TICK: Duration = Duration::from_millis(500);
/// How long after a local change it is fetched: a push changes several references.
const SETTLE: SignedDuration = SignedDuration::from_millis(100);
/// Fetches at one time.
const AT_ONCE: usize = 4;
/// The first wait after a failure; doubled with each further one, up to the interval.
const FIRST_RETRY: SignedDuration = SignedDuration::from_secs(2);
/// Intervals below are taken for this one.
const SHORTEST_INTERVAL: SignedDuration = SignedDuration::from_secs(1);
/// The interval where none can be read.
const DEFAULT_INTERVAL: SignedDuration = SignedDuration::from_mins(1);

/// Fetches and pushes for one hub.
pub struct Station {
    mirrors: Arc<Mirrors>,
}

/// What is known of one repository between fetches.
#[derive(Default)]
struct Followed {
    due: Option<Timestamp>,
    running: bool,
    failures: u32,
    /// What was asked for when it was last fetched; any difference asks for another fetch.
    asked: Asked,
    source: Source,
    watching: Option<Watching>,
}

/// What makes a repository due at once when it changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Asked {
    generation: Option<i64>,
    reconcile_at: Option<String>,
    accepted: Option<String>,
}

impl Asked {
    fn of(repo: &ConfigRepo) -> Self {
        let annotation = |name: &str| {
            repo.metadata.annotations.as_ref().and_then(|annotations| annotations.get(name).cloned())
        };
        Self {
            generation: repo.metadata.generation,
            reconcile_at: annotation(names::RECONCILE_AT_ANNOTATION),
            accepted: annotation(names::ACCEPT_REVISION_ANNOTATION),
        }
    }
}

/// What a fetch ended with.
struct Fetched {
    key: Key,
    source: Source,
}

impl Station {
    /// A station that keeps its mirrors in a directory.
    pub fn new(hub: kube::Client, cache: PathBuf) -> Self {
        Self { mirrors: Arc::new(Mirrors::new(hub, cache)) }
    }

    /// How a shell pushes.
    pub fn push(&self) -> PushFn {
        let mirrors = Arc::clone(&self.mirrors);
        Arc::new(move |push| {
            let mirrors = Arc::clone(&mirrors);
            Box::pin(async move { mirrors.push(push).await })
        })
    }

    /// Fetches until `stop`.
    pub async fn run(self, handle: Handle, stop: CancellationToken) {
        let mut followed: BTreeMap<Key, Followed> = BTreeMap::new();
        let (changed, mut changes) = mpsc::unbounded_channel::<Key>();
        let (slots, mut fetches) = (Arc::new(Semaphore::new(AT_ONCE)), JoinSet::new());
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                _ = tick.tick() => {}
                Some(key) = changes.recv() => {
                    if let Some(one) = followed.get_mut(&key) {
                        one.due = Some(now().saturating_add(SETTLE).unwrap_or(Timestamp::MAX));
                    }
                    continue;
                }
                Some(Ok(fetched)) = fetches.join_next() => take(&handle, &mut followed, fetched),
            }
            let Ok(repos) = handle.read(|caches| caches.list::<ConfigRepo>(Query::ALL)) else { continue };
            followed.retain(|key, _| repos.iter().any(|repo| Key::of(&**repo) == *key));
            for repo in repos
                .into_iter()
                .filter(|repo| !repo.spec.suspend && repo.metadata.deletion_timestamp.is_none())
            {
                let key = Key::of(&*repo);
                let one = followed.entry(key.clone()).or_default();
                let asked = Asked::of(&repo);
                let due = one.due.is_none_or(|due| due <= now()) || one.asked != asked;
                if one.running || !due {
                    continue;
                }
                (one.running, one.due) = (true, None);
                if one.asked.generation != asked.generation || one.watching.is_none() {
                    one.watching = notices(&repo, &key, &changed);
                }
                one.asked = asked;
                fetches.spawn(fetch(Arc::clone(&self.mirrors), Arc::clone(&slots), repo, one.source.clone()));
            }
        }
        fetches.abort_all();
    }
}

/// Watches a repository of this machine.
fn notices(repo: &ConfigRepo, key: &Key, changed: &mpsc::UnboundedSender<Key>) -> Option<Watching> {
    let (changed, key) = (changed.clone(), key.clone());
    watch(&Remote::parse(&repo.spec.url).ok()?, move || {
        // The receiver is gone only when the station ends.
        let _ = changed.send(key.clone());
    })
}

async fn fetch(
    mirrors: Arc<Mirrors>,
    slots: Arc<Semaphore>,
    repo: Arc<ConfigRepo>,
    before: Source,
) -> Fetched {
    let key = Key::of(&*repo);
    let _slot = slots.acquire_owned().await;
    let source = match mirrors.fetch(&repo, &before).await {
        Ok(checkout) => Source { checkout: Some(checkout), failure: None },
        Err((kept, error)) => Source { checkout: kept, failure: Some(error.into()) },
    };
    Fetched { key, source }
}

/// Hands on what a fetch brought, and says when the next is due.
fn take(handle: &Handle, followed: &mut BTreeMap<Key, Followed>, fetched: Fetched) {
    let Fetched { key, source } = fetched;
    let Some(one) = followed.get_mut(&key) else { return };
    let interval = handle
        .read(|caches| caches.get::<ConfigRepo>(&key))
        .ok()
        .flatten()
        .map_or(DEFAULT_INTERVAL, |repo| interval(&repo));
    one.running = false;
    one.failures = if source.failure.is_some() { one.failures.saturating_add(1) } else { 0 };
    let wait = match one.failures {
        0 => interval,
        failures => (FIRST_RETRY * (1 << failures.min(16).saturating_sub(1))).min(interval.max(FIRST_RETRY)),
    };
    // A change that was noticed while the fetch ran is not forgotten.
    one.due = one.due.or_else(|| now().checked_add(wait).ok());
    let commit = |source: &Source| source.checkout.as_ref().map(|checkout| checkout.revision.clone());
    if commit(&one.source) != commit(&source) {
        info!(repo = %key, commit = commit(&source).unwrap_or_default(), "fetched");
    }
    if let Some(failure) =
        source.failure.as_ref().filter(|failure| one.source.failure.as_ref() != Some(*failure))
    {
        warn!(repo = %key, reason = failure.reason, why = failure.message, "cannot fetch");
    }
    one.source = source.clone();
    handle.set_source(key, source);
}

fn interval(repo: &ConfigRepo) -> SignedDuration {
    duration::parse(&repo.spec.interval).unwrap_or(DEFAULT_INTERVAL).max(SHORTEST_INTERVAL)
}

/// An error with the checkout that stays good all the same.
type Kept = (Option<Arc<object::tree::Checkout>>, Error);
