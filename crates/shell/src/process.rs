//! A process that runs controllers against API servers, from their registration to the end of their last
//! reconciliation.

use std::any::Any;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use jiff::SignedDuration;
use kube::Client;
use prometheus_client::registry::Registry;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Instrument as _, error, info, warn};

use super::activity::ObserveFn;
use super::attempts::Attempts;
use super::clock::now;
use super::commands::RunningWatches;
use super::election::Leadership;
use super::events::EventRecorder;
use super::execute::{ActionExecutor, CommitStatusFn, NotifyFn, PushFn};
use super::metrics::{self, ProcessState};
use super::resources::Resources;
use super::runtime::Runtime;
use super::selection::EnabledControllers;
use super::telemetry::reconcile_span;
use super::threads::{self, Threads};
use object::{Key, Kind};
use reconcile::{
    Caches, Controller, ControllerInfo, Dispatcher, DispatcherLimits, Executed, Outcome, Plan, Register,
    Scope, Source,
};

/// The time for which the dispatcher gathers changes of a key before it plans the key.
const COALESCE: SignedDuration = SignedDuration::from_millis(50);
/// The time for which writes in flight may continue after a stop. The end of the leadership ends them too.
const DRAIN: Duration = Duration::from_secs(4);
/// The longest rest of the loop.
const REST: Duration = Duration::from_secs(10);
/// The time after which a round of the loop counts as stuck. Plans and computations have their own threads, so
/// rounds do not wait for them.
const STUCK: Duration = Duration::from_secs(60);

/// The options of a shell.
pub struct ShellOptions {
    pub hub: Client,
    /// The spoke of an agent.
    pub spoke: Option<Client>,
    /// The part of the hub that is watched.
    pub scope: Scope,
    /// An API group whose kinds count as listed and empty while the hub does not serve them. Only for processes
    /// that write nothing.
    pub optional_group: Option<&'static str>,
    /// The registered controllers that run.
    pub controllers: EnabledControllers,
    /// Executes [`Action::Push`](reconcile::Action::Push).
    pub push: Option<PushFn>,
    /// Executes [`Action::SetCommitStatus`](reconcile::Action::SetCommitStatus).
    pub commit_status: Option<CommitStatusFn>,
    /// Executes [`Action::Notify`](reconcile::Action::Notify).
    pub notify: Option<NotifyFn>,
    /// The leadership that allows the process to write; without one, it may always write.
    pub leadership: Option<Leadership>,
    /// The directory that records started computations, so that the shell refuses one that repeatedly kills the
    /// process.
    pub attempts: Option<PathBuf>,
}

impl ShellOptions {
    /// Returns the options of a process that watches a whole hub with all controllers, without an election, a
    /// spoke or git.
    pub fn new(hub: Client) -> Self {
        Self {
            hub,
            spoke: None,
            scope: Scope::Everything,
            optional_group: None,
            controllers: EnabledControllers::default(),
            push: None,
            commit_status: None,
            notify: None,
            leadership: None,
            attempts: None,
        }
    }
}

/// Controllers and their dispatcher, ready to run.
pub struct Shell {
    handle: Handle,
    controllers: Vec<ControllerInfo>,
}

/// Access to a running shell, for its source controller and its servers.
#[derive(Clone)]
pub struct Handle {
    runtime: Arc<Runtime>,
    started: Arc<AtomicBool>,
    /// The start of the current round of the loop; `None` while the loop does not run.
    round: Arc<Mutex<Option<Instant>>>,
}

impl Shell {
    /// Registers controllers without starting them.
    pub fn new(options: ShellOptions, register: impl FnOnce(&mut Registrar)) -> Self {
        let ShellOptions {
            hub,
            spoke,
            scope,
            optional_group,
            controllers: selection,
            push,
            commit_status,
            notify,
            leadership,
            attempts,
        } = options;
        let limits = DispatcherLimits { coalesce: COALESCE, computations: threads::cores() };
        let mut registrar = Registrar { selection, dispatcher: Dispatcher::new(limits, spoke.is_some()) };
        register(&mut registrar);
        let dispatcher = registrar.dispatcher;
        let controllers: Vec<_> = dispatcher.controllers().collect();
        let recorders =
            controllers.iter().map(|info| EventRecorder::new(hub.clone(), info.reporter)).collect();
        let spoke = spoke.map(|client| Arc::new(Resources::new(client)));
        let mut executor = ActionExecutor::new(Arc::new(Resources::new(hub)), spoke, controllers.len());
        (executor.push, executor.commit_status, executor.notify) = (push, commit_status, notify);
        executor.leadership = leadership;
        let mut runtime = Runtime::new(dispatcher, executor, scope, recorders);
        runtime.optional_group = optional_group;
        runtime.attempts = attempts.as_deref().map(Attempts::new);
        let runtime = Arc::new(runtime);
        Self { handle: Handle { runtime, started: Arc::default(), round: Arc::default() }, controllers }
    }

    /// Returns a handle for servers and the source controller.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Runs until `stop` is canceled, then waits for the writes in flight.
    ///
    /// A panic is a bug. In a decision, it fails the reconciliation of a key. In a watch or the dispatcher, it
    /// cancels `stop`, so that the process ends and is restarted.
    pub async fn run(self, stop: CancellationToken) {
        let Self { handle: Handle { runtime, started, round }, controllers } = self;
        let names: Vec<_> = controllers.iter().map(|info| info.name).collect();
        let threads = match Threads::start(&runtime, &names) {
            Ok(threads) => threads,
            Err(error) => {
                error!(%error, "cannot start a thread for each controller");
                stop.cancel();
                return;
            }
        };
        info!(controllers = names.join(","), "started");
        started.store(true, Ordering::Relaxed);
        let (tasks, mut watches) = (TaskTracker::new(), RunningWatches::new());
        let begin = |at| *round.lock().unwrap_or_else(PoisonError::into_inner) = at;
        while !stop.is_cancelled() {
            begin(Some(Instant::now()));
            let next = runtime.dispatch(&threads, &tasks, &mut watches);
            let due = async {
                match next {
                    Some(at) => {
                        sleep(now().duration_until(at).max(SignedDuration::ZERO).unsigned_abs()).await
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = runtime.notify.notified() => {}
                () = due => {}
                () = sleep(REST) => {}
                () = runtime.broken.cancelled() => stop.cancel(),
                () = stop.cancelled() => {}
            }
        }
        begin(None);
        if let Some(attempts) = &runtime.attempts {
            attempts.close();
        }
        tasks.close();
        let may_write = async {
            match &runtime.executor.leadership {
                Some(leadership) => leadership.clone().ended().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = tasks.wait() => {}
            () = may_write => {}
            () = sleep(DRAIN) => {}
        }
        if !tasks.is_empty() {
            info!("stopped before all plans were executed; they will be planned again after the restart");
        }
        // Ends the requests in flight before the lease is released.
        runtime.cut.cancel();
        tasks.wait().await;
        for watch in watches.values() {
            watch.abort();
        }
    }
}

/// The registry of the controllers of a [`Shell`].
pub struct Registrar {
    selection: EnabledControllers,
    dispatcher: Dispatcher,
}

impl Registrar {
    /// Sets the value that [`View::settings`](reconcile::View::settings) returns.
    pub fn set_settings<T: Any + Send + Sync>(&mut self, settings: T) {
        self.dispatcher.set_settings(settings);
    }
}

impl Register for Registrar {
    fn add<C: Controller>(&mut self) {
        if self.selection.includes(C::NAME) {
            self.dispatcher.add::<C>();
        }
    }
}

impl Handle {
    /// Returns a copy of the current caches.
    pub fn caches(&self) -> Caches {
        self.runtime.read(|dispatcher| dispatcher.caches()).unwrap_or_default()
    }

    /// Executes a plan that a controller made after the loop has ended, and writes the resulting status. No other
    /// plan of the controller may be running.
    pub async fn execute<C: Controller>(&self, key: &Key, plan: Plan) {
        let place =
            |dispatcher: &mut Dispatcher| dispatcher.controllers().position(|info| info.name == C::NAME);
        let Some(id) = self.runtime.read(place).flatten() else { return };
        let executor = &self.runtime.executor;
        let execute = async {
            let mut outcomes: Vec<Vec<Outcome>> = Vec::new();
            for step in &plan.steps {
                if outcomes.iter().flatten().any(Result::is_err) {
                    break;
                }
                let actions = step.iter().map(|action| executor.execute(id, C::NAME, action));
                outcomes.push(join_all(actions).await);
            }
            let done = Executed { plan, outcomes };
            let status = C::conclude(key, &self.caches(), &done, now()).unwrap_or_else(|error| {
                warn!(%error, "cannot write the status after the last writes");
                None
            });
            let written = match &status {
                Some(status) => executor.execute(id, C::NAME, &status.action()).await.err(),
                None => None,
            };
            for failure in done.failures().map(|(_, failure)| failure).chain(&written) {
                warn!(error = failure.message, "a write at shutdown failed");
            }
        };
        execute.instrument(reconcile_span(C::NAME, &key.to_string(), None)).await;
    }

    /// Sets the observer of future activities. Only the first call has an effect.
    pub fn observe(&self, observer: ObserveFn) {
        self.runtime.observer.get_or_init(|| observer);
    }

    /// Stores objects of the hub that an earlier process stored, unless the hub has listed their kind.
    pub fn load_persisted<K: Kind>(&self, objects: Vec<K>) {
        self.runtime.update(|dispatcher, now| dispatcher.load_persisted(objects, now));
    }

    /// Stores the state of a repository under the name of its `ConfigRepo`.
    pub fn source_changed(&self, repo: &Key, source: Source) {
        self.runtime.update(|dispatcher, now| dispatcher.source_changed(repo, source, now));
    }

    /// Counts a fetch: its duration, the bytes received from git servers since the last one, and the reason for
    /// its failure.
    pub fn fetched(&self, took: SignedDuration, bytes: u64, failure: Option<&'static str>) {
        self.runtime.metrics.fetched(took, bytes, failure);
    }

    /// Counts the bytes sent to git servers since the last call.
    pub fn sent_to_git(&self, bytes: u64) {
        self.runtime.metrics.sent_to_git(bytes);
    }

    /// Registers a gauge that shows whether the process may write. Skip it for a process without an election.
    pub fn register_leader(&self, registry: &mut Registry) {
        let leads = self.runtime.executor.leadership.as_ref().is_none_or(Leadership::holds);
        metrics::register_leader(registry, leads);
    }

    /// Registers the counters and the current state of the process.
    pub fn register_metrics(&self, registry: &mut Registry) {
        let scraped = self.runtime.read(|dispatcher| {
            let controllers: Vec<_> = dispatcher.controllers().collect();
            (controllers, dispatcher.cached())
        });
        let (controllers, cached) = scraped.unwrap_or_default();
        self.runtime.metrics.register(registry, &ProcessState { controllers, cached });
    }

    /// Returns true if every kind that the controllers need has been read. A candidate that waits for its election
    /// is always ready.
    pub fn is_ready(&self) -> bool {
        let is_read = |dispatcher: &mut Dispatcher| dispatcher.controllers().all(|info| info.is_ready);
        !self.started.load(Ordering::Relaxed) || self.runtime.read(is_read).unwrap_or_default()
    }

    /// Returns true if the loop makes progress or is not running, because the process waits for its election or
    /// the shell has ended. A stuck loop, for example in a deadlock, only recovers by a restart of the process.
    pub fn is_live(&self) -> bool {
        let round = *self.round.lock().unwrap_or_else(PoisonError::into_inner);
        round.is_none_or(|at| at.elapsed() < STUCK)
    }

    /// Returns the hub.
    pub fn hub(&self) -> &Resources {
        &self.runtime.executor.hub
    }
}

#[cfg(test)]
#[path = "tests/process.rs"]
mod tests;
