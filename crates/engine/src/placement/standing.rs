//! What scheduling a placement found out about every cluster, kept from one schedule to the next.
//!
//! # Guarantees
//! A standing that was kept answers as a fresh one would. What changed is asked of the [`Fleet`]: a changed cluster is judged and
//! scored again, found in the ranking by binary search, and compared with the published decisions; no other cluster is looked
//! at. Only what truly concerns all clusters visits all: another spec, another set, another scale of scores.

use std::collections::btree_map::Entry;
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
use api::cluster::v1beta1::{Placement, PlacementDecision, PlacementSpec};
use api::names::{DECISION_GROUP_INDEX_LABEL, DECISION_GROUP_NAME_LABEL};

/// What all expressions of a placement may spend on all clusters together: 8 s at most. Tests come to the limit with less.
const MAX_STEPS_IN_ALL: u64 = if cfg!(test) { 20_000 } else { 2_000_000 };

/// Longest name that fits the label on decisions.
const MAX_NAME: usize = 63;

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
    pub(super) decided: BTreeMap<Id, u32>,
    /// How many published decisions name a cluster, where that is more than one.
    repeated: BTreeMap<Id, u32>,
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
    /// What the expressions spent on each cluster, and on all; nobody is judged any more once that is too much.
    costs: BTreeMap<Id, u64>,
    cost: u64,
    /// Clusters that were not judged for that reason.
    unjudged: Vec<Id>,
    /// Whether clusters were judged, but neither ranked nor compared with the decisions, for that reason.
    is_behind: bool,
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
    /// Forgets everything but whether the placement is due.
    pub fn renew(&mut self) {
        *self = Self { is_due: self.is_due, ..Self::default() };
    }

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
        self.seen_changes = fleet.changes.now();
        self.candidates.resize(fleet.len(), Candidate::default());
        if !self.judge_all(&policy, fleet, &mut touched, now) {
            return;
        }
        let again = std::mem::take(&mut self.is_behind) || again;
        if policy.is_ranked() {
            self.rank(&policy, fleet, &mut touched, again, now);
        }
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
        self.repeated.clear();
        for (slice, decision) in (0..).zip(own) {
            for entry in decision.status.iter().flat_map(|status| &status.decisions) {
                let Some(id) = input.fleet.id(&entry.cluster_name) else { continue };
                match self.decided.entry(id) {
                    Entry::Vacant(place) => _ = place.insert(slice),
                    Entry::Occupied(_) => *self.repeated.entry(id).or_insert(1) += 1,
                }
                if let Some(since) = leaving_since(&entry.reason) {
                    self.leaving.entry(id).or_insert(since);
                }
            }
        }
        let came = self.decided.keys().filter(|id| !before.contains_key(id)).copied();
        let left = before.keys().filter(|id| !self.decided.contains_key(id)).copied();
        came.chain(left).collect()
    }

    /// Passes clusters through the filters; `false` once that has become too expensive.
    fn judge_all(&mut self, policy: &Policy, fleet: &Fleet, touched: &mut Vec<Id>, now: Timestamp) -> bool {
        touched.append(&mut self.unjudged);
        touched.sort_unstable();
        touched.dedup();
        if !self.costs.is_empty() {
            touched.iter().for_each(|id| self.cost -= self.costs.remove(id).unwrap_or_default());
        }
        let mut judged = 0;
        for id in touched.iter() {
            if self.is_too_expensive() {
                break;
            }
            self.judge(policy, fleet, *id, now);
            judged += 1;
        }
        if self.is_too_expensive() {
            self.unjudged = touched.split_off(judged);
            self.is_behind = true;
            return false;
        }
        if self.is_behind {
            *touched = fleet.ids().collect();
        }
        true
    }

    /// Whether the expressions cost too much.
    fn is_too_expensive(&self) -> bool {
        self.cost > MAX_STEPS_IN_ALL
    }

    /// Drops what was found out about clusters.
    fn forget(&mut self) {
        self.candidates.clear();
        self.counts = <[usize; 6]>::default();
        self.ranking.clear();
        self.spread.clear();
        self.deadlines.clear();
        self.due.clear();
        self.amounts.clear();
        self.costs.clear();
        self.cost = 0;
        self.unjudged.clear();
        self.is_behind = false;
        self.scale = Scale::default();
        self.pending = self.decided.keys().copied().collect();
        self.is_stale = true;
    }

    /// Passes a cluster through the filters and notes how far it came.
    fn judge(&mut self, policy: &Policy, fleet: &Fleet, id: Id, now: Timestamp) {
        let mut budget = Budget::default();
        let (verdict, avoid, until) =
            assess(policy, &self.sets, fleet, id, self.decided.contains_key(&id), now, &mut budget);
        let cost = if budget.exhausted { MAX_STEPS_IN_ALL + 1 } else { budget.spent };
        if cost > 0 {
            self.costs.insert(id, cost);
            self.cost += cost;
        }
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

    /// What the placement wants, or why that cannot be followed; `None` before it was first scheduled.
    pub(super) fn policy(&self, placement: &Placement) -> Option<Result<Arc<Policy>, Misconfigured>> {
        let name = placement.metadata.name.as_deref().unwrap_or_default();
        let refusal = if name.len() > MAX_NAME {
            let length = name.len();
            Misconfigured::new(
                "",
                format!("the name has {length} characters, at most {MAX_NAME} fit the label on decisions"),
            )
        } else if self.is_too_expensive() {
            Misconfigured::new("Predicate", "the expressions cost too much to evaluate for every cluster")
        } else {
            return self.policy.clone();
        };
        Some(self.policy.clone()?.and(Err(refusal)))
    }

    /// How many published decisions of the placement name a cluster.
    pub(super) fn own_uses(&self, id: Id) -> u32 {
        self.repeated.get(&id).copied().unwrap_or_else(|| u32::from(self.decided.contains_key(&id)))
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
        if policy.spread.is_empty() {
            policy.wanted.map_or(feasible, |wanted| wanted.min(feasible))
        } else {
            self.spread.len()
        }
    }

    /// How many clusters came exactly this far.
    pub(super) fn count(&self, verdict: Verdict) -> usize {
        self.counts.get(verdict as usize).copied().unwrap_or_default()
    }

    fn is_unsettled(&self, policy: &Policy, fleet: &Fleet, id: Id) -> bool {
        let selected = self.is_selected(policy, fleet, id);
        let Some(slice) = self.decided.get(&id) else { return selected };
        let lane = self.held.get(*slice as usize).and_then(|held| policy.groups.lane_named(&held.group));
        !selected
            || self.leaving.contains_key(&id)
            || fleet.facts(id).map(|facts| policy.groups.lane(facts)) != lane
    }

    /// Whether a change of this cluster may matter; `differs` says whether it differs in more than expressions would see.
    pub fn could_select(&self, fleet: &Fleet, facts: &Facts, differs: bool) -> bool {
        let policy = match &self.policy {
            Some(Ok(policy)) => policy,
            Some(Err(_)) => return false,
            None => return true,
        };
        (differs || policy.reads_everything())
            && self.sets.iter().any(|set| set.contains(facts))
            && (policy.predicates.is_empty()
                || policy.predicates.iter().any(|predicate| predicate.could_match(facts))
                || self.may_be_first_or_last(fleet))
    }

    /// Whether the clusters that changed since the placement was scheduled may be the first or the last its sets have: that is told apart
    /// from sets whose clusters no predicate matches.
    fn may_be_first_or_last(&self, fleet: &Fleet) -> bool {
        self.available() as u64 <= fleet.changes.now() - self.seen_changes
    }

    /// How many clusters are in the sets.
    pub(super) fn available(&self) -> usize {
        [Verdict::Unmatched, Verdict::Tainted, Verdict::Expired, Verdict::Feasible]
            .map(|verdict| self.count(verdict))
            .iter()
            .sum()
    }

    /// Whether the placement looks at scores of this name.
    pub fn reads_score(&self, name: &str) -> bool {
        let policy = match &self.policy {
            Some(Ok(policy)) => policy,
            Some(Err(_)) => return false,
            None => return true,
        };
        let names = |coordinate: &Coordinate| matches!(coordinate, Coordinate::AddOn { resource, .. } if resource == name);
        policy.reads_everything() || policy.weights.iter().any(|(coordinate, _)| names(coordinate))
    }

    /// When the next cluster must be judged again.
    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, _)| *at)
    }
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
    let (Some(cluster), Some(facts)) = (fleet.cluster(id), fleet.facts(id)) else {
        return (Verdict::Gone, false, None);
    };
    if facts.is_leaving {
        return (Verdict::Gone, false, None);
    }
    if !sets.iter().any(|set| set.contains(facts)) {
        return (Verdict::Outside, false, None);
    }
    let scores = || fleet.valid_scores(id, now);
    let until = if policy.reads_everything() { fleet.scores_until(id, now) } else { None };
    if !policy.predicates.is_empty()
        && !policy.predicates.iter().any(|predicate| predicate.matches((cluster, facts), &scores, budget))
    {
        return (Verdict::Unmatched, false, until);
    }
    let taints = if facts.is_tainted { cluster.spec.taints.as_slice() } else { &[] };
    match taint::check(&policy.tolerations, taints, decided, now) {
        Ok(tolerated) => {
            (Verdict::Feasible, tolerated.avoid, [until, tolerated.until].into_iter().flatten().min())
        }
        Err(refused) => {
            (if refused.expired.is_some() { Verdict::Expired } else { Verdict::Tainted }, false, until)
        }
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
