//! What scheduling a placement found out about every cluster, kept from one schedule to the next.
//!
//! # Guarantees
//! A standing that was kept answers as a fresh one would. What changed is asked of the [`Fleet`]: a changed cluster is judged and
//! scored again, found in the ranking by binary search, and compared with the published decisions; no other cluster is looked
//! at. Only what truly concerns all clusters visits all: another spec, another set, another scale of scores.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::Misconfigured;
use super::filter::cel::Budget;
use super::filter::{Facts, Verdict, taint};
use super::fleet::{Fleet, Id};
use super::layout::Held;
use super::policy::Policy;
use super::prioritizer::{Coordinate, Resource, Scale};
use super::schedule::{Input, leaving_since};
use super::sets::Members;
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
    pub(super) candidates: Vec<Candidate>,
    counts: [usize; 6],
    /// Feasible clusters, best first; empty where only being feasible counts.
    pub(super) ranking: Vec<Id>,
    pub(super) spread: BTreeSet<Id>,
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
    pub(super) amounts: BTreeMap<Resource, BTreeMap<Id, f64>>,
    seen_changes: u64,
    pub(super) seen_uses: u64,
}

/// What is known of one cluster; small, because there is one for every cluster and placement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Candidate {
    pub verdict: Verdict,
    /// Whether it has taints better avoided.
    pub avoid: bool,
    /// Whether it stands in the ranking, by the two fields below.
    pub is_ranked: bool,
    /// 2 for taints better avoided, 1 for scores that are not there; such clusters come after all others.
    pub demotion: u8,
    pub total: i32,
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
    pub(super) fn wake(&mut self, id: Id, until: Option<Timestamp>) {
        let Some(until) = until else { return };
        let earlier = self.deadlines.get(&id).copied();
        if earlier.is_none_or(|earlier| until < earlier) {
            earlier.map(|earlier| self.due.remove(&(earlier, id)));
            self.deadlines.insert(id, until);
            self.due.insert((until, id));
        }
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
            (Some(wanted), true) => self.is_among(fleet, id, wanted),
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
        !selected || self.leaving.contains_key(&id) || fleet.facts(id).map(|facts| policy.lane(facts)) != lane
    }

    /// Whether a change of this cluster may matter; `differs` says whether it differs in more than expressions would see.
    pub fn could_select(&self, facts: &Facts, differs: bool) -> bool {
        let Some(Ok(policy)) = &self.policy else { return false };
        (differs || policy.reads_everything())
            && self.sets.iter().any(|set| set.contains(facts))
            && (policy.predicates.is_empty() || policy.predicates.iter().any(|predicate| predicate.could_match(facts)))
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
    let (Some(cluster), Some(facts)) = (fleet.cluster(id), fleet.facts(id)) else { return (Verdict::Gone, false, None) };
    if facts.is_leaving {
        return (Verdict::Gone, false, None);
    }
    if !sets.iter().any(|set| set.contains(facts)) {
        return (Verdict::Outside, false, None);
    }
    let scores = || fleet.valid_scores(id, now);
    let until = if policy.reads_everything() { fleet.scores_until(id, now) } else { None };
    if !policy.predicates.is_empty() && !policy.predicates.iter().any(|predicate| predicate.matches((cluster, facts), &scores, budget)) {
        return (Verdict::Unmatched, false, until);
    }
    let taints = if facts.is_tainted { cluster.spec.taints.as_slice() } else { &[] };
    match taint::check(&policy.tolerations, taints, decided, now) {
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
