//! The results of filtering and prioritizing all clusters, and the resulting selection.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use jiff::Timestamp;

use super::filter::{Evaluation, FilterResult, evaluate};
use super::fleet::{Fleet, Id};
use super::input::Cycle;
use super::policy::{Misconfigured, SchedulingPolicy};
use super::prioritizer::{Range, measure};
use super::rank::{RankKey, total};
use super::spread::spread;

/// The results for one cluster. This is small, because there is one for every cluster and placement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Candidate {
    result: FilterResult,
    /// True if the cluster has taints to avoid.
    avoid: bool,
    /// The sort key, if the cluster is ranked.
    key: Option<RankKey>,
}

/// The results of filtering and prioritizing all clusters.
#[derive(Debug, Default)]
pub(super) struct CycleSelection {
    candidates: Vec<Candidate>,
    /// The number of clusters by the furthest stage that they reached.
    counts: [usize; FilterResult::COUNT],
    /// The ranges to which scores are relative, by weighted prioritizer; empty without a ranking.
    pub ranges: Vec<Range>,
    /// The feasible clusters, best first; empty without a ranking.
    pub ranking: Vec<Id>,
    /// The selected clusters if there are spread constraints; otherwise empty.
    pub spread: BTreeSet<Id>,
    /// The time at which a cluster must be reevaluated without a change of any object.
    pub deadline: Option<Timestamp>,
}

/// Filters, ranks and selects all clusters.
///
/// # Errors
/// Fails if the expressions of the placement take more than `max_steps` for all clusters together.
pub(super) fn select(cycle: &Cycle<'_>, max_steps: u64) -> Result<CycleSelection, Misconfigured> {
    let mut selection = CycleSelection::default();
    selection.grow(cycle.fleet.len());
    let mut steps = 0_u64;
    let mut deadline = None;
    for id in cycle.fleet.ids() {
        let evaluation = evaluate(cycle, id);
        selection.record(id, &evaluation);
        steps += evaluation.steps;
        deadline = [deadline, evaluation.until].into_iter().flatten().min();
    }
    check_cost(steps, max_steps)?;
    if cycle.policy.is_ranked() {
        let feasible: Vec<Id> = selection.feasible(cycle.fleet).collect();
        selection.ranges = measure(cycle, &feasible);
        selection.rank(cycle, |_, until| deadline = [deadline, until].into_iter().flatten().min());
        selection.spread = selection.select_spread(cycle);
    }
    selection.deadline = deadline;
    Ok(selection)
}

/// Fails if expressions take too many steps.
pub(super) fn check_cost(steps: u64, max_steps: u64) -> Result<(), Misconfigured> {
    if steps <= max_steps {
        return Ok(());
    }
    Err(Misconfigured::new("Predicate", "the expressions cost too much to evaluate for every cluster"))
}

impl CycleSelection {
    /// Extends the results to the size of the fleet.
    pub(super) fn grow(&mut self, clusters: usize) {
        let new = clusters.saturating_sub(self.candidates.len());
        if let Some(gone) = self.counts.get_mut(FilterResult::Gone as usize) {
            *gone += new;
        }
        self.candidates.resize(clusters, Candidate::default());
    }

    /// Records the stage that a cluster reached. It keeps its place in the ranking until it is ranked again.
    pub(super) fn record(&mut self, id: Id, evaluation: &Evaluation) {
        let Some(candidate) = self.candidates.get_mut(id as usize) else { return };
        if let Some(count) = self.counts.get_mut(candidate.result as usize) {
            *count -= 1;
        }
        candidate.result = evaluation.result;
        candidate.avoid = evaluation.avoid;
        if let Some(count) = self.counts.get_mut(candidate.result as usize) {
            *count += 1;
        }
    }

    /// Scores and sorts all feasible clusters, and reports the expiry of their scores to `valid`.
    pub(super) fn rank(&mut self, cycle: &Cycle<'_>, mut valid: impl FnMut(Id, Option<Timestamp>)) {
        self.candidates.iter_mut().for_each(|candidate| candidate.key = None);
        // The clusters are in name order, which the stable sort preserves for equal keys.
        let mut keys: Vec<(RankKey, Id)> = Vec::with_capacity(self.count(FilterResult::Feasible));
        for id in cycle.fleet.ids() {
            let Some(candidate) = self.candidates.get_mut(id as usize) else { continue };
            if candidate.result == FilterResult::Feasible {
                let total = total(cycle, &self.ranges, id);
                let key = total.key(candidate.avoid);
                candidate.key = Some(key);
                keys.push((key, id));
                valid(id, total.until);
            }
        }
        keys.sort_by_key(|(key, _)| *key);
        // Collecting the sorted keys in place would keep their allocation, which is three times as large.
        self.ranking = Vec::with_capacity(keys.len());
        self.ranking.extend(keys.iter().map(|(_, id)| *id));
    }

    /// Moves one cluster to its place in the ranking. Returns true if the place changed, and the expiry of its
    /// scores.
    pub(super) fn rerank(&mut self, cycle: &Cycle<'_>, id: Id) -> (bool, Option<Timestamp>) {
        let Some(candidate) = self.candidates.get(id as usize).copied() else { return (false, None) };
        let total = (candidate.result == FilterResult::Feasible).then(|| total(cycle, &self.ranges, id));
        let until = total.and_then(|total| total.until);
        let key = total.map(|total| total.key(candidate.avoid));
        if key == candidate.key {
            return (false, until);
        }
        if let Some(before) = candidate.key
            && let Ok(position) = self.position(cycle.fleet, before, id)
        {
            self.ranking.remove(position);
        }
        if let Some(key) = key {
            let (Ok(position) | Err(position)) = self.position(cycle.fleet, key, id);
            self.ranking.insert(position, id);
        }
        if let Some(candidate) = self.candidates.get_mut(id as usize) {
            candidate.key = key;
        }
        (true, until)
    }

    /// Finds the position of a key in the ranking, or its insertion point.
    fn position(&self, fleet: &Fleet, key: RankKey, id: Id) -> Result<usize, usize> {
        self.ranking.binary_search_by(|other| self.compare(fleet, *other, key, id))
    }

    fn compare(&self, fleet: &Fleet, ranked: Id, key: RankKey, id: Id) -> Ordering {
        let ranked_key = self.candidates.get(ranked as usize).and_then(|candidate| candidate.key);
        ranked_key.cmp(&Some(key)).then_with(|| fleet.name(ranked).cmp(fleet.name(id)))
    }

    /// Returns the clusters that the spread constraints select from the ranking; empty without constraints.
    pub(super) fn select_spread(&self, cycle: &Cycle<'_>) -> BTreeSet<Id> {
        if cycle.policy.spread.is_empty() {
            return BTreeSet::new();
        }
        let ranked = self.ranking.iter().filter_map(|id| Some((*id, cycle.fleet.attributes(*id)?)));
        spread(ranked, &cycle.policy.spread, cycle.policy.wanted)
    }

    /// Returns the furthest stage that a cluster reached.
    pub(super) fn result(&self, id: Id) -> FilterResult {
        self.candidates.get(id as usize).map(|candidate| candidate.result).unwrap_or_default()
    }

    /// Returns true if a cluster passed all filters.
    pub(super) fn is_feasible(&self, id: Id) -> bool {
        self.result(id) == FilterResult::Feasible
    }

    /// Returns the clusters that passed all filters, by name.
    pub(super) fn feasible<'a>(&'a self, fleet: &'a Fleet) -> impl Iterator<Item = Id> + 'a {
        fleet.ids().filter(|id| self.is_feasible(*id))
    }

    /// Returns true if a cluster belongs in the decisions.
    pub(super) fn is_selected(&self, cycle: &Cycle<'_>, id: Id) -> bool {
        if !self.is_feasible(id) {
            return false;
        }
        match (cycle.policy.wanted, cycle.policy.spread.is_empty()) {
            (None, true) => true,
            (Some(wanted), true) => self.is_among(cycle.fleet, id, wanted),
            (_, false) => self.spread.contains(&id),
        }
    }

    /// Returns true if a ranked cluster is among the best `wanted`.
    fn is_among(&self, fleet: &Fleet, id: Id, wanted: usize) -> bool {
        let Some(last) = wanted.checked_sub(1) else { return false };
        let Some(last) = self.ranking.get(last) else { return true };
        let key = self.candidates.get(id as usize).and_then(|candidate| candidate.key);
        key.is_some_and(|key| self.compare(fleet, *last, key, id) != Ordering::Less)
    }

    /// Returns the number of clusters that belong in the decisions.
    pub(super) fn selected(&self, policy: &SchedulingPolicy) -> usize {
        let feasible = self.count(FilterResult::Feasible);
        if policy.spread.is_empty() {
            policy.wanted.map_or(feasible, |wanted| wanted.min(feasible))
        } else {
            self.spread.len()
        }
    }

    /// Returns the number of clusters whose furthest stage is `result`.
    pub(super) fn count(&self, result: FilterResult) -> usize {
        self.counts.get(result as usize).copied().unwrap_or_default()
    }

    /// Returns the number of clusters in the sets.
    pub(super) fn in_sets(&self) -> usize {
        self.candidates.len() - self.count(FilterResult::Gone) - self.count(FilterResult::Outside)
    }

    /// Returns true if the published decision of a cluster is out of date.
    pub(super) fn is_unsettled(&self, cycle: &Cycle<'_>, id: Id) -> bool {
        let selected = self.is_selected(cycle, id);
        let Some(slice) = cycle.published.slice_of(id) else { return selected };
        let groups = &cycle.policy.groups;
        !selected
            || cycle.published.leaving.contains_key(&id)
            || cycle.fleet.attributes(id).map(|attributes| groups.of(attributes))
                != groups.named(&slice.group)
    }
}
