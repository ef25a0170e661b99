//! Plans what is due and executes it.

use std::any::TypeId;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::runtime::events::{Recorder, Reporter};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, error, info, warn};

use super::events::record;
use super::execute::Executor;
use super::metrics::Metrics;
use super::register::{Registered, Selection};
use super::resources::Resources;
use super::watch::{self, News, Target};
use super::{clock::now, execute};
use crate::object::{Gvk, Key, Kind, Object};
use crate::reconcile::{
    Action, Backoff, Caches, Change, Delta, Failure, FailureKind, Loop, Narrowed, Outcome, Push, Runner, Scope, Site, Source,
};

/// Keys of one controller that are planned or executed at one time.
const KEYS_AT_ONCE: usize = 16;
/// How long changes are gathered before their keys are planned.
const COALESCE: SignedDuration = SignedDuration::from_millis(50);
/// How long running plans may take to end after a stop was asked for.
const DRAIN: Duration = Duration::from_secs(10);

/// Commits and pushes files; supplied by the git station.
pub type PushFn = Arc<dyn Fn(Push) -> BoxFuture<'static, Result<(), Failure>> + Send + Sync>;

/// What a shell runs against.
pub struct ShellOptions {
    /// The hub.
    pub hub: Client,
    /// The cluster an agent applies to.
    pub spoke: Option<Client>,
    /// The part of the hub that is watched.
    pub scope: Scope,
    /// Which of the registered controllers run.
    pub controllers: Selection,
    /// How [`Action::Push`] is executed.
    pub push: Option<PushFn>,
}

/// Controllers with their caches and queues, ready to run.
pub struct Shell {
    core: Arc<Core>,
}

/// A way into a running shell for whoever feeds or shows it.
#[derive(Clone)]
pub struct Handle {
    core: Arc<Core>,
}

/// What all tasks of a shell share.
pub(super) struct Core {
    caches: RwLock<Caches>,
    queues: Mutex<Queues>,
    notify: Notify,
    registered: Registered,
    executor: Executor,
    scope: Scope,
    /// By controller; each gathers repeated events into series.
    recorders: Vec<Recorder>,
    metrics: Metrics,
    /// Cancelled when a task panicked in the middle of a change: what is known may be half of what is there.
    broken: CancellationToken,
}

#[derive(Default)]
struct Queues {
    started: bool,
    loops: Vec<Loop>,
    /// Kinds whose first list has been read.
    complete: BTreeSet<(Site, TypeId)>,
    /// What each key asked to have observed, and the watches that came of it.
    asked: BTreeMap<(usize, Key), Vec<Gvk>>,
    observing: BTreeMap<Gvk, AbortHandle>,
}

impl Shell {
    /// Registers controllers; nothing runs yet.
    pub fn new(options: ShellOptions, register: impl FnOnce(&mut Registrar<'_>)) -> Self {
        let ShellOptions { hub, spoke, scope, controllers, push } = options;
        let mut registered = Registered::new(controllers);
        register(&mut Registrar(&mut registered));
        let loops = registered.runners.iter().map(|_| Loop::with_spacing(COALESCE)).collect();
        let reporter = |runner: &Runner| Reporter { controller: runner.reporter.into(), instance: None };
        let recorders = registered.runners.iter().map(|runner| Recorder::new(hub.clone(), reporter(runner))).collect();
        let executor = Executor::new(Arc::new(Resources::new(hub)), spoke.map(|client| Arc::new(Resources::new(client))), push);
        let queues = Mutex::new(Queues { loops, ..Queues::default() });
        let core = Core {
            caches: RwLock::default(),
            queues,
            notify: Notify::new(),
            registered,
            executor,
            scope,
            recorders,
            metrics: Metrics::default(),
            broken: CancellationToken::new(),
        };
        Self { core: Arc::new(core) }
    }

    /// A way in.
    pub fn handle(&self) -> Handle {
        Handle { core: Arc::clone(&self.core) }
    }

    /// Runs until `stop`; then lets what is being executed end.
    ///
    /// A panic is a bug of ours. In a decision it costs its key a turn; in a watch, or in the middle of a change of the caches, it
    /// cancels `stop`, so that the process ends and starts anew.
    pub async fn run(self, stop: CancellationToken) {
        let core = self.core;
        let names: Vec<_> = core.registered.runners.iter().map(|runner| runner.name).collect();
        info!(controllers = names.join(","), "started");
        core.queues().started = true;
        let expected = core.registered.runners.iter().enumerate();
        core.wake(expected.flat_map(|(controller, runner)| runner.expected.iter().map(move |name| (controller, Key::cluster(*name)))));
        let (watches, plans) = (TaskTracker::new(), TaskTracker::new());
        let watching = CancellationToken::new();
        for ((site, _), kind) in &core.registered.kinds {
            let task = watch_kind(Arc::clone(&core), *site, kind.gvk.clone(), kind.start);
            watches.spawn(watching.clone().run_until_cancelled_owned(Arc::clone(&core).guard(task)));
        }
        while !stop.is_cancelled() {
            let next = core.dispatch(&plans);
            let due = async {
                match next {
                    Some(at) => sleep(now().duration_until(at).unsigned_abs()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = core.notify.notified() => {}
                () = due => {}
                () = core.broken.cancelled() => stop.cancel(),
                () = stop.cancelled() => {}
            }
        }
        plans.close();
        if timeout(DRAIN, plans.wait()).await.is_err() {
            warn!("stopped before all plans were executed; they are planned again at the next start");
        }
        watching.cancel();
        core.queues().observing.values().for_each(AbortHandle::abort);
    }
}

/// Where controllers are registered with a [`Shell`].
pub struct Registrar<'a>(&'a mut Registered);

impl crate::reconcile::Register for Registrar<'_> {
    fn add<C: crate::reconcile::Controller>(&mut self) {
        self.0.add::<C>();
    }
}

impl Handle {
    /// Reads the caches; whatever `read` does holds up every watch.
    pub fn read<T>(&self, read: impl FnOnce(&Caches) -> T) -> T {
        read(&self.core.caches())
    }

    /// Takes the news of a repository and wakes the controllers of its `ConfigRepo`.
    pub fn set_source(&self, repo: Key, source: Source) {
        if self.core.caches_mut().set_source(repo.clone(), source) {
            let runners = self.core.registered.runners.iter().enumerate();
            let concerned = runners.filter(|(_, runner)| runner.primary.kind == "ConfigRepo");
            self.core.wake(concerned.map(|(controller, _)| (controller, repo.clone())));
        }
    }

    /// The counters and queue depths, in the OpenMetrics text format.
    ///
    /// # Errors
    /// Never in practice: writing to a string does not fail.
    pub fn metrics(&self) -> Result<String, std::fmt::Error> {
        let names = self.core.registered.runners.iter().map(|runner| runner.name);
        let depths: Vec<_> = names.zip(self.core.queues().loops.iter().map(Loop::len)).collect();
        self.core.metrics.encode(depths.into_iter())
    }

    /// Whether every kind that any controller needs has been read once; one that waits to be elected is ready for that.
    pub fn is_ready(&self) -> bool {
        let queues = self.core.queues();
        !queues.started || self.core.registered.needs.iter().all(|needs| needs.is_subset(&queues.complete))
    }

    /// The hub.
    pub fn hub(&self) -> &Resources {
        &self.core.executor.hub
    }
}

/// Resolves where a kind is served, however long that takes, and watches it.
async fn watch_kind(core: Arc<Core>, site: Site, gvk: Gvk, start: fn(Arc<Core>, Site, Target) -> BoxFuture<'static, ()>) {
    let Some(target) = core.target(site, &gvk).await else { return };
    start(core, site, target).await;
}

impl Core {
    // A poisoned lock means that a task panicked half way through a change; going on could decide on half a cache.
    fn caches(&self) -> RwLockReadGuard<'_, Caches> {
        self.caches.read().expect("no task panics while it holds the caches")
    }

    fn caches_mut(&self) -> RwLockWriteGuard<'_, Caches> {
        self.caches.write().expect("no task panics while it holds the caches")
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().expect("no task panics while it holds the queues")
    }

    fn resources(&self, site: Site) -> Option<&Arc<Resources>> {
        match site {
            Site::Hub => Some(&self.executor.hub),
            Site::Spoke => self.executor.spoke.as_ref(),
        }
    }

    /// The collection to watch for a kind, asking the API server until it serves it.
    async fn target(&self, site: Site, gvk: &Gvk) -> Option<Target> {
        let resources = self.resources(site)?;
        let mut failures = 0;
        let served = loop {
            match resources.served(gvk).await {
                Ok(served) => break served,
                Err(error) => {
                    failures += 1;
                    let failure = execute::failure(&crate::object::ObjectRef { gvk: gvk.clone(), key: Key::default() }, error);
                    warn!(kind = %gvk, why = %failure, "cannot watch yet; nothing that depends on it will be decided until this ends");
                    sleep(Backoff::wait(FailureKind::Unavailable, failures).unsigned_abs()).await;
                }
            }
        };
        let narrowed = if site == Site::Hub { self.scope.narrow(gvk, served.namespaced) } else { Narrowed::default() };
        let path = served.collection(&narrowed.namespace);
        Some(Target { client: resources.client().clone(), gvk: gvk.clone(), path, fields: narrowed.fields, labels: narrowed.labels })
    }

    /// Takes the news of a typed kind.
    pub(super) fn tell<K: Kind>(&self, site: Site, news: News<K>) {
        let kind = (site, TypeId::of::<K>());
        let listed = matches!(news, News::Listed { .. });
        let woken = {
            let mut caches = self.caches_mut();
            let changes: Vec<Change<K>> = match news {
                News::Listed { objects, unreadable, resource_version } => {
                    let changes = caches.replace_shared(site, objects, &resource_version);
                    for (key, why) in unreadable {
                        caches.apply::<K>(site, Delta::Unreadable(key, why));
                    }
                    changes
                }
                News::Changed(delta) => caches.apply(site, delta).into_iter().collect(),
            };
            let woken = changes.iter().flat_map(|change| self.registered.routes.wake(site, change, &caches));
            woken.collect::<BTreeSet<_>>()
        };
        if listed {
            self.queues().complete.insert(kind);
        }
        self.wake(woken);
    }

    /// Ends the turn of a key.
    fn end(&self, controller: usize, key: &Key, failure: Option<FailureKind>, wake_at: Option<Timestamp>) {
        if let Some(queue) = self.queues().loops.get_mut(controller) {
            queue.end(key, failure, wake_at, now());
        }
        self.notify.notify_one();
    }

    /// What a controller decides; `None` where it panics.
    fn decided<T>(&self, runner: &Runner, key: &Key, decide: impl FnOnce() -> T) -> Option<T> {
        let decided = catch_unwind(AssertUnwindSafe(decide)).ok();
        if decided.is_none() {
            error!(controller = runner.name, key = %key, "a decision panicked, which is a bug; the key will be tried again");
            self.metrics.panicked(runner.name);
            if self.caches.is_poisoned() {
                self.broken.cancel();
            }
        }
        decided
    }

    /// Runs a watch, without which nothing may go on.
    async fn guard(self: Arc<Self>, watch: impl Future<Output = ()>) {
        if AssertUnwindSafe(watch).catch_unwind().await.is_err() {
            error!("a watch panicked, which is a bug; stopping, to start anew");
            self.broken.cancel();
        }
    }

    /// Takes the result of an own write of a typed kind.
    pub(super) fn written<K: Kind>(&self, site: Site, object: Object) {
        if let Ok(typed) = object.to_typed::<K>() {
            let meta_free = watch::Watched::trim(typed, &Gvk::of::<K>());
            self.tell(site, News::Changed(Delta::Written(meta_free)));
        }
    }

    /// Takes the news of an observed kind.
    fn tell_observed(&self, gvk: &Gvk, news: News<Object>) {
        let listed = matches!(news, News::Listed { .. });
        let mut woken: BTreeSet<(usize, Key)> = {
            let mut caches = self.caches_mut();
            let changes: Vec<Change<Object>> = match news {
                News::Listed { objects, unreadable: _, resource_version } => caches.replace_observed(gvk, objects, &resource_version),
                News::Changed(delta) => caches.apply_observed(gvk, delta).into_iter().collect(),
            };
            changes.iter().flat_map(|change| self.registered.routes.wake_observed(change, &caches)).collect()
        };
        if listed {
            // Whoever waited for the kind may decide now, whether or not there are objects of it.
            let queues = self.queues();
            woken.extend(queues.asked.iter().filter(|(_, gvks)| gvks.contains(gvk)).map(|(key, _)| key.clone()));
        }
        self.wake(woken);
    }

    fn wake(&self, keys: impl IntoIterator<Item = (usize, Key)>) {
        let at = now().saturating_add(COALESCE).unwrap_or(Timestamp::MAX);
        let mut queues = self.queues();
        for (controller, key) in keys {
            if let Some(queue) = queues.loops.get_mut(controller) {
                queue.wake(key, at);
            }
        }
        drop(queues);
        self.notify.notify_one();
    }

    /// Starts what is due; returns when something will be.
    fn dispatch(self: &Arc<Self>, plans: &TaskTracker) -> Option<Timestamp> {
        let now = now();
        let mut queues = self.queues();
        let Queues { loops, complete, .. } = &mut *queues;
        let mut next: Option<Timestamp> = None;
        for ((controller, queue), needs) in loops.iter_mut().enumerate().zip(&self.registered.needs) {
            if !needs.is_subset(complete) {
                continue;
            }
            let one_by_one = self.registered.runners.get(controller).is_some_and(|runner| runner.one_by_one);
            let at_once = if one_by_one { 1 } else { KEYS_AT_ONCE };
            while queue.running() < at_once
                && let Some(key) = queue.start(now)
            {
                plans.spawn(Arc::clone(self).work(controller, key));
            }
            if queue.running() < at_once {
                next = next.into_iter().chain(queue.next_at()).min();
            }
        }
        next
    }

    /// Plans one key, executes the plan and says what became of it.
    async fn work(self: Arc<Self>, controller: usize, key: Key) {
        let Some(runner) = self.registered.runners.get(controller) else { return };
        let Some(mut plan) = self.decided(runner, &key, || (runner.plan)(&key, &self.caches(), now())) else {
            return self.end(controller, &key, Some(FailureKind::Unavailable), None);
        };
        let notes = std::mem::take(&mut plan.notes);
        self.observe(controller, &key, std::mem::take(&mut plan.observe));
        let wake_at = plan.wake_at;
        if !plan.is_empty() {
            debug!(controller = runner.name, key = %key, steps = plan.steps.len(), "executing");
        }
        self.metrics.planned(runner.name);
        let done = self.executor.run(runner.name, plan, |action, outcome| self.wrote(runner, action, outcome)).await;
        let mut failure = done.failures().map(|(_, failure)| failure.clone()).max_by_key(|failure| failure.kind);
        let status = self.decided(runner, &key, || (runner.conclude)(&key, &self.caches(), &done, now()));
        if status.is_none() {
            return self.end(controller, &key, Some(FailureKind::Unavailable), wake_at);
        }
        if let Some(status) = status.flatten() {
            let action = status.action();
            let outcome = self.executor.act(runner.name, &action).await;
            self.wrote(runner, &action, &outcome);
            failure = failure.into_iter().chain(outcome.err()).max_by_key(|failure| failure.kind);
        }
        failure.iter().for_each(|failure| complain(runner, &key, failure));
        self.end(controller, &key, failure.as_ref().map(|failure| failure.kind), wake_at);
        // Events are for people; the next key does not wait for them.
        if let (None, Some(recorder)) = (failure, self.recorders.get(controller)) {
            record(recorder, notes).await;
        }
    }

    /// Takes the result of an own write into the cache of its kind, so that the next plan sees it.
    fn wrote(&self, runner: &Runner, action: &Action, outcome: &Outcome) {
        self.metrics.wrote(runner.name, action);
        let written = match outcome {
            Ok(written) => written,
            Err(failure) => return self.metrics.failed(runner.name, failure.kind),
        };
        let Some(site) = action.site() else { return };
        let Some(object) = written else { return };
        let gvk = object.gvk();
        let typed = self.registered.kinds.iter().find(|((watched, _), kind)| *watched == site && kind.gvk == gvk);
        if let Some((_, kind)) = typed {
            (kind.write)(self, site, object.clone());
        }
        if site == self.observed_site() && self.queues().observing.contains_key(&gvk) {
            let object = watch::Watched::trim(object.clone(), &gvk);
            self.tell_observed(&gvk, News::Changed(Delta::Written(object)));
        }
    }

    /// The cluster that users' objects are applied to.
    fn observed_site(&self) -> Site {
        if self.executor.spoke.is_some() { Site::Spoke } else { Site::Hub }
    }

    /// Starts the watches a key asks for and ends those that nobody asks for any more.
    fn observe(self: &Arc<Self>, controller: usize, key: &Key, mut gvks: Vec<Gvk>) {
        gvks.sort();
        gvks.dedup();
        let mut queues = self.queues();
        let id = (controller, key.clone());
        if queues.asked.get(&id).map_or(gvks.is_empty(), |before| *before == gvks) {
            return;
        }
        for gvk in &gvks {
            if !queues.observing.contains_key(gvk) {
                let task = tokio::spawn(Arc::clone(self).guard(Arc::clone(self).watch_observed(gvk.clone())));
                queues.observing.insert(gvk.clone(), task.abort_handle());
            }
        }
        if gvks.is_empty() {
            queues.asked.remove(&id)
        } else {
            queues.asked.insert(id, gvks)
        };
        let wanted: BTreeSet<Gvk> = queues.asked.values().flatten().cloned().collect();
        let ended: Vec<Gvk> = queues.observing.keys().filter(|gvk| !wanted.contains(gvk)).cloned().collect();
        let tasks: Vec<_> = ended.iter().filter_map(|gvk| queues.observing.remove(gvk)).collect();
        drop(queues);
        tasks.iter().for_each(AbortHandle::abort);
        ended.iter().for_each(|gvk| self.caches_mut().forget_observed(gvk));
    }

    async fn watch_observed(self: Arc<Self>, gvk: Gvk) {
        let Some(target) = self.target(self.observed_site(), &gvk).await else { return };
        watch::watch::<Object>(target, |news| self.tell_observed(&gvk, news)).await;
    }
}

fn complain(runner: &Runner, key: &Key, failure: &Failure) {
    match failure.kind {
        FailureKind::Conflict => debug!(controller = runner.name, key = %key, why = %failure, "written in between; planning again"),
        FailureKind::Owned | FailureKind::Invalid | FailureKind::Forbidden | FailureKind::NotFound | FailureKind::Unavailable => {
            warn!(controller = runner.name, key = %key, why = %failure, "not all could be written; will be tried again");
        }
    }
}
