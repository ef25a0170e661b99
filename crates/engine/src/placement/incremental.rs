//! The scheduling cycle with a cache. It gives the same results as [`schedule`](super::schedule()), but computes
//! them from the changes.
//!
//! # States
//! Every stage has an inbox of clusters, in [`Inboxes`]. [`IncrementalSchedule::receive`] compares the input
//! with the previous one and puts the affected clusters into the first inbox. Each stage processes its inbox and
//! fills the next one:
//!
//! ```text
//! changes ─▶ evaluate ─▶ rank ─▶ compare ─▶ unsettled ─▶ decide
//! ```
//!
//! A stage that cannot finish leaves the remaining clusters in its inbox, and later stages do not run. If an
//! inbox is empty, the results of its stage therefore equal those of a full cycle. A change of the spec or the
//! sets drops all results and visits all clusters.
//!
//! # Cost
//! A changed cluster is evaluated, scored, found in the ranking by binary search, and compared with the
//! published decisions. No other cluster is visited. Only changes that affect all clusters visit all of them: a
//! new spec, set or scale.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::decide::decide;
use super::filter::{ClusterAttributes, evaluate};
use super::fleet::{Fleet, Id};
use super::input::{Cycle, ScheduleInput};
use super::policy::{Misconfigured, SchedulingPolicy};
use super::prioritizer::Reported;
use super::published::Published;
use super::schedule::Schedule;
use super::select::{CycleSelection, check_cost};
use super::sets::SetMembers;
use super::status;
use api::cluster::v1beta1::{PlacementDecision, PlacementSpec};

/// If at most this many clusters changed, or one in this many of the ranking, they are re-ranked individually.
/// Otherwise, sorting the whole ranking is cheaper.
const FEW: usize = 32;

/// The cached results for one placement.
#[derive(Debug, Default)]
pub struct IncrementalSchedule {
    received: Option<Received>,
    published: Published,
    inboxes: Inboxes,
    selection: CycleSelection,
    costs: Costs,
    deadlines: Deadlines,
    reported: Reported,
    /// The clusters whose decisions are out of date.
    unsettled: BTreeSet<Id>,
}

/// The parts of the last input that the next cycle compares.
#[derive(Debug)]
struct Received {
    spec: PlacementSpec,
    policy: Result<Arc<SchedulingPolicy>, Misconfigured>,
    sets: Arc<[SetMembers]>,
    decisions: Vec<Arc<PlacementDecision>>,
    /// The positions in the fleet's logs.
    changes: u64,
    uses: u64,
}

/// The clusters that each stage has to visit.
#[derive(Debug, Default)]
struct Inboxes {
    evaluate: Inbox,
    rank: Inbox,
    compare: Inbox,
    /// True if slices must be laid out even if every cluster is settled, because the published slices changed or
    /// writes are pending.
    lay_out: bool,
}

/// The clusters that a stage has to visit.
#[derive(Debug)]
enum Inbox {
    /// These clusters, in any order, possibly with duplicates.
    Listed(Vec<Id>),
    /// All clusters in the fleet.
    All,
}

impl Default for Inbox {
    fn default() -> Self {
        Self::Listed(Vec::new())
    }
}

impl Inbox {
    fn add(&mut self, clusters: impl IntoIterator<Item = Id>) {
        match self {
            Self::Listed(known) => known.extend(clusters),
            Self::All => {}
        }
    }

    fn append(&mut self, other: Self) {
        match other {
            Self::Listed(clusters) => self.add(clusters),
            Self::All => *self = Self::All,
        }
    }

    fn dedup(&mut self) {
        if let Self::Listed(clusters) = self {
            clusters.sort_unstable();
            clusters.dedup();
        }
    }

    /// Removes and returns the clusters, without duplicates.
    fn take(&mut self, fleet: &Fleet) -> Vec<Id> {
        self.dedup();
        match std::mem::take(self) {
            Self::Listed(clusters) => clusters,
            Self::All => fleet.ids().collect(),
        }
    }
}

impl IncrementalSchedule {
    /// Schedules the placement like [`schedule`](super::schedule()).
    pub fn schedule(&mut self, input: &ScheduleInput<'_>, now: Timestamp) -> Schedule {
        let (policy, sets) = self.receive(input, now);
        let published = std::mem::take(&mut self.published);
        let scheduled = policy.and_then(|policy| {
            let fleet = input.fleet;
            let cycle = Cycle { policy: &policy, sets: &sets, fleet, published: &published, now };
            self.evaluate(&cycle, input.max_steps)?;
            self.rank(&cycle);
            self.compare(&cycle);
            self.selection.deadline = self.deadlines.first();
            let is_settled = self.unsettled.is_empty() && !self.inboxes.lay_out;
            let unsettled = (!is_settled).then_some(&self.unsettled);
            Ok(decide(&cycle, input, &self.selection, unsettled))
        });
        self.published = published;
        match scheduled {
            Ok(schedule) => {
                self.inboxes.lay_out = !schedule.steps.is_empty();
                schedule
            }
            Err(refusal) => status::misconfigured(input, &self.published, &refusal, now),
        }
    }

    /// Compares the input with the previous one and puts the affected clusters into the inboxes.
    fn receive(
        &mut self,
        input: &ScheduleInput<'_>,
        now: Timestamp,
    ) -> (Result<Arc<SchedulingPolicy>, Misconfigured>, Arc<[SetMembers]>) {
        let (spec, sets) = (&input.placement.spec, input.sets());
        let before = self.received.take();
        let is_published = before.as_ref().is_some_and(|before| is_same(&before.decisions, input.decisions));
        let moved = if is_published { Vec::new() } else { self.receive_decisions(input) };
        let received = match before {
            Some(before) if before.spec == *spec && *before.sets == *sets => {
                self.inboxes.evaluate.add(moved);
                self.inboxes.evaluate.add(input.fleet.changes.since(before.changes));
                self.inboxes.evaluate.add(self.deadlines.due(now));
                if before.policy.as_ref().is_ok_and(|policy| policy.is_ranked()) {
                    self.inboxes.rank.add(input.fleet.uses.since(before.uses));
                }
                before
            }
            Some(_) | None => {
                let published = std::mem::take(&mut self.published);
                *self = Self { published, ..Self::default() };
                self.inboxes = Inboxes { evaluate: Inbox::All, lay_out: true, ..Inboxes::default() };
                let policy = input.policy().map(Arc::new);
                let (spec, sets) = (spec.clone(), sets.into());
                Received { spec, policy, sets, decisions: input.decisions.to_vec(), changes: 0, uses: 0 }
            }
        };
        let found = (received.policy.clone(), Arc::clone(&received.sets));
        self.received = Some(Received {
            decisions: if is_published { received.decisions } else { input.decisions.to_vec() },
            changes: input.fleet.changes.now(),
            uses: input.fleet.uses.now(),
            ..received
        });
        found
    }

    /// Parses the published decisions. Returns the clusters that were added or removed.
    fn receive_decisions(&mut self, input: &ScheduleInput<'_>) -> Vec<Id> {
        let before = std::mem::replace(&mut self.published, Published::read(input.decisions, input.fleet));
        self.inboxes.lay_out = true;
        let came = self.published.clusters().filter(|id| !before.contains(*id));
        let went = before.clusters().filter(|id| !self.published.contains(*id));
        came.chain(went).collect()
    }

    /// Passes the clusters through the filters.
    ///
    /// # Errors
    /// Fails if the placement's expressions take too many steps. Clusters that were not evaluated stay in the
    /// inbox.
    fn evaluate(&mut self, cycle: &Cycle<'_>, max_steps: u64) -> Result<(), Misconfigured> {
        self.selection.grow(cycle.fleet.len());
        let is_all = matches!(self.inboxes.evaluate, Inbox::All);
        let mut clusters = self.inboxes.evaluate.take(cycle.fleet);
        self.costs.forget(&clusters);
        let mut evaluated = 0;
        for id in &clusters {
            if self.costs.total > max_steps {
                break;
            }
            let evaluation = evaluate(cycle, *id);
            self.costs.record(*id, evaluation.steps);
            self.deadlines.replace(*id, evaluation.until);
            self.selection.record(*id, &evaluation);
            evaluated += 1;
        }
        self.inboxes.evaluate.add(clusters.split_off(evaluated));
        let is_whole = is_all && matches!(&self.inboxes.evaluate, Inbox::Listed(rest) if rest.is_empty());
        self.inboxes.rank.append(if is_whole { Inbox::All } else { Inbox::Listed(clusters) });
        // After a refusal the next stages do not run, and their inbox must not grow with every cycle.
        check_cost(self.costs.total, max_steps).inspect_err(|_| self.inboxes.rank.dedup())
    }

    /// Scores the clusters and updates the ranking.
    fn rank(&mut self, cycle: &Cycle<'_>) {
        if !cycle.policy.is_ranked() {
            self.inboxes.compare.append(std::mem::take(&mut self.inboxes.rank));
            return;
        }
        let is_all = matches!(self.inboxes.rank, Inbox::All);
        let clusters = self.inboxes.rank.take(cycle.fleet);
        let is_scaled = self.measure(cycle, &clusters);
        if is_all || is_scaled || clusters.len() > FEW + self.selection.ranking.len() / FEW {
            self.rank_all(cycle);
        } else if !clusters.is_empty() {
            self.rank_some(cycle, clusters);
        }
    }

    fn rank_all(&mut self, cycle: &Cycle<'_>) {
        self.selection.rank(cycle, |id, until| self.deadlines.shorten(id, until));
        self.selection.spread = self.selection.select_spread(cycle);
        self.inboxes.compare.add(cycle.published.clusters());
        if cycle.policy.spread.is_empty() {
            let wanted = cycle.policy.wanted.unwrap_or(usize::MAX);
            self.inboxes.compare.add(self.selection.ranking.iter().copied().take(wanted));
        } else {
            self.inboxes.compare.add(self.selection.spread.iter().copied());
        }
    }

    fn rank_some(&mut self, cycle: &Cycle<'_>, clusters: Vec<Id>) {
        let mut moved = 0;
        for id in &clusters {
            let (has_moved, until) = self.selection.rerank(cycle, *id);
            self.deadlines.shorten(*id, until);
            moved += usize::from(has_moved);
        }
        self.inboxes.compare.add(clusters);
        if !cycle.policy.spread.is_empty() {
            // A cluster may move to another domain without a change of rank.
            let before = std::mem::take(&mut self.selection.spread);
            self.selection.spread = self.selection.select_spread(cycle);
            self.inboxes.compare.add(before.symmetric_difference(&self.selection.spread).copied());
        } else if moved > 0 {
            // Each move shifts the edge of the selection by at most one.
            let ranking = &self.selection.ranking;
            let wanted = cycle.policy.wanted.unwrap_or(usize::MAX).min(ranking.len());
            let edge = wanted.saturating_sub(moved)..wanted.saturating_add(moved).min(ranking.len());
            self.inboxes.compare.add(ranking.get(edge).into_iter().flatten().copied());
        }
    }

    /// Measures the ranges to which scores are relative. Returns true if they changed.
    fn measure(&mut self, cycle: &Cycle<'_>, clusters: &[Id]) -> bool {
        let ranges = self.reported.measure(cycle, &self.selection, clusters);
        let changed = ranges != self.selection.ranges;
        self.selection.ranges = ranges;
        changed
    }

    /// Compares clusters with the published decisions.
    fn compare(&mut self, cycle: &Cycle<'_>) {
        let mut clusters = self.inboxes.compare.take(cycle.fleet);
        clusters.extend(std::mem::take(&mut self.unsettled));
        self.unsettled = clusters.into_iter().filter(|id| self.selection.is_unsettled(cycle, *id)).collect();
    }

    /// Returns true if a change of a cluster may affect the placement. `attributes` are those before or after
    /// the change; `differs` is true if the two are different.
    pub fn concerns(&self, fleet: &Fleet, attributes: &ClusterAttributes, differs: bool) -> bool {
        let Some(received) = &self.received else { return true };
        let Ok(policy) = &received.policy else { return false };
        (differs || policy.has_expressions())
            && received.sets.iter().any(|set| set.may_contain(attributes))
            && (policy.predicates.is_empty()
                || policy.predicates.iter().any(|predicate| predicate.could_match(attributes))
                // The condition distinguishes empty sets from sets without a matching cluster. The first and
                // last cluster in the sets therefore affect the placement. The number of clusters that came or
                // went is at most the number of changes.
                || self.selection.in_sets() as u64 <= fleet.changes.now() - received.changes)
    }

    /// Returns true if scores of this name may affect the placement.
    pub fn reads_score(&self, name: &str) -> bool {
        match self.received.as_ref().map(|received| &received.policy) {
            Some(Ok(policy)) => policy.reads_score(name),
            Some(Err(_)) => false,
            None => true,
        }
    }
}

fn is_same(before: &[Arc<PlacementDecision>], now: &[Arc<PlacementDecision>]) -> bool {
    before.len() == now.len() && before.iter().zip(now).all(|(before, now)| Arc::ptr_eq(before, now))
}

/// The steps taken by expressions.
#[derive(Debug, Default)]
struct Costs {
    steps: BTreeMap<Id, u64>,
    total: u64,
}

impl Costs {
    fn forget(&mut self, clusters: &[Id]) {
        if self.steps.is_empty() {
            return;
        }
        for id in clusters {
            self.total -= self.steps.remove(id).unwrap_or_default();
        }
    }

    fn record(&mut self, id: Id, steps: u64) {
        if steps > 0 {
            self.steps.insert(id, steps);
            self.total += steps;
        }
    }
}

/// The times at which clusters must be reevaluated without a change of any object.
#[derive(Debug, Default)]
struct Deadlines {
    by_cluster: BTreeMap<Id, Timestamp>,
    queue: BTreeSet<(Timestamp, Id)>,
}

impl Deadlines {
    fn replace(&mut self, id: Id, until: Option<Timestamp>) {
        if let Some(before) = self.by_cluster.remove(&id) {
            self.queue.remove(&(before, id));
        }
        if let Some(until) = until {
            self.by_cluster.insert(id, until);
            self.queue.insert((until, id));
        }
    }

    fn shorten(&mut self, id: Id, until: Option<Timestamp>) {
        if let Some(until) = until
            && self.by_cluster.get(&id).is_none_or(|before| until < *before)
        {
            self.replace(id, Some(until));
        }
    }

    fn due(&self, now: Timestamp) -> impl Iterator<Item = Id> + '_ {
        self.queue.iter().take_while(move |(at, _)| *at <= now).map(|(_, id)| *id)
    }

    fn first(&self) -> Option<Timestamp> {
        self.queue.first().map(|(at, _)| *at)
    }
}
