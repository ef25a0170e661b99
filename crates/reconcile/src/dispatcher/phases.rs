//! Runs the phases of a reconciliation: plan, steps of actions, conclusion, status.

use std::sync::Arc;

use jiff::Timestamp;

use super::command::{Act, Acted, Command, ReconcileResult};
use super::decision::{Decided, DecisionResult, Planned};
use super::reconciliation::{Acting, Phase, Reconciliation};
use super::state::{Deciding, Dispatcher};
use crate::queue::earlier;
use crate::snapshot::Requests;
use crate::{
    Answer, Cause, Executed, FailureKind, Lookup, Plan, ReadError, Site, StatusWrite, Wake, WatchedKind,
};
use object::Gvk;

/// The end of a reconciliation, without the outcomes of its writes.
#[derive(Default)]
struct End {
    read_error: Option<ReadError>,
    panicked: bool,
    /// True if the key waits for an input, and is planned again when the input arrives.
    is_coming: bool,
}

impl Dispatcher {
    /// Handles the end of a decision.
    pub fn decided(&mut self, decided: Decided, now: Timestamp) {
        let Decided { controller_id: index, output } = decided;
        let Some(registered) = self.controllers.get_mut(index) else { return };
        let deciding = std::mem::replace(&mut registered.deciding, Deciding::Nothing);
        let reconciliation = match deciding {
            Deciding::Reconciliation(id) => {
                self.reconciliations.remove(&id).map(|reconciliation| (id, reconciliation))
            }
            Deciding::CatchingUp | Deciding::Nothing => None,
        };
        let Some(output) = output else {
            self.panicked(index, reconciliation, now);
            return;
        };
        registered.indexes.give_back(output.indexes);
        let at = self.coalesced(now);
        self.wake(output.woken.into_iter().map(|key| (index, key)), Wake::changed(at));
        let Some((id, mut reconciliation)) = reconciliation else { return };
        if let Some(written) = output.written {
            reconciliation.written = written;
        }
        match output.result {
            DecisionResult::CaughtUp => {}
            DecisionResult::Planned(planned) => self.planned(id, reconciliation, *planned, now),
            DecisionResult::Concluded(Ok(status)) => {
                self.write_status(id, reconciliation, status.map(|status| *status), now);
            }
            DecisionResult::Concluded(Err(error)) => {
                self.end(id, reconciliation, End { read_error: Some(error), ..End::default() }, now);
            }
        }
    }

    /// Handles a panic. It may have left an index half changed, so all indexes are dropped and every key is
    /// planned with new ones.
    fn panicked(&mut self, index: usize, reconciliation: Option<(u64, Reconciliation)>, now: Timestamp) {
        let Some(registered) = self.controllers.get_mut(index) else { return };
        registered.indexes.give_back(Vec::new());
        if registered.indexes.are_kept() {
            let keys = (registered.controller.keys)(&self.caches).unwrap_or_default();
            self.wake(keys.into_iter().map(|key| (index, key)), Wake::changed(self.coalesced(now)));
        }
        if let Some((id, reconciliation)) = reconciliation {
            self.end(id, reconciliation, End { panicked: true, ..End::default() }, now);
        }
    }

    fn planned(&mut self, id: u64, mut reconciliation: Reconciliation, planned: Planned, now: Timestamp) {
        let Planned { plan, requested, status } = planned;
        let waits = requested.is_pending || !requested.awaited.is_empty() || !requested.unanswered.is_empty();
        let observe =
            plan.as_ref().ok().filter(|_| !requested.is_pending).map(|plan| plan.observe.as_slice());
        self.request(&reconciliation, requested, observe, now);
        let mut plan = match plan {
            Ok(plan) => plan,
            Err(error) => {
                let is_coming = waits && error.is_coming();
                let end = End { read_error: Some(error), is_coming, panicked: false };
                self.end(id, reconciliation, end, now);
                return;
            }
        };
        reconciliation.wake_at = plan.wake_at.map(|at| earlier(at, reconciliation.set_back));
        reconciliation.events = std::mem::take(&mut plan.events);
        reconciliation.steps = plan.steps.len();
        if plan.steps.is_empty() {
            self.write_status(id, reconciliation, status, now);
            return;
        }
        reconciliation.phase = Phase::Acting(Acting { plan: Arc::new(plan), outcomes: Vec::new(), left: 0 });
        self.reconciliations.insert(id, reconciliation);
        self.next_step(id);
    }

    /// Requests the watches and computations that a plan needs. `observe` is `None` if the plan failed or waits
    /// for a result, because it may then not have reached all of its requests.
    fn request(
        &mut self,
        reconciliation: &Reconciliation,
        requested: Requests,
        observe: Option<&[Gvk]>,
        now: Timestamp,
    ) {
        let (controller_id, key) = (reconciliation.controller_id, &reconciliation.key);
        let Some(controller) =
            self.controllers.get(controller_id).map(|registered| registered.controller.name)
        else {
            return;
        };
        let requester = (controller_id, key.clone());
        let (mut kinds, mut lookups) = (requested.kinds, requested.lookups);
        match observe {
            Some(observe) => {
                kinds.extend(observe.iter().cloned());
                self.memos.retain(controller_id, key, &requested.used);
            }
            None => {
                kinds.extend(self.observed.of(&requester).into_iter().flatten().cloned());
                lookups.extend(self.lookups.of(&requester).into_iter().flatten().cloned());
            }
        }
        let is_answered = |lookup: &Lookup| self.caches.answer(lookup).is_some();
        if requested.awaited.iter().any(|gvk| self.caches.is_observed(gvk))
            || requested.unanswered.iter().any(is_answered)
        {
            // A list or an answer may have arrived since the plan began.
            self.wake([requester.clone()], Wake::changed(now));
        }
        if self.observed.of(&requester) != Some(&kinds) {
            let watching = self.observed.request(requester, kinds);
            let site = self.observed_site();
            for gvk in watching.ended {
                self.caches.forget_observed(&gvk);
                self.commands.push(Command::Unwatch(Arc::new(WatchedKind::observed(site, gvk))));
            }
            for gvk in watching.started {
                self.commands.push(Command::Watch(Arc::new(WatchedKind::observed(site, gvk))));
            }
        }
        self.look_up((controller_id, key.clone()), lookups, now);
        for memo in requested.memos {
            self.memos.request((controller_id, controller), key, memo, now);
        }
    }

    /// Returns the actions of the next step as commands.
    fn next_step(&mut self, id: u64) {
        let Some(reconciliation) = self.reconciliations.get_mut(&id) else { return };
        let Phase::Acting(acting) = &mut reconciliation.phase else { return };
        let step = acting.outcomes.len();
        let Some(actions) = acting.plan.steps.get(step).map(Vec::len) else { return };
        acting.outcomes.push((0..actions).map(|_| None).collect());
        acting.left = actions;
        let plan = Arc::clone(&acting.plan);
        for index in 0..actions {
            self.hand_out(id, &plan, (step, index));
        }
    }

    /// Returns an action as a command, with the caches that store its result.
    fn hand_out(&mut self, reconcile_id: u64, plan: &Arc<Plan>, position: (usize, usize)) {
        let Some(reconciliation) = self.reconciliations.get(&reconcile_id) else { return };
        let (controller_id, key) = (reconciliation.controller_id, reconciliation.key.clone());
        let Some(registered) = self.controllers.get(controller_id) else { return };
        let (controller, plan) = (registered.controller.name, Arc::clone(plan));
        let (kinds, restores) = Default::default();
        let mut act = Act { reconcile_id, controller_id, controller, key, plan, position, kinds, restores };
        if let (Some(site), Some(gvk)) = (act.action().site(), act.action().gvk()) {
            act.restores = self.restores_of(site);
            act.kinds.extend(self.kinds.get(&(site, gvk.clone())).map(|known| Arc::clone(&known.kind)));
            if site == self.observed_site() && self.observed.is_requested(&gvk) {
                act.kinds.push(Arc::new(WatchedKind::observed(site, gvk)));
            }
        }
        self.commands.push(Command::Act(act));
    }

    /// Handles the outcome of an action.
    pub fn acted(&mut self, acted: Acted, now: Timestamp) {
        let Acted { reconcile_id: id, position: (step, index), site, gvk, mut outcome, written, restores } =
            acted;
        match (site, &outcome) {
            (None, _) => {}
            (Some(site), Err(failure)) if failure.kind == FailureKind::Unavailable => {
                self.outages.failed(site, now);
            }
            (Some(site), _) => self.answered(site, now),
        }
        if let (Err(failure), Some(gvk)) = (&outcome, gvk)
            && matches!(failure.kind, FailureKind::NotFound | FailureKind::Invalid)
        {
            self.not_served(&gvk, now);
        }
        // A restore may have undone the write.
        if site.is_some_and(|site| self.restores_of(site) == restores) {
            for (kind, object) in written {
                self.wrote(&kind, object, now);
            }
            if let (Some(site), Ok(Answer::Object(object))) = (site, &mut outcome)
                && site == self.observed_site()
            {
                self.wrote_object(object, now);
            }
        }
        let Some(reconciliation) = self.reconciliations.get_mut(&id) else { return };
        match &mut reconciliation.phase {
            Phase::Deciding => {}
            Phase::WritingStatus => {
                if let Err(failure) = &outcome {
                    reconciliation.failed(site, failure);
                    reconciliation.status_events.clear();
                }
                if let Some(reconciliation) = self.reconciliations.remove(&id) {
                    self.end(id, reconciliation, End::default(), now);
                }
            }
            Phase::Acting(acting) => {
                if let Some(slot) = acting.outcomes.get_mut(step).and_then(|step| step.get_mut(index)) {
                    // The caches have what the hub returned, and a plan may have thousands of writes.
                    let on_hub = site == Some(Site::Hub);
                    *slot = Some(outcome.map(|answer| if on_hub { Answer::Nothing } else { answer }));
                    acting.left = acting.left.saturating_sub(1);
                }
                if acting.left == 0 {
                    self.step_done(id);
                }
            }
        }
    }

    /// Starts the next step, or concludes if there is none or an action failed.
    fn step_done(&mut self, id: u64) {
        let Some(reconciliation) = self.reconciliations.get_mut(&id) else { return };
        let Phase::Acting(acting) = &reconciliation.phase else { return };
        let last = acting.outcomes.last().into_iter().flatten();
        let has_failed = last.flatten().any(Result::is_err);
        if !has_failed && acting.outcomes.len() < acting.plan.steps.len() {
            self.next_step(id);
            return;
        }
        let Phase::Acting(acting) = std::mem::replace(&mut reconciliation.phase, Phase::Deciding) else {
            return;
        };
        let plan = Arc::unwrap_or_clone(acting.plan);
        let outcomes = acting.outcomes.into_iter().map(|step| step.into_iter().flatten().collect()).collect();
        let done = Executed { plan, outcomes };
        for (action, failure) in done.failures() {
            reconciliation.failed(action.site(), failure);
        }
        if let Some(registered) = self.controllers.get_mut(reconciliation.controller_id) {
            registered.concluding.push_back((id, done));
        }
    }

    fn write_status(
        &mut self,
        id: u64,
        mut reconciliation: Reconciliation,
        status: Option<StatusWrite>,
        now: Timestamp,
    ) {
        let Some(mut status) = status else {
            self.end(id, reconciliation, End::default(), now);
            return;
        };
        reconciliation.status_events = std::mem::take(&mut status.events);
        let plan = Plan { steps: vec![vec![status.action()]], ..Plan::default() };
        reconciliation.phase = Phase::WritingStatus;
        self.reconciliations.insert(id, reconciliation);
        self.hand_out(id, &Arc::new(plan), (0, 0));
    }

    fn end(&mut self, id: u64, reconciliation: Reconciliation, end: End, now: Timestamp) {
        let Reconciliation {
            controller_id: index,
            key,
            began,
            set_back: _,
            steps,
            wake_at,
            written,
            events: of_steps,
            status_events: mut events,
            failure,
            is_hub_away,
            phase: _,
        } = reconciliation;
        let Some(registered) = self.controllers.get_mut(index) else { return };
        let End { read_error, panicked, is_coming } = end;
        let is_hub_away = is_hub_away && failure.is_some();
        // A failed write is repeated until it succeeds, so nobody has undone it.
        let failure = failure.or_else(|| registered.undone.record(&key, &written, began, now));
        let undecided = panicked || (read_error.is_some() && !is_coming);
        let cause = match &failure {
            Some(failure) => Some(Cause { kind: failure.kind, is_hub_away }),
            None if undecided => Some(Cause { kind: FailureKind::Unavailable, is_hub_away: false }),
            None => None,
        };
        registered.undone.waits(&key, &written, registered.queue.end(&key, cause, wake_at, now));
        let failures = registered.queue.failures(&key);
        if failure.is_none() && !panicked {
            events.extend(of_steps);
        }
        let controller = registered.controller.name;
        let result = ReconcileResult {
            reconcile_id: id,
            controller_id: index,
            controller,
            key,
            began,
            steps,
            events,
            failure,
            failures,
            read_error,
            panicked,
        };
        self.commands.push(Command::Reconciled(result));
    }
}
