//! Controllers around one core, from their registration to the end of their last plan.

use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use futures::future::BoxFuture;
use kube::Client;
use kube::runtime::events::{Recorder, Reporter};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use super::clock::now;
use super::core::{COALESCE, Core, Queues, watch_kind};
use super::execute::Executor;
use super::metrics::Metrics;
use super::register::{Registered, Selection};
use super::resources::Resources;
use object::Key;
use reconcile::{Caches, Failure, Loop, Push, Runner, Scope, Source};

/// How long running plans may take to end after a stop was asked for: less than a lease is respected after its holder gave up
/// renewing it, 15 s - 10 s.
const DRAIN: Duration = Duration::from_secs(4);

/// Commits and pushes files; supplied by the source controller.
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

impl Shell {
    /// Registers controllers; nothing runs yet.
    pub fn new(options: ShellOptions, register: impl FnOnce(&mut Registrar<'_>)) -> Self {
        let ShellOptions { hub, spoke, scope, controllers, push } = options;
        let mut registered = Registered::new(controllers);
        register(&mut Registrar(&mut registered));
        let loops = registered.runners.iter().map(|_| Loop::with_spacing(COALESCE)).collect();
        let reporter = |runner: &Runner| Reporter { controller: runner.reporter.into(), instance: None };
        let recorders =
            registered.runners.iter().map(|runner| Recorder::new(hub.clone(), reporter(runner))).collect();
        let executor = Executor::new(
            Arc::new(Resources::new(hub)),
            spoke.map(|client| Arc::new(Resources::new(client))),
            push,
        );
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
        core.wake(expected.flat_map(|(controller, runner)| {
            runner.expected.iter().map(move |name| (controller, Key::cluster(*name)))
        }));
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

impl reconcile::Register for Registrar<'_> {
    fn add<C: reconcile::Controller>(&mut self) {
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
