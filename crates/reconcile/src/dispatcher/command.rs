//! The commands that a dispatcher returns to its process.

use std::sync::Arc;

use jiff::Timestamp;

use super::decision::Decision;
use crate::memo::Computation;
use crate::{Action, Answer, Decoded, Event, Failure, Lookup, Outcome, Plan, ReadError, Site, WatchedKind};
use object::{Gvk, Key};

/// A command of a dispatcher to its process.
pub enum Command {
    /// Make a decision on a thread that blocks only its own controller; the result goes to [`decided`].
    ///
    /// [`decided`]: super::Dispatcher::decided
    Decide(Decision),
    /// Execute an action; its outcome goes to [`acted`]. Actions returned together are independent.
    ///
    /// [`acted`]: super::Dispatcher::acted
    Act(Act),
    /// Compute a result on any thread; the result goes to [`computed`].
    ///
    /// [`computed`]: super::Dispatcher::computed
    Compute(Computation),
    /// Send a lookup to an API server; the answer goes to [`looked_up`].
    ///
    /// [`looked_up`]: super::Dispatcher::looked_up
    LookUp(Site, Lookup),
    /// List and watch a kind until [`Unwatch`](Self::Unwatch); the events go to [`watched`].
    ///
    /// Start and stop watches in the order of the commands: a plan may request a kind again after its watch was
    /// dropped.
    ///
    /// [`watched`]: super::Dispatcher::watched
    Watch(Arc<WatchedKind>),
    /// Stop watching a kind.
    Unwatch(Arc<WatchedKind>),
    /// Log and count the end of a reconciliation, and record its events.
    Reconciled(ReconcileResult),
    /// Log that an object does not fit its type, and record the event.
    Refused(Event),
}

/// One action of a reconciliation.
pub struct Act {
    /// The reconciliation it belongs to.
    pub reconcile_id: u64,
    /// The index of the controller.
    pub controller_id: usize,
    /// The name of the controller, which is the field manager of its writes.
    pub controller: &'static str,
    /// The key that was planned.
    pub key: Key,
    pub(super) plan: Arc<Plan>,
    /// The index of the step, and the index within the step.
    pub(super) position: (usize, usize),
    /// The watched kinds that the written object belongs to.
    pub(super) kinds: Vec<Arc<WatchedKind>>,
    /// The number of restores of the API server before this action.
    pub(super) restores: u64,
}

/// An attempted action.
pub struct Acted {
    pub(super) reconcile_id: u64,
    pub(super) position: (usize, usize),
    /// The API server that received the action; `None` for a push.
    pub(super) site: Option<Site>,
    /// The kind of the object; `None` for a push.
    pub(super) gvk: Option<Gvk>,
    pub(super) outcome: Outcome,
    pub(super) written: Vec<(Arc<WatchedKind>, Decoded)>,
    pub(super) restores: u64,
}

impl Act {
    /// Returns the action.
    ///
    /// # Panics
    /// Never in practice: the dispatcher only returns positions of the plan.
    pub fn action(&self) -> &Action {
        let (step, index) = self.position;
        let action = self.plan.steps.get(step).and_then(|step| step.get(index));
        action.expect("a dispatcher hands out positions of the plan")
    }

    /// Reports the outcome of the action. This parses the written object into its type, so do not call it under a
    /// lock.
    pub fn done(self, mut outcome: Outcome) -> Acted {
        let written = match &mut outcome {
            Ok(Answer::Object(object)) => {
                let object = Arc::make_mut(object);
                self.kinds.iter().map(|kind| (Arc::clone(kind), kind.convert_written(object))).collect()
            }
            Ok(Answer::Commit(_) | Answer::Nothing) | Err(_) => Vec::new(),
        };
        let (site, gvk) = (self.action().site(), self.action().gvk());
        let Self { reconcile_id, position, restores, .. } = self;
        Acted { reconcile_id, position, site, gvk, outcome, written, restores }
    }
}

/// The end of a reconciliation: its key was planned, and the plan was executed as far as possible.
#[derive(Clone, Debug)]
pub struct ReconcileResult {
    /// The ID of the reconciliation.
    pub reconcile_id: u64,
    /// The index of the controller.
    pub controller_id: usize,
    /// The name of the controller.
    pub controller: &'static str,
    /// The key that was reconciled.
    pub key: Key,
    /// The start of the reconciliation.
    pub began: Timestamp,
    /// The number of steps in the plan.
    pub steps: usize,
    /// The events to record; none if the reconciliation failed.
    pub events: Vec<Event>,
    /// The worst failure of its writes.
    pub failure: Option<Failure>,
    /// The number of consecutive failures of the key.
    pub failures: u32,
    /// The failed read that prevented the plan or the conclusion.
    pub read_error: Option<ReadError>,
    /// True if the plan or the conclusion panicked, which is a bug.
    pub panicked: bool,
}
