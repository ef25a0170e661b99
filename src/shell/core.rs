//! Plans what is due and executes it.

use std::any::TypeId;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use kube::runtime::events::Recorder;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, error, warn};

use super::events::record;
use super::execute::Executor;
use super::metrics::Metrics;
use super::register::Registered;
use super::resources::Resources;
use super::watch::{self, News, Target};
use super::{clock::now, execute};
use object::{Gvk, Key, Kind, Object};
use reconcile::{
    Action, Backoff, Caches, Change, Delta, Failure, FailureKind, Loop, Narrowed, Outcome, Runner, Scope,
    Site,
};

/// Keys of one controller that are planned or executed at one time.
const KEYS_AT_ONCE: usize = 16;
/// How long changes are gathered before their keys are planned.
pub(super) const COALESCE: SignedDuration = SignedDuration::from_millis(50);

/// What all tasks of a shell share.
pub(super) struct Core {
    pub(super) caches: RwLock<Caches>,
    pub(super) queues: Mutex<Queues>,
    pub(super) notify: Notify,
    pub(super) registered: Registered,
    pub(super) executor: Executor,
    pub(super) scope: Scope,
    /// By controller; each gathers repeated events into series.
    pub(super) recorders: Vec<Recorder>,
    pub(super) metrics: Metrics,
    /// Cancelled when a task panicked in the middle of a change: what is known may be half of what is there.
    pub(super) broken: CancellationToken,
}

#[derive(Default)]
pub(super) struct Queues {
    pub(super) started: bool,
    pub(super) loops: Vec<Loop>,
    /// Kinds whose first list has been read.
    pub(super) complete: BTreeSet<(Site, TypeId)>,
    /// What each key asked to have observed, and the watches that came of it.
    pub(super) asked: BTreeMap<(usize, Key), Vec<Gvk>>,
    pub(super) observing: BTreeMap<Gvk, AbortHandle>,
}

/// Resolves where a kind is served, however long that takes, and watches it.
pub(super) async fn watch_kind(
    core: Arc<Core>,
    site: Site,
    gvk: Gvk,
    start: fn(Arc<Core>, Site, Target) -> BoxFuture<'static, ()>,
) {
    let Some(target) = core.target(site, &gvk).await else { return };
    start(core, site, target).await;
}

impl Core {
    // A poisoned lock means that a task panicked half way through a change; going on could decide on half a cache.
    pub(super) fn caches(&self) -> RwLockReadGuard<'_, Caches> {
        self.caches.read().expect("no task panics while it holds the caches")
    }

    pub(super) fn caches_mut(&self) -> RwLockWriteGuard<'_, Caches> {
        self.caches.write().expect("no task panics while it holds the caches")
    }

    pub(super) fn queues(&self) -> MutexGuard<'_, Queues> {
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
                    let why = match &error {
                        // The server answers so for a group version of which it serves no kind.
                        kube::Error::Api(status) if status.is_not_found() => execute::NOT_SERVED.into(),
                        error => execute::said(error),
                    };
                    warn!(kind = %gvk, why, "cannot watch yet; nothing that depends on it will be decided until this ends");
                    sleep(Backoff::wait(FailureKind::Unavailable, failures).unsigned_abs()).await;
                }
            }
        };
        let narrowed =
            if site == Site::Hub { self.scope.narrow(gvk, served.namespaced) } else { Narrowed::default() };
        let path = served.collection(&narrowed.namespace);
        Some(Target {
            client: resources.client().clone(),
            gvk: gvk.clone(),
            path,
            fields: narrowed.fields,
            labels: narrowed.labels,
        })
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
    pub(super) async fn guard(self: Arc<Self>, watch: impl Future<Output = ()>) {
        if AssertUnwindSafe(watch).catch_unwind().await.is_err() {
            error!("a watch panicked, which is a bug; stopping, to start anew");
            self.broken.cancel();
        }
    }

    /// Takes the result of an own write of a typed kind.
    pub(super) fn written<K: Kind>(&self, site: Site, object: Object) {
        if let Ok(typed) = object.to_typed::<K>() {
            let meta_free = object::Stored::trim(typed, &Gvk::of::<K>());
            self.tell(site, News::Changed(Delta::Written(meta_free)));
        }
    }

    /// Takes the news of an observed kind.
    fn tell_observed(&self, gvk: &Gvk, news: News<Object>) {
        let listed = matches!(news, News::Listed { .. });
        let mut woken: BTreeSet<(usize, Key)> = {
            let mut caches = self.caches_mut();
            let changes: Vec<Change<Object>> = match news {
                News::Listed { objects, unreadable: _, resource_version } => {
                    caches.replace_observed(gvk, objects, &resource_version)
                }
                News::Changed(delta) => caches.apply_observed(gvk, delta).into_iter().collect(),
            };
            changes.iter().flat_map(|change| self.registered.routes.wake_observed(change, &caches)).collect()
        };
        if listed {
            // Whoever waited for the kind may decide now, whether or not there are objects of it.
            let queues = self.queues();
            woken.extend(
                queues.asked.iter().filter(|(_, gvks)| gvks.contains(gvk)).map(|(key, _)| key.clone()),
            );
        }
        self.wake(woken);
    }

    pub(super) fn wake(&self, keys: impl IntoIterator<Item = (usize, Key)>) {
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
    pub(super) fn dispatch(self: &Arc<Self>, plans: &TaskTracker) -> Option<Timestamp> {
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
        let planned = self.decided(runner, &key, || (runner.plan)(&key, &self.caches(), now()));
        let Some(Ok(mut plan)) = planned else {
            if let Some(Err(unread)) = planned {
                warn!(controller = runner.name, key = %key, why = %unread, "cannot decide yet; will be tried again");
                self.metrics.unread(runner.name);
            }
            return self.end(controller, &key, Some(FailureKind::Unavailable), None);
        };
        let notes = std::mem::take(&mut plan.notes);
        self.observe(controller, &key, std::mem::take(&mut plan.observe));
        let wake_at = plan.wake_at;
        if !plan.is_empty() {
            debug!(controller = runner.name, key = %key, steps = plan.steps.len(), "executing");
        }
        self.metrics.planned(runner.name);
        let done =
            self.executor.run(runner.name, plan, |action, outcome| self.wrote(runner, action, outcome)).await;
        let mut failure =
            done.failures().map(|(_, failure)| failure.clone()).max_by_key(|failure| failure.kind);
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
        let typed =
            self.registered.kinds.iter().find(|((watched, _), kind)| *watched == site && kind.gvk == gvk);
        if let Some((_, kind)) = typed {
            (kind.write)(self, site, object.clone());
        }
        if site == self.observed_site() && self.queues().observing.contains_key(&gvk) {
            let object = object::Stored::trim(object.clone(), &gvk);
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
        FailureKind::Conflict => {
            debug!(controller = runner.name, key = %key, why = %failure, "written in between; planning again")
        }
        FailureKind::Owned
        | FailureKind::Invalid
        | FailureKind::Forbidden
        | FailureKind::NotFound
        | FailureKind::Unavailable => {
            warn!(controller = runner.name, key = %key, why = %failure, "not all could be written; will be tried again");
        }
    }
}
