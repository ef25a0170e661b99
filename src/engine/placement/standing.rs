//! What scheduling a placement found out about every cluster, kept from one schedule to the next.
//!
//! # Guarantees
//! A standing that was kept answers as a fresh one would. What changed is asked of the [`Fleet`]: a changed cluster is judged and
//! scored again, found in the ranking by binary search, and compared with the published decisions; no other cluster is looked
//! at. Only what truly concerns all clusters visits all: another spec, another set, another scale of scores.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::Misconfigured;
use super::filter::cel::Budget;
use super::filter::{Verdict, taint};
use super::fleet::{Fleet, Id};
use super::layout::Held;
use super::policy::Policy;
use super::prioritizer::{Coordinate, Range, Resource, Scale, addon, balance, resource, steady};
use super::schedule::{Input, leaving_since};
use super::select::spread;
use super::sets::Members;
use crate::api::cluster::v1::ManagedCluster;
use crate::api::cluster::v1beta1::{PlacementDecision, PlacementSpec};
use crate::api::names::{DECISION_GROUP_INDEX_LABEL, DECISION_GROUP_NAME_LABEL};

/// What all expressions of a placement may spend on all clusters together: 8 s at most, once.
const MAX_STEPS_IN_ALL: u64 = 2_000_000;

/// The memory of one placement.
#[derive(Debug, Default)]
pub struct Standing {
    /// Whether something has woken the placement since it was last scheduled; whoever wakes placements sets it.
    pub is_due: bool,
    spec: Option<PlacementSpec>,
    pub(super) policy: Option<Result<Arc<Policy>, Misconfigured>>,
    pub(super) sets: Vec<Members>,
    own: Vec<Arc<PlacementDecision>>,
    pub(super) held: Vec<Held>,
    /// Clusters in the published decisions, with the position of their slice.
    pub(super) decided: BTreeMap<Id, u16>,
    /// Those of them whose entry says since when they are leaving.
    pub(super) leaving: BTreeMap<Id, Timestamp>,
    candidates: Vec<Candidate>,
    counts: [usize; 6],
    /// Feasible clusters, best first; empty where only being feasible counts.
    pub(super) ranking: Vec<Id>,
    spread: BTreeSet<Id>,
    /// When a cluster must be judged again although nothing changes.
    deadlines: BTreeMap<Id, Timestamp>,
    due: BTreeSet<(Timestamp, Id)>,
    /// Clusters whose published decision is not what it should be.
    pub(super) pending: BTreeSet<Id>,
    /// Clusters with a score that has expired.
    pub(super) expired: BTreeSet<Id>,
    /// Whether the slices must be looked through.
    pub(super) is_stale: bool,
    pub(super) scale: Scale,
    /// What feasible clusters can give of the resources that are scored.
    amounts: BTreeMap<Resource, BTreeMap<Id, f64>>,
    seen_changes: u64,
    seen_uses: u64,
}

/// What is known of one cluster; small, because there is one for every cluster and placement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Candidate {
    verdict: Verdict,
    /// Whether it has taints better avoided.
    avoid: bool,
    /// Whether it stands in the ranking, by the two fields below.
    is_ranked: bool,
    /// 2 for taints better avoided, 1 for scores that are not there; such clusters come after all others.
    demotion: u8,
    total: i32,
}

/// What a cluster's total is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Scored {
    /// Sum of scores times weights.
    pub total: i32,
    /// Whether a score of an add-on is missing or has expired.
    pub is_unscored: bool,
    /// Whether one has expired.
    pub is_expired: bool,
    /// Until when the scores are valid.
    pub until: Option<Timestamp>,
}

impl Standing {
    /// Brings the memory up to date.
    pub(super) fn sync(&mut self, input: &Input<'_>, now: Timestamp) {
        self.is_due = false;
        let again = self.read_spec(input) | self.read_sets(input);
        let mut touched = self.read_own(input);
        let Some(Ok(policy)) = self.policy.clone() else { return };
        let fleet = input.fleet;
        if again {
            self.forget();
            touched.extend(fleet.ids());
        } else {
            touched.extend(fleet.changes.since(self.seen_changes));
            touched.extend(self.due.iter().take_while(|(at, _)| *at <= now).map(|(_, id)| *id));
        }
        touched.sort_unstable();
        touched.dedup();
        self.candidates.resize(fleet.len(), Candidate::default());
        let mut budget = Budget::default();
        for id in &touched {
            self.judge(&policy, fleet, *id, now, &mut budget);
        }
        if budget.exhausted || budget.spent > MAX_STEPS_IN_ALL {
            self.policy = Some(Err(Misconfigured::new("Predicate", "the expressions cost too much to evaluate for every cluster")));
            return;
        }
        if policy.is_ranked() {
            self.rank(&policy, fleet, &mut touched, again, now);
        }
        self.seen_changes = fleet.changes.now();
        self.seen_uses = fleet.uses.now();
        touched.extend(std::mem::take(&mut self.pending));
        self.pending = touched.into_iter().filter(|id| self.is_unsettled(&policy, fleet, *id)).collect();
    }

    fn read_spec(&mut self, input: &Input<'_>) -> bool {
        let spec = &input.placement.spec;
        if self.spec.as_ref() == Some(spec) {
            return false;
        }
        self.spec = Some(spec.clone());
        self.policy = Some(Policy::read(spec).map(Arc::new));
        true
    }

    fn read_sets(&mut self, input: &Input<'_>) -> bool {
        let sets: Vec<Members> = input.eligible().map(|set| Members::of(set)).collect();
        let changed = sets != self.sets;
        self.sets = sets;
        changed
    }

    /// Reads the published decisions; returns the clusters that came or went.
    fn read_own(&mut self, input: &Input<'_>) -> Vec<Id> {
        let own = input.decisions;
        if own.len() == self.own.len() && own.iter().zip(&self.own).all(|(new, old)| Arc::ptr_eq(new, old)) {
            return Vec::new();
        }
        self.own = own.to_vec();
        self.held = own.iter().map(|decision| held(decision)).collect();
        self.is_stale = true;
        let before = std::mem::take(&mut self.decided);
        self.leaving.clear();
        for (slice, decision) in (0..).zip(own) {
            for entry in decision.status.iter().flat_map(|status| &status.decisions) {
                let Some(id) = input.fleet.id(&entry.cluster_name) else { continue };
                self.decided.entry(id).or_insert(slice);
                if let Some(since) = leaving_since(&entry.reason) {
                    self.leaving.entry(id).or_insert(since);
                }
            }
        }
        let came = self.decided.keys().filter(|id| !before.contains_key(id)).copied();
        let left = before.keys().filter(|id| !self.decided.contains_key(id)).copied();
        came.chain(left).collect()
    }

    /// Drops what was found out about clusters.
    fn forget(&mut self) {
        self.candidates.clear();
        self.counts = <[usize; 6]>::default();
        self.ranking.clear();
        self.spread.clear();
        self.deadlines.clear();
        self.due.clear();
        self.expired.clear();
        self.amounts.clear();
        self.pending = self.decided.keys().copied().collect();
        self.is_stale = true;
    }

    /// Passes a cluster through the filters and notes how far it came.
    fn judge(&mut self, policy: &Policy, fleet: &Fleet, id: Id, now: Timestamp, budget: &mut Budget) {
        let (verdict, avoid, until) = assess(policy, &self.sets, fleet, id, self.decided.contains_key(&id), now, budget);
        let Some(candidate) = self.candidates.get_mut(id as usize) else { return };
        if let Some(count) = self.counts.get_mut(candidate.verdict as usize) {
            *count = count.saturating_sub(1);
        }
        if let Some(count) = self.counts.get_mut(verdict as usize) {
            *count += 1;
        }
        candidate.verdict = verdict;
        candidate.avoid = avoid;
        if let Some(earlier) = self.deadlines.remove(&id) {
            self.due.remove(&(earlier, id));
        }
        self.wake(id, until);
    }

    /// Notes when a cluster must be judged again.
    fn wake(&mut self, id: Id, until: Option<Timestamp>) {
        let Some(until) = until else { return };
        let earlier = self.deadlines.get(&id).copied();
        if earlier.is_none_or(|earlier| until < earlier) {
            earlier.map(|earlier| self.due.remove(&(earlier, id)));
            self.deadlines.insert(id, until);
            self.due.insert((until, id));
        }
    }

    /// Scores what was touched, or everything where the scale has changed, and keeps the ranking in order.
    fn rank(&mut self, policy: &Policy, fleet: &Fleet, touched: &mut Vec<Id>, again: bool, now: Timestamp) {
        let scaled = self.rescale(policy, fleet, touched);
        let mut moved = 0;
        if again || scaled {
            // In the order of names, so that a stable sort leaves equals in it.
            let mut ranking: Vec<Id> = fleet.ids().filter(|id| self.verdict(*id) == Verdict::Feasible).collect();
            for id in &ranking {
                self.score_again(policy, fleet, *id, now);
            }
            let candidate = |id: &Id| self.candidates.get(*id as usize).copied().unwrap_or_default();
            ranking.sort_by_key(|id| (candidate(id).demotion, Reverse(candidate(id).total)));
            self.candidates.iter_mut().for_each(|candidate| candidate.is_ranked = candidate.verdict == Verdict::Feasible);
            self.ranking = ranking;
            moved = self.ranking.len();
            touched.clear();
            touched.extend(self.decided.keys().copied());
        } else {
            touched.extend(fleet.uses.since(self.seen_uses));
            touched.sort_unstable();
            touched.dedup();
            for id in touched.iter() {
                moved += usize::from(self.place(policy, fleet, *id, now));
            }
        }
        if moved == 0 {
            return;
        }
        if policy.spread.is_empty() {
            let wanted = policy.wanted.unwrap_or(usize::MAX).min(self.ranking.len());
            let window = wanted.saturating_sub(moved)..wanted.saturating_add(moved).min(self.ranking.len());
            let window = if again || scaled { 0..wanted } else { window };
            touched.extend(self.ranking.get(window).into_iter().flatten().copied());
        } else {
            let ranked = self.ranking.iter().filter_map(|id| Some((*id, &**fleet.cluster(*id)?)));
            let spread = spread(ranked, &policy.spread, policy.wanted);
            touched.extend(self.spread.symmetric_difference(&spread).copied());
            self.spread = spread;
        }
    }

    /// Moves one cluster to its place in the ranking; whether it was elsewhere before.
    fn place(&mut self, policy: &Policy, fleet: &Fleet, id: Id, now: Timestamp) -> bool {
        let Some(before) = self.candidates.get(id as usize).copied() else { return false };
        let position = before.is_ranked.then(|| self.position(fleet, id)).flatten();
        let feasible = before.verdict == Verdict::Feasible;
        if feasible {
            self.score_again(policy, fleet, id, now);
        } else {
            self.expired.remove(&id);
        }
        let Some(after) = self.candidates.get_mut(id as usize) else { return false };
        if feasible == before.is_ranked && (!feasible || (after.demotion, after.total) == (before.demotion, before.total)) {
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
        if scored.is_expired {
            self.expired.insert(id)
        } else {
            self.expired.remove(&id)
        };
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
    pub(super) fn score_each(&self, policy: &Policy, fleet: &Fleet, id: Id, now: Timestamp, mut tell: impl FnMut(Option<i64>)) -> Scored {
        let decided = self.decided.contains_key(&id);
        let mut scored = Scored::default();
        let mut total = 0_i64;
        for (coordinate, weight) in &policy.weights {
            let score = match coordinate {
                Coordinate::Balance => Some(balance::score(fleet.used(id).saturating_sub(u32::from(decided)), self.scale.most_used)),
                Coordinate::Steady => Some(steady::score(decided)),
                Coordinate::Allocatable(resource) => {
                    self.amount(*resource, id).map(|amount| resource::score(amount, self.range(*resource)))
                }
                Coordinate::AddOn { resource, score } => match addon::read(fleet.scores(id, resource), score, now) {
                    addon::Score::Valid(value, until) => {
                        scored.until = [scored.until, until].into_iter().flatten().min();
                        Some(value)
                    }
                    addon::Score::Expired(_) => {
                        (scored.is_unscored, scored.is_expired) = (true, true);
                        None
                    }
                    addon::Score::Missing => {
                        scored.is_unscored = true;
                        None
                    }
                },
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
                Coordinate::Balance => self.scale.most_used = fleet.most_used(self.decided.keys().copied()),
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
            let feasible = self.candidates.get(*id as usize).is_some_and(|candidate| candidate.verdict == Verdict::Feasible);
            let amount = fleet.cluster(*id).filter(|_| feasible).and_then(|cluster| resource::allocatable(cluster, resource));
            let before = match amount {
                Some(amount) => amounts.insert(*id, amount),
                None => amounts.remove(id),
            };
            shrinks |= before.is_some_and(|before| before <= range.least || before >= range.most) && before != amount;
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

    /// How far a cluster came.
    pub(super) fn verdict(&self, id: Id) -> Verdict {
        self.candidates.get(id as usize).map(|candidate| candidate.verdict).unwrap_or_default()
    }

    /// Whether a cluster should be in the decisions.
    pub(super) fn is_selected(&self, policy: &Policy, fleet: &Fleet, id: Id) -> bool {
        if self.verdict(id) != Verdict::Feasible {
            return false;
        }
        match (policy.wanted, policy.spread.is_empty()) {
            (None, true) => true,
            (Some(wanted), true) => self.position(fleet, id).is_some_and(|position| position < wanted),
            (_, false) => self.spread.contains(&id),
        }
    }

    /// How many clusters should be in the decisions.
    pub(super) fn selected(&self, policy: &Policy) -> usize {
        let feasible = self.count(Verdict::Feasible);
        if policy.spread.is_empty() { policy.wanted.map_or(feasible, |wanted| wanted.min(feasible)) } else { self.spread.len() }
    }

    /// How many clusters came exactly this far.
    pub(super) fn count(&self, verdict: Verdict) -> usize {
        self.counts.get(verdict as usize).copied().unwrap_or_default()
    }

    fn is_unsettled(&self, policy: &Policy, fleet: &Fleet, id: Id) -> bool {
        let selected = self.is_selected(policy, fleet, id);
        let Some(slice) = self.decided.get(&id) else { return selected };
        let lane = self.held.get(usize::from(*slice)).and_then(|held| lane_of(policy, &held.group));
        !selected || self.leaving.contains_key(&id) || fleet.cluster(id).map(|cluster| policy.lane(cluster)) != lane
    }

    /// Whether a change of this cluster may matter; `differs` says whether it differs in more than expressions would see.
    pub fn could_select(&self, cluster: &ManagedCluster, differs: bool) -> bool {
        let Some(Ok(policy)) = &self.policy else { return false };
        (differs || policy.reads_everything())
            && self.sets.iter().any(|set| set.contains(cluster))
            && (policy.predicates.is_empty() || policy.predicates.iter().any(|predicate| predicate.could_match(cluster)))
    }

    /// Whether the placement looks at scores of this name.
    pub fn reads_score(&self, name: &str) -> bool {
        let Some(Ok(policy)) = &self.policy else { return false };
        let names = |coordinate: &Coordinate| matches!(coordinate, Coordinate::AddOn { resource, .. } if resource == name);
        policy.reads_everything() || policy.weights.iter().any(|(coordinate, _)| names(coordinate))
    }

    /// When the next cluster must be judged again.
    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, _)| *at)
    }
}

/// The position of a group by its name.
fn lane_of(policy: &Policy, group: &str) -> Option<usize> {
    if group.is_empty() { Some(policy.groups.len()) } else { policy.groups.iter().position(|(name, _)| name == group) }
}

/// How far a cluster comes through the filters, whether it is better avoided, and until when that is so.
pub(super) fn assess(
    policy: &Policy,
    sets: &[Members],
    fleet: &Fleet,
    id: Id,
    decided: bool,
    now: Timestamp,
    budget: &mut Budget,
) -> (Verdict, bool, Option<Timestamp>) {
    let Some(cluster) = fleet.cluster(id).filter(|cluster| cluster.metadata.deletion_timestamp.is_none()) else {
        return (Verdict::Gone, false, None);
    };
    if !sets.iter().any(|set| set.contains(cluster)) {
        return (Verdict::Outside, false, None);
    }
    let scores = || fleet.valid_scores(id, now);
    let until = if policy.reads_everything() { fleet.scores_until(id, now) } else { None };
    if !policy.predicates.is_empty() && !policy.predicates.iter().any(|predicate| predicate.matches(cluster, &scores, budget)) {
        return (Verdict::Unmatched, false, until);
    }
    match taint::check(&policy.tolerations, &cluster.spec.taints, decided, now) {
        Ok(tolerated) => (Verdict::Feasible, tolerated.avoid, [until, tolerated.until].into_iter().flatten().min()),
        Err(refused) => (if refused.expired.is_some() { Verdict::Expired } else { Verdict::Tainted }, false, until),
    }
}

/// What the layout needs to know of a published decision.
fn held(decision: &PlacementDecision) -> Held {
    let labels = decision.metadata.labels.as_ref();
    let label = |key: &str| labels.and_then(|labels| labels.get(key)).map(String::as_str).unwrap_or_default();
    let entries = decision.status.as_ref().map(|status| status.decisions.as_slice()).unwrap_or_default();
    Held {
        name: decision.metadata.name.clone().unwrap_or_default(),
        index: label(DECISION_GROUP_INDEX_LABEL).parse().ok(),
        group: label(DECISION_GROUP_NAME_LABEL).to_owned(),
        members: entries.iter().map(|entry| entry.cluster_name.clone()).collect(),
    }
}
