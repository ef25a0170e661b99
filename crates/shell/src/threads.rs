//! The threads for decisions and computations.
//!
//! Each controller has its own thread, so that a slow plan only delays its own controller. Computations share as
//! many threads as there are cores.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use tokio::task::AbortHandle;
use tokio::time::sleep;
use tracing::error;

use super::activity::ActivityKind;
use super::attempts::Attempt;
use super::clock::now;
use super::runtime::Runtime;
use reconcile::{Computation, Computed, Decided, Decision};

/// Returns the number of computations that run at the same time.
pub(super) fn cores() -> usize {
    thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// The threads. They end when this is dropped and their current task has ended.
pub(super) struct Threads {
    /// The decision threads by controller.
    deciding: Vec<mpsc::Sender<Decision>>,
    computing: mpsc::Sender<Computation>,
}

impl Threads {
    /// Starts the threads. Call it within an async runtime, which times the computations.
    ///
    /// # Errors
    /// Returns an error if the operating system refuses a thread.
    pub(super) fn start(runtime: &Arc<Runtime>, controllers: &[&'static str]) -> std::io::Result<Self> {
        let mut deciding = Vec::new();
        for name in controllers {
            let (sender, receiver) = mpsc::channel();
            let runtime = Arc::clone(runtime);
            thread::Builder::new().name((*name).into()).spawn(move || {
                for decision in receiver {
                    decide(&runtime, decision);
                }
            })?;
            deciding.push(sender);
        }
        let (computing, receiver) = mpsc::channel();
        let receiver = Arc::new(Mutex::new(receiver));
        for _ in 0..cores() {
            let (runtime, receiver) = (Arc::clone(runtime), Arc::clone(&receiver));
            let tokio = tokio::runtime::Handle::current();
            thread::Builder::new().name("compute".into()).spawn(move || {
                while let Some(computation) = next(&receiver) {
                    let computed = AssertUnwindSafe(|| compute(&tokio, &runtime, computation));
                    if catch_unwind(computed).is_err() {
                        error!(
                            "handling the end of a computation panicked, which is a bug; stopping the process"
                        );
                        runtime.broken.cancel();
                    }
                }
            })?;
        }
        Ok(Self { deciding, computing })
    }

    pub(super) fn decide(&self, decision: Decision) {
        if let Some(thread) = self.deciding.get(decision.controller_id) {
            // A thread ends only after its sender is dropped.
            let _ = thread.send(decision);
        }
    }

    pub(super) fn compute(&self, computation: Computation) {
        // The threads end only after the sender is dropped.
        let _ = self.computing.send(computation);
    }
}

fn next(receiver: &Mutex<mpsc::Receiver<Computation>>) -> Option<Computation> {
    receiver.lock().ok()?.recv().ok()
}

pub(super) fn decide(runtime: &Runtime, decision: Decision) {
    let Decision { controller_id, controller, ref key, reconcile_id, .. } = decision;
    let key = key.as_ref().map(ToString::to_string).unwrap_or_default();
    let _span = super::telemetry::reconcile_span(controller, &key, reconcile_id).entered();
    let started = runtime.metrics.start();
    let decided = catch_unwind(AssertUnwindSafe(|| decision.run())).unwrap_or_else(|_| {
        error!("a decision panicked, which is a bug; the key will be retried");
        Decided::panicked(controller_id)
    });
    runtime.metrics.decided(controller, started);
    runtime.update(|dispatcher, now| dispatcher.decided(decided, now));
}

/// Cancels a computation that exceeds its deadline, measured by a clock that stops while the machine is suspended.
fn watch_deadline(
    tokio: &tokio::runtime::Handle,
    runtime: &Arc<Runtime>,
    &Computation { id, deadline, .. }: &Computation,
) -> AbortHandle {
    let runtime = Arc::clone(runtime);
    let watch = async move {
        sleep(deadline.unsigned_abs()).await;
        runtime.update(|dispatcher, now| dispatcher.overdue(id, now));
    };
    tokio.spawn(watch).abort_handle()
}

fn compute(tokio: &tokio::runtime::Handle, runtime: &Arc<Runtime>, computation: Computation) {
    let Computation { id, name, controller, ref key, .. } = computation;
    let key = key.clone();
    let _span = super::telemetry::reconcile_span(controller, &key.to_string(), None).entered();
    let (began, started) = (now(), runtime.metrics.start());
    let attempt = match &runtime.attempts {
        Some(attempts) => attempts.begin(name, &computation.input).map(Some),
        None => Ok(None),
    };
    let computed = match attempt {
        // The computation was superseded while it waited.
        Ok(attempt) if computation.is_cancelled() => {
            attempt.into_iter().for_each(Attempt::withdraw);
            computation.run()
        }
        Ok(attempt) => {
            let overdue = watch_deadline(tokio, runtime, &computation);
            let computed = catch_unwind(AssertUnwindSafe(|| computation.run())).unwrap_or_else(|_| {
                error!(computation = name, "a computation panicked, which is a bug; it will be retried");
                Computed::failed(id, "its computation panicked, which is a bug")
            });
            overdue.abort();
            if let Some(attempt) = attempt {
                attempt.end();
            }
            computed
        }
        Err(reason) => {
            error!(computation = name, input = computation.input, error = reason, "computation refused");
            Computed::failed(id, &reason)
        }
    };
    runtime.metrics.computed(name, started);
    runtime.observe(began, ActivityKind::Computed { controller, key: &key, name });
    runtime.update(|dispatcher, now| dispatcher.computed(computed, now));
}
