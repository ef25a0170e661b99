use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock};

use jiff::Timestamp;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::error;

use super::activity::{Activity, ActivityKind, ObserveFn};
use super::attempts::Attempts;
use super::clock::now;
use super::events::EventRecorder;
use super::execute::ActionExecutor;
use super::metrics::Metrics;
use super::reads::Reads;
use super::resources::Resources;
use reconcile::{Dispatcher, Scope, Site};

/// The state that the tasks and threads of a shell share.
pub(super) struct Runtime {
    dispatcher: Mutex<Dispatcher>,
    /// Wakes the loop when a command may be due.
    pub(super) notify: Notify,
    pub(super) executor: ActionExecutor,
    pub(super) scope: Scope,
    /// A group whose kinds count as empty while they are not served.
    pub(super) optional_group: Option<&'static str>,
    /// The event recorder of each controller.
    pub(super) recorders: Vec<EventRecorder>,
    pub(super) metrics: Metrics,
    pub(super) reads: Reads,
    /// The record of started computations; `None` if no computation reads untrusted input.
    pub(super) attempts: Option<Attempts>,
    /// The observer of activities, if any.
    pub(super) observer: OnceLock<ObserveFn>,
    /// Canceled if the dispatcher panicked during a change, which may have left its state half changed.
    pub(super) broken: CancellationToken,
    /// Canceled when the writes in flight must end.
    pub(super) cut: CancellationToken,
}

impl Runtime {
    pub(super) fn new(
        dispatcher: Dispatcher,
        executor: ActionExecutor,
        scope: Scope,
        recorders: Vec<EventRecorder>,
    ) -> Self {
        Self {
            dispatcher: Mutex::new(dispatcher),
            notify: Notify::new(),
            executor,
            scope,
            optional_group: None,
            recorders,
            metrics: Metrics::default(),
            reads: Reads::default(),
            attempts: None,
            observer: OnceLock::new(),
            broken: CancellationToken::new(),
            cut: CancellationToken::new(),
        }
    }

    /// Reads the dispatcher; returns `None` if it has panicked, because its state cannot be trusted.
    pub(super) fn read<T>(&self, ask: impl FnOnce(&mut Dispatcher) -> T) -> Option<T> {
        let asked =
            catch_unwind(AssertUnwindSafe(|| self.dispatcher.lock().ok().map(|mut locked| ask(&mut locked))));
        if asked.is_err() {
            error!("the dispatcher panicked, which is a bug; stopping, so that the process is restarted");
        }
        let answer = asked.ok().flatten();
        if answer.is_none() {
            self.broken.cancel();
        }
        answer
    }

    /// Changes the dispatcher, and wakes the loop.
    pub(super) fn update(&self, tell: impl FnOnce(&mut Dispatcher, Timestamp)) {
        self.read(|dispatcher| tell(dispatcher, now()));
        self.notify.notify_one();
    }

    /// Reports to the observer, if there is one, what was done since `began`.
    pub(super) fn observe(&self, began: Timestamp, kind: ActivityKind<'_>) {
        let Some(observer) = self.observer.get() else { return };
        if let Some(caches) = self.read(|dispatcher| dispatcher.caches()) {
            observer(Activity { caches: &caches, began, ended: now(), kind });
        }
    }

    /// Returns the API server of a site; only an agent has a spoke.
    pub(super) fn resources(&self, site: Site) -> Option<&Arc<Resources>> {
        match site {
            Site::Hub => Some(&self.executor.hub),
            Site::Spoke => self.executor.spoke.as_ref(),
        }
    }
}
