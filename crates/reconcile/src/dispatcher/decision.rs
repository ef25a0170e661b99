//! Decisions, which run on threads: plans, conclusions and index updates.

use jiff::Timestamp;

use super::undone::{Written, WrittenContent};
use crate::controller::ErasedController;
use crate::index::BuiltIndexes;
use crate::snapshot::{Requests, Snapshot};
use crate::{Caches, Executed, Plan, Read, StatusWrite};
use object::Key;

/// A plan or a conclusion to make, with its snapshot. It is pure, but may take long.
///
/// A dispatcher returns one decision per controller at a time.
pub struct Decision {
    /// The index of the controller; decisions of different controllers must not wait for each other.
    pub controller_id: usize,
    /// The name of the controller.
    pub controller: &'static str,
    /// The key that it is about; `None` if it only updates an index.
    pub key: Option<Key>,
    /// The reconciliation it belongs to.
    pub reconcile_id: Option<u64>,
    run: Run,
}

type Run = Box<dyn FnOnce(Option<Inspect<'_>>) -> DecisionOutput + Send>;
type Inspect<'a> = &'a mut dyn FnMut(&Planning<'_>);

/// A plan and its input, for a simulator that checks both.
pub struct Planning<'a> {
    /// The key that was planned.
    pub key: &'a Key,
    /// The input of the plan.
    pub view: &'a Caches,
    /// The plan, before any of it is executed.
    pub plan: &'a Plan,
    snapshot: &'a Snapshot,
    planner: fn(&Key, &Snapshot, Timestamp) -> Read<Plan>,
    now: Timestamp,
}

impl Planning<'_> {
    /// Plans again from the same input.
    pub fn again(&self) -> Plan {
        (self.planner)(self.key, self.snapshot, self.now).unwrap_or_default()
    }

    /// Plans from the same objects, with newly built indexes.
    pub fn with_new_indexes(&self) -> Plan {
        (self.planner)(self.key, &self.snapshot.without_indexes(), self.now).unwrap_or_default()
    }
}

/// The result of a [`Decision`].
pub struct Decided {
    pub(super) controller_id: usize,
    /// The output; `None` if the decision panicked.
    pub(super) output: Option<DecisionOutput>,
}

pub(super) struct DecisionOutput {
    /// The controller's indexes, as the decision left them.
    pub(super) indexes: BuiltIndexes,
    /// The keys that are concerned by the changes that the indexes applied.
    pub(super) woken: Vec<Key>,
    /// The writes that follow from a plan.
    pub(super) written: Option<Written>,
    pub(super) result: DecisionResult,
}

pub(super) enum DecisionResult {
    CaughtUp,
    Planned(Box<Planned>),
    Concluded(Read<Option<Box<StatusWrite>>>),
}

pub(super) struct Planned {
    pub(super) plan: Read<Plan>,
    pub(super) requested: Requests,
    /// The conclusion, if the plan has no steps to wait for.
    pub(super) status: Option<StatusWrite>,
}

impl Decision {
    /// Makes the decision.
    pub fn run(self) -> Decided {
        Decided { controller_id: self.controller_id, output: Some((self.run)(None)) }
    }

    /// Makes the decision, and passes the plan to `inspect` before it is executed. `inspect` can plan again,
    /// because the same input must give the same plan.
    pub fn run_inspected(self, inspect: &mut dyn FnMut(&Planning<'_>)) -> Decided {
        Decided { controller_id: self.controller_id, output: Some((self.run)(Some(inspect))) }
    }
}

impl Decided {
    /// Returns the result of a decision that panicked.
    pub fn panicked(controller_id: usize) -> Self {
        Self { controller_id, output: None }
    }
}

/// The controller, snapshot and time of a decision.
pub(super) struct DecisionContext<'a> {
    pub(super) controller_id: usize,
    pub(super) controller: &'a ErasedController,
    pub(super) snapshot: Snapshot,
    pub(super) now: Timestamp,
}

pub(super) fn plan(context: DecisionContext<'_>, reconcile_id: u64, key: Key) -> Decision {
    let (plan, conclude) = (context.controller.plan, context.controller.conclude);
    let DecisionContext { controller_id, controller, snapshot, now } = context;
    let planned = key.clone();
    let run = move |inspect: Option<Inspect<'_>>| {
        let woken = snapshot.catch_up();
        let decided = plan(&planned, &snapshot, now);
        if let (Some(inspect), Ok(first)) = (inspect, &decided) {
            let (view, snapshot) = (snapshot.caches(), &snapshot);
            inspect(&Planning { key: &planned, view, plan: first, snapshot, planner: plan, now });
        }
        let decided = decided.and_then(|plan| {
            let done = Executed { plan, outcomes: Vec::new() };
            let is_done = done.plan.steps.is_empty();
            let status = if is_done { conclude(&planned, &snapshot, &done, now)? } else { None };
            Ok((done.plan, status))
        });
        let (plan, status) = match decided {
            Ok((plan, status)) => (Ok(plan), status),
            Err(error) => (Err(error), None),
        };
        let steps = plan.iter().flat_map(|plan| &plan.steps);
        let written = match steps.clone().next() {
            Some(_) => Written::Plan(WrittenContent::from_actions(steps.flatten())),
            None => Written::Status(WrittenContent::from_actions(&status.as_ref().map(StatusWrite::action))),
        };
        let (lent, requested) = snapshot.into_parts();
        let result = DecisionResult::Planned(Box::new(Planned { plan, requested, status }));
        DecisionOutput { indexes: lent.built, woken, written: Some(written), result }
    };
    Decision {
        controller_id,
        controller: controller.name,
        key: Some(key),
        reconcile_id: Some(reconcile_id),
        run: Box::new(run),
    }
}

pub(super) fn conclude(
    context: DecisionContext<'_>,
    reconcile_id: u64,
    key: Key,
    done: Executed,
) -> Decision {
    let conclude = context.controller.conclude;
    let DecisionContext { controller_id, controller, snapshot, now } = context;
    let concluded = key.clone();
    let run = move |_: Option<Inspect<'_>>| {
        let woken = snapshot.catch_up();
        let status = conclude(&concluded, &snapshot, &done, now);
        DecisionOutput {
            indexes: snapshot.into_parts().0.built,
            woken,
            written: None,
            result: DecisionResult::Concluded(status.map(|status| status.map(Box::new))),
        }
    };
    Decision {
        controller_id,
        controller: controller.name,
        key: Some(key),
        reconcile_id: Some(reconcile_id),
        run: Box::new(run),
    }
}

pub(super) fn catch_up(context: DecisionContext<'_>) -> Decision {
    let DecisionContext { controller_id, controller, snapshot, now: _ } = context;
    let run = move |_: Option<Inspect<'_>>| {
        let woken = snapshot.catch_up();
        DecisionOutput {
            indexes: snapshot.into_parts().0.built,
            woken,
            written: None,
            result: DecisionResult::CaughtUp,
        }
    };
    Decision { controller_id, controller: controller.name, key: None, reconcile_id: None, run: Box::new(run) }
}
