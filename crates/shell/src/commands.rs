//! Executes the commands of the dispatcher: tasks send requests to API servers and pass the answers to the
//! dispatcher; threads decide and compute.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use jiff::Timestamp;
use tokio::task::AbortHandle;
use tokio::time::sleep;
use tokio_util::task::TaskTracker;
use tracing::{Instrument as _, debug, error, info, warn};

use super::activity::ActivityKind;
use super::api_server::{NOT_SERVED, message};
use super::budget::MEMORY;
use super::client::retry_after;
use super::clock::now;
use super::freshness::Freshness;
use super::lookup;
use super::reads::{CollectionId, LookedUp};
use super::restarts::Restarts;
use super::runtime::Runtime;
use super::telemetry::reconcile_span;
use super::threads::Threads;
use super::watch::{self, WatchTarget};
use object::{Gvk, Key};
use reconcile::{
    Act, Answer, Backoff, Command, Event, FailureKind, Lookup, Narrowed, ReconcileResult, Representation,
    Site, WatchedKind, WatcherEvent,
};

/// The number of consecutive failures of a key that cause no warning if the write's target does not exist, because
/// the namespace of a cluster only appears when the hub accepts the cluster. They take 7.5 s.
const NOT_THERE_YET: u32 = 4;

/// The running watches.
pub(super) type RunningWatches = BTreeMap<(Site, Gvk, Representation), AbortHandle>;

impl Runtime {
    /// Executes the commands that are due; returns when the next one is due.
    pub(super) fn dispatch(
        self: &Arc<Self>,
        threads: &Threads,
        tasks: &TaskTracker,
        watches: &mut RunningWatches,
    ) -> Option<Timestamp> {
        let (commands, next) = self.read(|dispatcher| (dispatcher.due(now()), dispatcher.next_at()))?;
        let mut refused = Vec::new();
        for command in commands {
            match command {
                Command::Decide(decision) => threads.decide(decision),
                Command::Compute(computation) => threads.compute(computation),
                Command::Act(act) => {
                    let span = reconcile_span(act.controller, &act.key.to_string(), Some(act.reconcile_id));
                    let act = Arc::clone(self).act_or_stop(act).instrument(span);
                    tasks.spawn(self.cut.clone().run_until_cancelled_owned(act));
                }
                Command::LookUp(site, Lookup::Object(object)) => {
                    if let Some(collection) = self.reads.add(object) {
                        let read = Arc::clone(self).read_objects(site, collection);
                        tasks.spawn(self.cut.clone().run_until_cancelled_owned(read));
                    }
                }
                Command::LookUp(site, lookup) => {
                    let look_up = Arc::clone(self).look_up(site, lookup);
                    tasks.spawn(self.cut.clone().run_until_cancelled_owned(look_up));
                }
                Command::Watch(kind) => {
                    let id = kind.id();
                    let task = tokio::spawn(Arc::clone(self).watch(kind));
                    watches.insert(id, task.abort_handle());
                }
                Command::Unwatch(kind) => {
                    if let Some(watch) = watches.remove(&kind.id()) {
                        watch.abort();
                    }
                }
                Command::Reconciled(result) => {
                    self.report(&result);
                    if !result.events.is_empty() {
                        let record = Arc::clone(self).record(result.controller_id, result.events);
                        tasks.spawn(self.cut.clone().run_until_cancelled_owned(record));
                    }
                }
                Command::Refused(event) => {
                    warn!(object = %event.regarding, error = event.message, "the object does not fit its type");
                    refused.push(event);
                }
            }
        }
        if !refused.is_empty() {
            let record = Arc::clone(self).record(0, refused);
            tasks.spawn(self.cut.clone().run_until_cancelled_owned(record));
        }
        next
    }

    async fn act_or_stop(self: Arc<Self>, act: Act) {
        self.or_stop("an action", Arc::clone(&self).act(act)).await;
    }

    async fn act(self: Arc<Self>, act: Act) {
        let (began, started) = (now(), self.metrics.start());
        let outcome = self.executor.act(&act).await;
        self.metrics.wrote(&act, &outcome, started);
        self.observe(began, ActivityKind::Acted { act: &act, outcome: &outcome });
        if let (Some(site), Ok(Answer::Object(object))) = (act.action().site(), &outcome)
            && let Some(resources) = self.resources(site)
        {
            resources.contact.wrote(object);
        }
        let acted = act.done(outcome);
        self.update(|dispatcher, now| dispatcher.acted(acted, now));
    }

    async fn look_up(self: Arc<Self>, site: Site, lookup: Lookup) {
        let Some(resources) = self.resources(site) else { return };
        let look_up = lookup::look_up(resources, &lookup);
        if let Some(answer) = self.or_stop("a lookup", look_up).await {
            self.answer(site, vec![(lookup, answer)]);
        }
    }

    async fn read_objects(self: Arc<Self>, site: Site, collection: CollectionId) {
        let Some(resources) = self.resources(site) else { return };
        let read = self.reads.read(resources, &collection, |answers| self.answer(site, answers));
        self.or_stop("a read of objects", read).await;
    }

    /// Runs a task that others wait for. If it panics, the process ends, because the result would never arrive.
    async fn or_stop<T>(&self, what: &str, task: impl Future<Output = T>) -> Option<T> {
        let ended = AssertUnwindSafe(task).catch_unwind().await;
        if ended.is_err() {
            error!("{what} panicked, which is a bug; stopping, so that the process is restarted");
            self.broken.cancel();
        }
        ended.ok()
    }

    fn answer(&self, site: Site, answers: LookedUp) {
        for failure in answers.iter().filter_map(|(_, answer)| answer.as_ref().err()) {
            warn!(error = failure.message, "lookup failed; it will be retried");
        }
        self.update(|dispatcher, now| {
            for (lookup, answer) in answers {
                dispatcher.looked_up(site, &lookup, answer, now);
            }
        });
    }

    /// Records events. No write waits for them.
    async fn record(self: Arc<Self>, controller_id: usize, events: Vec<Event>) {
        if let Some(recorder) = self.recorders.get(controller_id) {
            recorder.record(events).await;
        }
    }

    /// Logs and counts the end of a reconciliation.
    fn report(&self, result: &ReconcileResult) {
        self.metrics.ended(result, now());
        self.observe(result.began, ActivityKind::Reconciled(result));
        let ReconcileResult {
            controller,
            key,
            reconcile_id,
            steps,
            failure,
            failures,
            read_error,
            panicked: _,
            ..
        } = result;
        let _span = reconcile_span(controller, &key.to_string(), Some(*reconcile_id)).entered();
        if let Some(error) = read_error {
            if error.is_coming() {
                debug!(%error, "waiting");
            } else {
                warn!(%error, "read failed; the key will be retried");
            }
        }
        match failure {
            None if *steps > 0 => debug!(steps, "executed"),
            None => {}
            Some(error) if error.kind == FailureKind::Conflict => {
                debug!(%error, "an object changed before it was written; the key will be planned again");
            }
            Some(error) if error.kind == FailureKind::NotFound && *failures <= NOT_THERE_YET => {
                info!(%error, "the target of a write does not exist yet; the key will be retried");
            }
            Some(error) => warn!(%error, "write failed; the key will be retried"),
        }
    }

    /// Watches a kind.
    async fn watch(self: Arc<Self>, kind: Arc<WatchedKind>) {
        let tell = |event| self.update(|dispatcher, now| dispatcher.watched(&kind, event, now));
        let watch = async {
            let Some(resources) = self.resources(kind.site) else { return };
            let mut freshness = Freshness::new(&resources.contact);
            while let Some(target) = self.target(&kind, &mut freshness).await {
                watch::watch(target, &self.metrics, &mut freshness, tell).await;
                // The definition of the kind was deleted, or its scope changed.
                resources.forget(&kind.gvk);
                self.update(|dispatcher, now| dispatcher.not_served(&kind.gvk, now));
                sleep(Backoff::FIRST.unsigned_abs()).await;
            }
        };
        self.or_stop(&format!("the watch of {}", kind.gvk), watch).await;
    }

    /// Returns true if a watch event changes nothing; see [`reconcile::Dispatcher::is_known`].
    fn is_known(&self, kind: &WatchedKind, key: &Key, version: u64) -> bool {
        let is_known = self.read(|dispatcher| dispatcher.is_known(kind, key, version, now()));
        if is_known == Some(true) {
            // The answer may end an outage.
            self.notify.notify_one();
        }
        is_known.unwrap_or_default()
    }

    /// Returns the collection to watch for a kind, waiting until the API server serves the kind.
    async fn target(
        self: &Arc<Self>,
        kind: &Arc<WatchedKind>,
        freshness: &mut Freshness<'_>,
    ) -> Option<WatchTarget> {
        let resources = self.resources(kind.site)?;
        let mut restarts = Restarts::default();
        let served = loop {
            match resources.served(&kind.gvk).await {
                Ok(served) => break served,
                Err(kube::Error::Api(status))
                    if status.is_not_found() && self.optional_group == Some(kind.gvk.group.as_str()) =>
                {
                    let empty = WatcherEvent::Listed { objects: Vec::new(), resource_version: "0".into() };
                    self.update(|dispatcher, now| dispatcher.watched(kind, empty, now));
                    sleep(restarts.after(Duration::ZERO, Duration::ZERO)).await;
                }
                Err(error) => {
                    if freshness.failed(&error) {
                        self.update(|dispatcher, now| dispatcher.watched(kind, WatcherEvent::Stale, now));
                    }
                    let wait = restarts.after(Duration::ZERO, retry_after(&error));
                    let error = match &error {
                        // The server serves the group version, but not this kind.
                        kube::Error::Api(status) if status.is_not_found() => NOT_SERVED.into(),
                        error => message(error),
                    };
                    warn!(kind = %kind.gvk, error, "cannot watch yet; decisions that depend on this kind wait");
                    sleep(wait).await;
                }
            }
        };
        let narrowed = match kind.site {
            Site::Hub => self.scope.narrow(&kind.gvk, kind.representation, served.namespaced),
            Site::Spoke => Narrowed::default(),
        };
        let (runtime, watched) = (Arc::clone(self), Arc::clone(kind));
        let is_known = move |key: &Key, version| runtime.is_known(&watched, key, version);
        Some(WatchTarget {
            client: resources.client().clone(),
            kind: Arc::clone(kind),
            path: served.collection(&narrowed.namespace),
            fields: narrowed.fields,
            labels: narrowed.labels,
            is_known: Box::new(is_known),
            memory: &MEMORY,
        })
    }
}

#[cfg(test)]
#[path = "tests/commands.rs"]
mod tests;
