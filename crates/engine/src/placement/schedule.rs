//! From the filters to the writes: what becomes of a placement now.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp, Unit};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::filter::Verdict;
use super::fleet::{Fleet, Id};
use super::layout::{Held, Request, Slice, Wish, lay_out};
use super::policy::Policy;
use super::prioritizer::{Coordinate, addon};
use super::publish::{Labels, Target, Write, publish};
use super::sets::Members;
use super::standing::Standing;
use api::cluster::v1beta1::{
    ClusterDecision, DecisionGroupStatus, Placement, PlacementDecision, PlacementStatus,
};
use api::cluster::v1beta2::ManagedClusterSet;
use api::condition::ConditionStatus::{self, False, True};
use api::condition::{Observation, find_condition, set_condition};
use api::names::placement_conditions::{MISCONFIGURED, SATISFIED};

/// How long a cluster must have been unselected before it leaves the decisions.
pub const SETTLE: SignedDuration = SignedDuration::from_secs(10);
/// How the reason of a decision begins whose cluster is about to leave; the time since when follows.
pub const LEAVING: &str = "leaving since ";
/// Length of the list of clusters in an event, as in Open Cluster Management.
const SCORE_TEXT: usize = 1000;
const UNMATCHED: &str = "No ManagedCluster matches any of the cluster predicate";

/// What scheduling one placement reads.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The placement.
    pub placement: &'a Placement,
    /// The sets bound to its namespace that exist, in the order of their names.
    pub bound: &'a [Arc<ManagedClusterSet>],
    /// Its published decisions.
    pub decisions: &'a [Arc<PlacementDecision>],
    /// The clusters.
    pub fleet: &'a Fleet,
}

impl<'a> Input<'a> {
    /// The bound sets the placement asks for.
    pub fn eligible(&self) -> impl Iterator<Item = &'a Arc<ManagedClusterSet>> + use<'a> {
        let asked = &self.placement.spec.cluster_sets;
        let name = |set: &ManagedClusterSet| set.metadata.name.clone().unwrap_or_default();
        self.bound.iter().filter(move |set| asked.is_empty() || asked.contains(&name(set)))
    }
}

/// What should be written about a placement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schedule {
    /// Writes to its decisions: steps, each to be finished before the next begins.
    pub steps: Vec<Vec<Write>>,
    /// Its status, once the steps are done.
    pub status: PlacementStatus,
    /// What to tell people.
    pub events: Vec<Event>,
    /// When to schedule again although nothing has changed.
    pub wake_at: Option<Timestamp>,
}

/// Something to tell people about a placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Whether somebody should look.
    pub is_warning: bool,
    /// What happened.
    pub reason: &'static str,
    /// What was done.
    pub action: &'static str,
    /// The decision it was done to.
    pub decision: String,
    /// A sentence.
    pub message: String,
}

/// Schedules a placement from nothing.
pub fn schedule(input: &Input<'_>, now: Timestamp) -> Schedule {
    Standing::default().schedule(input, now)
}

/// Since when a decision's cluster has been leaving.
pub(super) fn leaving_since(reason: &str) -> Option<Timestamp> {
    reason.strip_prefix(LEAVING)?.parse().ok()
}

impl Standing {
    /// Schedules a placement on top of what is known of it.
    pub fn schedule(&mut self, input: &Input<'_>, now: Timestamp) -> Schedule {
        self.sync(input, now);
        let mut schedule =
            Schedule { status: input.placement.status.clone().unwrap_or_default(), ..Schedule::default() };
        let Some(policy) = self.policy(input.placement) else { return schedule };
        match policy {
            Ok(policy) => {
                let published = match self.decide(&policy, input, now, &mut schedule) {
                    Some(slices) => count(&mut schedule.status, slices.iter().map(Counted::slice)),
                    None => count(&mut schedule.status, self.held.iter().map(Counted::held)),
                };
                let configured = Observation::new(MISCONFIGURED, False, "Succeedconfigured")
                    .message("Placement configurations check pass");
                set_condition(&mut schedule.status.conditions, configured, now);
                let (status, reason, message) = self.satisfied(&policy, input, published);
                set_condition(
                    &mut schedule.status.conditions,
                    Observation::new(SATISFIED, status, reason).message(message),
                    now,
                );
                schedule.wake_at = [schedule.wake_at, self.next_deadline()].into_iter().flatten().min();
            }
            Err(e) => {
                count(&mut schedule.status, self.held.iter().map(Counted::held));
                let message = format!("{e}; the decisions stay as they are");
                set_condition(
                    &mut schedule.status.conditions,
                    Observation::new(MISCONFIGURED, True, "Misconfigured").message(message),
                    now,
                );
                if find_condition(&schedule.status.conditions, SATISFIED).is_none() {
                    let unmatched =
                        Observation::new(SATISFIED, False, "NoManagedClusterMatched").message(UNMATCHED);
                    set_condition(&mut schedule.status.conditions, unmatched, now);
                }
            }
        }
        schedule
    }

    /// Decides which clusters are in which slices, `None` where that is as published; fills the writes, the events and the time to wake.
    fn decide(
        &mut self,
        policy: &Policy,
        input: &Input<'_>,
        now: Timestamp,
        schedule: &mut Schedule,
    ) -> Option<Vec<Slice>> {
        let rescore_at = self.rescore_at(policy, input, now);
        let rescores = rescore_at.is_some_and(|at| at <= now);
        schedule.wake_at = rescore_at.filter(|_| !rescores);
        if !self.is_stale && self.pending.is_empty() && !rescores {
            return None;
        }
        let fleet = input.fleet;
        self.rescale_all(policy, fleet);
        let leaving = self.leave(policy, input, now, schedule);
        let arriving = self
            .pending
            .iter()
            .filter(|id| !self.decided.contains_key(id) && self.is_selected(policy, fleet, **id));
        let staying = self.decided.keys().filter(|id| !leaving.contains_key(id));
        let mut members: Vec<Id> = arriving
            .chain(staying)
            .chain(leaving.iter().filter_map(|(id, since)| since.map(|_| id)))
            .copied()
            .collect();
        if policy.by_score {
            let places: BTreeMap<Id, usize> =
                self.ranking.iter().enumerate().map(|(place, id)| (*id, place)).collect();
            members.sort_by_key(|id| (places.get(id).copied().unwrap_or(usize::MAX), fleet.name(*id)));
        } else {
            members.sort_by_key(|id| fleet.name(*id));
        }
        let lane = |id: Id| match (leaving.contains_key(&id), fleet.facts(id)) {
            (false, Some(facts)) => policy.groups.lane(facts),
            (true, _) | (_, None) => self.lane_of_slice(policy, id),
        };
        let wishes: BTreeMap<&str, Wish> = members
            .iter()
            .enumerate()
            .map(|(order, id)| (fleet.name(*id), Wish { lane: lane(*id), order }))
            .collect();
        // Those who wait for the place of one that leaves do not make groups larger.
        let places = policy.wanted.map_or(usize::MAX, |wanted| wanted.max(self.decided.len()));
        let size = policy.group_size.of(wishes.len().min(places));
        let spare = policy.wanted.map_or(usize::MAX, |wanted| wanted.saturating_sub(self.decided.len()));
        let placement = input.placement.metadata.name.as_deref().unwrap_or_default();
        let groups = policy.groups.names.iter().map(String::as_str).collect();
        let slices = lay_out(&Request { placement, groups, size, wishes, spare }, &self.held);
        let targets: Vec<Target> = slices
            .into_iter()
            .map(|slice| self.target(policy, input, slice, &leaving, rescores, now))
            .collect();
        schedule.steps = publish(&self.held, &targets);
        self.is_stale = !schedule.steps.is_empty();
        if policy.by_score
            && schedule.steps.iter().flatten().any(|write| matches!(write, Write::Decide { .. }))
        {
            schedule.status.last_score_update_time = Some(Time(now.round(Unit::Second).unwrap_or(now)));
        }
        self.tell(policy, input, now, schedule);
        Some(targets.into_iter().map(|target| target.slice).collect())
    }

    /// Who is in the decisions and should not be: since when, or `None` where it goes now.
    fn leave(
        &self,
        policy: &Policy,
        input: &Input<'_>,
        now: Timestamp,
        schedule: &mut Schedule,
    ) -> BTreeMap<Id, Option<Timestamp>> {
        let frozen = self.sets.iter().any(|set| matches!(set, Members::Unknown(..)));
        let mut leaving = BTreeMap::new();
        for id in self
            .pending
            .iter()
            .filter(|id| self.decided.contains_key(id) && !self.is_selected(policy, input.fleet, **id))
        {
            let (at_once, held_back) = match self.verdict(*id) {
                Verdict::Gone | Verdict::Expired => (true, false),
                Verdict::Outside => (false, frozen),
                Verdict::Unmatched | Verdict::Tainted | Verdict::Feasible => (false, false),
            };
            if held_back {
                continue;
            }
            let since = self
                .leaving
                .get(id)
                .copied()
                .unwrap_or_else(|| self.unfit_since(policy, input.fleet, *id, now))
                .min(now);
            let since = since.round(Unit::Second).unwrap_or(since);
            let end = since.saturating_add(SETTLE).unwrap_or(Timestamp::MAX);
            let stays = !at_once && now < end;
            if stays {
                schedule.wake_at = Some(schedule.wake_at.map_or(end, |earlier| earlier.min(end)));
            }
            leaving.insert(*id, stays.then_some(since));
        }
        leaving
    }

    /// Since when a cluster does not fit: since its taint was added, as far as is known.
    fn unfit_since(&self, policy: &Policy, fleet: &Fleet, id: Id, now: Timestamp) -> Timestamp {
        if self.verdict(id) != Verdict::Tainted {
            return now;
        }
        let taints = fleet.cluster(id).map(|cluster| cluster.spec.taints.as_slice()).unwrap_or_default();
        let refused = super::filter::taint::check(&policy.tolerations, taints, true, now).err();
        let added = refused.and_then(|refused| refused.taint.time_added.as_ref().map(|time| time.0));
        added.map_or(now, |added| added.min(now))
    }

    fn lane_of_slice(&self, policy: &Policy, id: Id) -> usize {
        let held = self.decided.get(&id).and_then(|slice| self.held.get(*slice as usize));
        let group = held.map(|held| held.group.as_str()).unwrap_or_default();
        policy.groups.lane_named(group).unwrap_or(policy.groups.names.len())
    }

    /// What a slice's entries should say, and whether the published ones say otherwise.
    fn target(
        &self,
        policy: &Policy,
        input: &Input<'_>,
        slice: Slice,
        leaving: &BTreeMap<Id, Option<Timestamp>>,
        rescores: bool,
        now: Timestamp,
    ) -> Target {
        let entry = |name: &String| {
            let id = input.fleet.id(name);
            let since = id.and_then(|id| leaving.get(&id)).copied().flatten();
            let feasible = id.filter(|id| self.verdict(*id) == Verdict::Feasible);
            ClusterDecision {
                cluster_name: name.clone(),
                reason: since.map(|since| format!("{LEAVING}{since}")).unwrap_or_default(),
                score: feasible.map(|id| i64::from(self.scored(policy, input.fleet, id, now).total)),
                ..ClusterDecision::default()
            }
        };
        let published =
            input.decisions.iter().find(|decision| decision.metadata.name.as_ref() == Some(&slice.name));
        let published = published.and_then(|decision| decision.status.as_ref());
        let decisions: Vec<ClusterDecision> = slice.members.iter().map(entry).collect();
        let changed = match published {
            None => true,
            Some(status) if rescores => status.decisions != decisions,
            Some(status) => {
                let said = |entries: &[ClusterDecision]| -> BTreeSet<(String, String)> {
                    entries.iter().map(|entry| (entry.cluster_name.clone(), entry.reason.clone())).collect()
                };
                status.decisions.len() != decisions.len() || said(&status.decisions) != said(&decisions)
            }
        };
        Target { slice, decisions, changed }
    }

    /// Whether decisions that are ordered by score must be written because scores have changed: since when that is allowed.
    fn rescore_at(&self, policy: &Policy, input: &Input<'_>, now: Timestamp) -> Option<Timestamp> {
        let entries = input
            .decisions
            .iter()
            .flat_map(|decision| decision.status.iter().flat_map(|status| &status.decisions));
        let is_stale = |entry: &ClusterDecision| {
            let id = input.fleet.id(&entry.cluster_name).filter(|id| self.verdict(*id) == Verdict::Feasible);
            entry.score != id.map(|id| i64::from(self.scored(policy, input.fleet, id, now).total))
        };
        if !policy.by_score || !entries.into_iter().any(is_stale) {
            return None;
        }
        let last = input.placement.status.as_ref().and_then(|status| status.last_score_update_time.as_ref());
        Some(last.map_or(now, |last| last.0.saturating_add(policy.score_interval).unwrap_or(Timestamp::MAX)))
    }

    /// Fills the events the writes call for.
    fn tell(&self, policy: &Policy, input: &Input<'_>, now: Timestamp, schedule: &mut Schedule) {
        let meta = &input.placement.metadata;
        let (placement, namespace) =
            (meta.name.as_deref().unwrap_or_default(), meta.namespace.as_deref().unwrap_or_default());
        let mut told = BTreeSet::new();
        let mut say = |is_warning: bool,
                       (reason, action): (&'static str, &'static str),
                       decision: &str,
                       message: String| {
            if told.insert(message.clone()) {
                schedule.events.push(Event {
                    is_warning,
                    reason,
                    action,
                    decision: decision.to_owned(),
                    message,
                });
            }
        };
        let is_update = |write: &Write| matches!(write, Write::Decide { .. });
        let warning = if schedule.steps.iter().flatten().any(is_update) {
            self.warning(policy, input.fleet, now)
        } else {
            None
        };
        let about = |name: &str, verb: &str| {
            format!("Decision {name} is {verb} with placement {placement} in namespace {namespace}")
        };
        let (create, update, delete) = (
            ("DecisionCreate", "DecisionCreated"),
            ("DecisionUpdate", "DecisionUpdated"),
            ("DecisionDelete", "DecisionDeleted"),
        );
        let mut updated = None;
        for write in schedule.steps.iter().flatten() {
            match write {
                Write::Create(Labels { name, .. }) => say(false, create, name, about(name, "created")),
                Write::Decide { name, .. } => {
                    updated = updated.or(Some(name));
                    say(
                        warning.is_some(),
                        update,
                        name,
                        about(name, "updated") + warning.as_deref().unwrap_or_default(),
                    );
                }
                Write::Delete { name } => say(false, delete, name, about(name, "deleted")),
                Write::Label(_) => {}
            }
        }
        if let Some(decision) = updated {
            let scores = self.score_text(policy, input.fleet, now);
            if !scores.is_empty() {
                say(false, ("ScoreUpdate", "ScoreUpdated"), decision, scores);
            }
        }
    }

    /// Which scores of feasible clusters have expired; of several prioritizers the last one counts, as in Open Cluster Management.
    fn warning(&self, policy: &Policy, fleet: &Fleet, now: Timestamp) -> Option<String> {
        let warnings = policy.weights.iter().rev().filter_map(|(coordinate, _)| {
            let Coordinate::AddOn { resource, score } = coordinate else { return None };
            let feasible = fleet.ids().filter(|id| self.verdict(*id) == Verdict::Feasible);
            let expired = feasible.filter(|id| {
                matches!(addon::read(fleet.scores(*id, resource), score, now), addon::Score::Expired(_))
            });
            let text = fitting(expired.map(|id| format!(" {}/{resource}", fleet.name(id))));
            (!text.is_empty()).then(|| format!(": AddOnPlacementScores{text} expired in plugin {coordinate}"))
        });
        warnings.into_iter().next()
    }

    /// Totals of the feasible clusters, in the order of names, as far as they fit.
    fn score_text(&self, policy: &Policy, fleet: &Fleet, now: Timestamp) -> String {
        if policy.weights.is_empty() {
            return String::new();
        }
        let feasible = fleet.ids().filter(|id| self.verdict(*id) == Verdict::Feasible);
        fitting(
            feasible.map(|id| format!("{}:{} ", fleet.name(id), self.scored(policy, fleet, id, now).total)),
        )
    }

    /// The condition `PlacementSatisfied`.
    fn satisfied(
        &self,
        policy: &Policy,
        input: &Input<'_>,
        published: usize,
    ) -> (ConditionStatus, &'static str, String) {
        let names = |names: &[&str]| names.join(",");
        if input.bound.is_empty() {
            return (
                False,
                "NoManagedClusterSetBindings",
                "No valid ManagedClusterSetBindings found in placement namespace".into(),
            );
        }
        if self.sets.is_empty() {
            let asked: Vec<&str> = input.placement.spec.cluster_sets.iter().map(String::as_str).collect();
            return (
                False,
                "NoIntersection",
                format!("None of ManagedClusterSets [{}] is bound to placement namespace", names(&asked)),
            );
        }
        if let Some(Members::Unknown(set, why)) =
            self.sets.iter().find(|set| matches!(set, Members::Unknown(..)))
        {
            return (
                False,
                "NotAllDecisionsScheduled",
                format!("ManagedClusterSet {set}: {why}; clusters it may hold keep their decisions"),
            );
        }
        if self.available() == 0 {
            let eligible: Vec<&str> = self.sets.iter().map(Members::name).collect();
            return (
                False,
                "AllManagedClusterSetsEmpty",
                format!("All ManagedClusterSets [{}] have no member ManagedCluster", names(&eligible)),
            );
        }
        let taken = self.selected(policy);
        if taken == 0 {
            // OCM blames the predicates alone, whatever left nothing.
            // See docs/hazards.md#predicates-blamed.
            let message = match self.count(Verdict::Tainted) + self.count(Verdict::Expired) {
                0 => UNMATCHED.into(),
                tainted => format!(
                    "{UNMATCHED} and tolerates its taints; {tainted} match, with taints that are not tolerated"
                ),
            };
            return (False, "NoManagedClusterMatched", message);
        }
        debug_assert!(
            policy.wanted.is_none_or(|wanted| published <= wanted.max(self.decided.len())),
            "more decisions than wanted"
        );
        match policy.wanted.map(|wanted| wanted - taken) {
            None | Some(0) => (True, "AllDecisionsScheduled", "All cluster decisions scheduled".into()),
            Some(missing) => {
                (False, "NotAllDecisionsScheduled", format!("{missing} cluster decisions unscheduled"))
            }
        }
    }
}

/// As many of the words as fit an event.
fn fitting(words: impl Iterator<Item = String>) -> String {
    let mut text = String::new();
    for word in words {
        if text.len() + word.len() > SCORE_TEXT {
            text.push_str("......");
            break;
        }
        text.push_str(&word);
    }
    text
}

/// What the status says of a slice.
struct Counted<'a> {
    name: &'a str,
    index: u32,
    group: &'a str,
    clusters: usize,
}

impl<'a> Counted<'a> {
    fn slice(slice: &'a Slice) -> Self {
        Self { name: &slice.name, index: slice.index, group: &slice.group, clusters: slice.members.len() }
    }

    fn held(held: &'a Held) -> Self {
        Self {
            name: &held.name,
            index: held.index.unwrap_or_default(),
            group: &held.group,
            clusters: held.members.len(),
        }
    }
}

/// Writes the groups and the number of clusters into the status; slices stand in the order of their numbers, 2 before 10.
fn count<'a>(status: &mut PlacementStatus, slices: impl Iterator<Item = Counted<'a>>) -> usize {
    let mut groups: BTreeMap<u32, DecisionGroupStatus> = BTreeMap::new();
    let mut published = 0;
    for Counted { name, index, group, clusters } in slices {
        let status = groups.entry(index).or_default();
        status.decision_group_index = i32::try_from(index).unwrap_or(i32::MAX);
        group.clone_into(&mut status.decision_group_name);
        status.decisions.push(name.to_owned());
        status.cluster_count += i32::try_from(clusters).unwrap_or(i32::MAX);
        published += clusters;
    }
    for group in groups.values_mut() {
        group.decisions.sort_by(|a, b| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
    }
    status.number_of_selected_clusters = groups.values().map(|group| group.cluster_count).sum();
    status.decision_groups = groups.into_values().collect();
    published
}
