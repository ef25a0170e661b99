//! The scores of feasible clusters, and the order they put them in.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeSet;

use jiff::Timestamp;

use super::filter::Verdict;
use super::fleet::{Fleet, Id};
use super::policy::Policy;
use super::prioritizer::{Coordinate, Range, Resource, addon, balance, resource, steady};
use super::select::spread;
use super::standing::Standing;

/// What a cluster's total is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Scored {
    /// Sum of scores times weights.
    pub total: i32,
    /// Whether a score of an add-on is missing or has expired.
    pub is_unscored: bool,
    /// The first moment at which one that is valid now is not.
    pub until: Option<Timestamp>,
}

/// Up to so many clusters, and one in so many, find their new place one by one; more are sorted with all others, which costs less.
const FEW: usize = 32;

impl Standing {
    /// Scores what was touched, or everything where the scale or too much has changed, and keeps the ranking in order.
    pub(super) fn rank(
        &mut self,
        policy: &Policy,
        fleet: &Fleet,
        touched: &mut Vec<Id>,
        again: bool,
        now: Timestamp,
    ) {
        let scaled = self.rescale(policy, fleet, touched);
        touched.extend(fleet.uses.since(self.seen_uses));
        touched.sort_unstable();
        touched.dedup();
        let again = again || scaled || touched.len() > FEW + self.ranking.len() / FEW;
        let moved = if again {
            self.rank_again(policy, fleet, now);
            touched.clear();
            touched.extend(self.decided.keys().copied());
            self.ranking.len()
        } else {
            touched.iter().filter(|id| self.place(policy, fleet, **id, now)).count()
        };
        if !again && (touched.is_empty() || moved == 0 && policy.spread.is_empty()) {
            return;
        }
        if policy.spread.is_empty() {
            let wanted = policy.wanted.unwrap_or(usize::MAX).min(self.ranking.len());
            let window = wanted.saturating_sub(moved)..wanted.saturating_add(moved).min(self.ranking.len());
            let window = if again { 0..wanted } else { window };
            touched.extend(self.ranking.get(window).into_iter().flatten().copied());
        } else {
            let ranked = self.ranking.iter().filter_map(|id| Some((*id, fleet.facts(*id)?)));
            let spread = spread(ranked, &policy.spread, policy.wanted);
            // A cluster may be in another place than before without being ranked elsewhere. Where all were scored anew, those that
            // were touched are forgotten; each that is taken may be one of them.
            let before = if again { BTreeSet::new() } else { std::mem::take(&mut self.spread) };
            touched.extend(before.symmetric_difference(&spread).copied());
            self.spread = spread;
        }
    }

    /// Scores every feasible cluster and sorts them.
    fn rank_again(&mut self, policy: &Policy, fleet: &Fleet, now: Timestamp) {
        // In the order of names, so that a stable sort leaves equals in it.
        let mut ranking: Vec<Id> = fleet.ids().filter(|id| self.verdict(*id) == Verdict::Feasible).collect();
        for id in &ranking {
            self.score_again(policy, fleet, *id, now);
        }
        let candidate = |id: &Id| self.candidates.get(*id as usize).copied().unwrap_or_default();
        ranking.sort_by_key(|id| (candidate(id).demotion, Reverse(candidate(id).total)));
        self.candidates
            .iter_mut()
            .for_each(|candidate| candidate.is_ranked = candidate.verdict == Verdict::Feasible);
        self.ranking = ranking;
    }

    /// Moves one cluster to its place in the ranking; whether it was elsewhere before.
    fn place(&mut self, policy: &Policy, fleet: &Fleet, id: Id, now: Timestamp) -> bool {
        let Some(before) = self.candidates.get(id as usize).copied() else { return false };
        let position = before.is_ranked.then(|| self.position(fleet, id)).flatten();
        let feasible = before.verdict == Verdict::Feasible;
        if feasible {
            self.score_again(policy, fleet, id, now);
        }
        let Some(after) = self.candidates.get_mut(id as usize) else { return false };
        if feasible == before.is_ranked
            && (!feasible || (after.demotion, after.total) == (before.demotion, before.total))
        {
            return false;
        }
        after.is_ranked = feasible;
        if let Some(position) = position {
            self.ranking.remove(position);
        }
        if feasible {
            let at = self.ranking.partition_point(|other| self.compare(fleet, *other, id) == Ordering::Less);
            self.ranking.insert(at, id);
        }
        true
    }

    /// Whether a feasible cluster is among the best `wanted`.
    pub(super) fn is_among(&self, fleet: &Fleet, id: Id, wanted: usize) -> bool {
        let Some(last) = wanted.checked_sub(1) else { return false };
        self.ranking.get(last).is_none_or(|last| self.compare(fleet, id, *last) != Ordering::Greater)
    }

    fn position(&self, fleet: &Fleet, id: Id) -> Option<usize> {
        self.ranking.binary_search_by(|other| self.compare(fleet, *other, id)).ok()
    }

    fn compare(&self, fleet: &Fleet, a: Id, b: Id) -> Ordering {
        let candidate = |id: Id| self.candidates.get(id as usize).copied().unwrap_or_default();
        let (left, right) = (candidate(a), candidate(b));
        let totals = (left.demotion, right.total).cmp(&(right.demotion, left.total));
        totals.then_with(|| fleet.name(a).cmp(fleet.name(b)))
    }

    fn score_again(&mut self, policy: &Policy, fleet: &Fleet, id: Id, now: Timestamp) {
        let scored = self.scored(policy, fleet, id, now);
        if let Some(candidate) = self.candidates.get_mut(id as usize) {
            candidate.total = scored.total;
            candidate.demotion = 2 * u8::from(candidate.avoid) + u8::from(scored.is_unscored);
        }
        self.wake(id, scored.until);
    }

    /// The total of a cluster on the present scale.
    pub(super) fn scored(&self, policy: &Policy, fleet: &Fleet, id: Id, now: Timestamp) -> Scored {
        self.score_each(policy, fleet, id, now, |_| {})
    }

    /// The same, telling the score of each prioritizer in the order of the weights; `None` where it has nothing to say.
    pub(super) fn score_each(
        &self,
        policy: &Policy,
        fleet: &Fleet,
        id: Id,
        now: Timestamp,
        mut tell: impl FnMut(Option<i64>),
    ) -> Scored {
        let decided = self.decided.contains_key(&id);
        let used = fleet.used(id).saturating_sub(self.own_uses(id));
        let mut scored = Scored::default();
        let mut total = 0_i64;
        for (coordinate, weight) in &policy.weights {
            let score = match coordinate {
                Coordinate::Balance => Some(balance::score(used, self.scale.most_used)),
                Coordinate::Steady => Some(steady::score(decided)),
                Coordinate::Allocatable(resource) => {
                    self.amount(*resource, id).map(|amount| resource::score(amount, self.range(*resource)))
                }
                Coordinate::AddOn { resource, score } => {
                    match addon::read(fleet.scores(id, resource), score, now) {
                        addon::Score::Valid(value, until) => {
                            scored.until = [scored.until, until].into_iter().flatten().min();
                            Some(value)
                        }
                        addon::Score::Expired(_) | addon::Score::Missing => {
                            scored.is_unscored = true;
                            None
                        }
                    }
                }
            };
            total += i64::from(*weight) * score.unwrap_or_default();
            tell(score);
        }
        scored.total = i32::try_from(total).unwrap_or(if total < 0 { i32::MIN } else { i32::MAX });
        scored
    }

    /// Measures what scores are relative to; whether that has changed.
    fn rescale(&mut self, policy: &Policy, fleet: &Fleet, touched: &[Id]) -> bool {
        let before = self.scale;
        for (coordinate, _) in &policy.weights {
            match coordinate {
                Coordinate::Balance => {
                    self.scale.most_used =
                        fleet.most_used(self.decided.keys().map(|id| (*id, self.own_uses(*id))))
                }
                Coordinate::Allocatable(resource) => self.measure(*resource, fleet, touched),
                Coordinate::Steady | Coordinate::AddOn { .. } => {}
            }
        }
        before != self.scale
    }

    /// Measures what scores are relative to where they are only shown and have not been kept up to date.
    pub(super) fn rescale_all(&mut self, policy: &Policy, fleet: &Fleet) {
        if !policy.is_ranked() {
            let all: Vec<Id> = (0..).zip(&self.candidates).map(|(id, _)| id).collect();
            self.rescale(policy, fleet, &all);
        }
    }

    /// Takes what the touched clusters can give of a resource; looks at the others only when the least or the most has gone.
    fn measure(&mut self, resource: Resource, fleet: &Fleet, touched: &[Id]) {
        let mut range = self.range(resource);
        let amounts = self.amounts.entry(resource).or_default();
        let mut shrinks = false;
        for id in touched {
            let feasible = self
                .candidates
                .get(*id as usize)
                .is_some_and(|candidate| candidate.verdict == Verdict::Feasible);
            let amount = fleet
                .cluster(*id)
                .filter(|_| feasible)
                .and_then(|cluster| resource::allocatable(cluster, resource));
            let before = match amount {
                Some(amount) => amounts.insert(*id, amount),
                None => amounts.remove(id),
            };
            shrinks |= before.is_some_and(|before| before <= range.least || before >= range.most)
                && before != amount;
            amount.into_iter().for_each(|amount| range.take(amount));
        }
        if shrinks {
            range = Range::default();
            amounts.values().for_each(|amount| range.take(*amount));
        }
        match resource {
            Resource::Cpu => self.scale.cpu = range,
            Resource::Memory => self.scale.memory = range,
        }
    }

    fn range(&self, resource: Resource) -> Range {
        match resource {
            Resource::Cpu => self.scale.cpu,
            Resource::Memory => self.scale.memory,
        }
    }

    fn amount(&self, resource: Resource, id: Id) -> Option<f64> {
        self.amounts.get(&resource)?.get(&id).copied()
    }
}
