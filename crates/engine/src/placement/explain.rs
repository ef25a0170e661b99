//! Explains a placement cluster by cluster. Explanations are computed on request, without the cache.

use std::collections::BTreeMap;
use std::fmt::{Display, Formatter};

use jiff::Timestamp;
use serde::Serialize;

use super::filter::cel::StepBudget;
use super::filter::{FilterResult, taint};
use super::fleet::Id;
use super::input::{Cycle, ScheduleInput};
use super::prioritizer::{Score, measure};
use super::published::Published;
use super::rank::{scores, total};
use super::schedule::{Schedule, schedule};
use super::select::{CycleSelection, select};
use super::sets::SetMembers;

/// The decisions of a placement, stage by stage. Results and scores match OCM's debug server.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// `namespace/name`.
    pub placement: String,
    /// The clusters that pass each filter, in order.
    pub filtered_pipeline_results: Vec<Filtered>,
    /// The scores from each prioritizer.
    pub prioritize_results: Vec<Prioritized>,
    /// The total scores, best first.
    pub aggregated_scores: Vec<Aggregated>,
    /// The reason that the spec is invalid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The reason that the placement is not scheduled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled: Option<String>,
    /// The cluster sets from which the placement selects.
    pub cluster_sets: Vec<String>,
    /// The number of requested clusters; absent for all feasible clusters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number_of_clusters: Option<usize>,
    /// The conditions: type, status, reason and message.
    pub conditions: Vec<String>,
    /// The explanations of all clusters, by name.
    pub clusters: Vec<ClusterExplanation>,
}

/// The clusters that pass a filter.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Filtered {
    /// The filters up to this point.
    pub name: String,
    /// The names of the clusters.
    pub filtered_clusters: Vec<String>,
}

/// The scores of a prioritizer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Prioritized {
    /// The name of the prioritizer.
    pub name: String,
    /// The weight of its scores.
    pub weight: i32,
    /// The scores by cluster.
    pub scores: BTreeMap<String, i64>,
}

/// The total score of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Aggregated {
    /// The name of the cluster.
    pub cluster_name: String,
    /// The total score.
    pub score: i64,
}

/// The explanation of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterExplanation {
    /// The name of the cluster.
    pub cluster_name: String,
    /// The state: selected, or what prevents the selection.
    pub state: SchedulingState,
    /// The reason, as a sentence.
    pub why: String,
    /// The PlacementDecision in which the cluster is published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    /// The rank among the feasible clusters, from 1, if clusters are ranked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<usize>,
    /// The scores from prioritizers that have one, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub scores: BTreeMap<String, i64>,
    /// The prioritizers without a valid score for the cluster, and the reasons. Such a cluster ranks after all
    /// clusters with valid scores.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unscored: Vec<String>,
    /// The sum of the weighted scores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<i64>,
    /// The time at which the first toleration that it needs expires, if one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerated_until: Option<Timestamp>,
}

/// The state of a cluster in a placement, in display order: decided clusters first, then the others, the closest
/// to a selection first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum SchedulingState {
    /// The cluster is selected and in a decision.
    #[default]
    Selected,
    /// The cluster is selected but not in a decision yet.
    Arriving,
    /// The spec is invalid, so the decision is kept.
    Kept,
    /// The cluster is in a decision but no longer selected.
    Leaving,
    /// The cluster is feasible, but others rank higher.
    Outranked,
    /// The cluster has a taint that the placement does not tolerate.
    TaintToleration,
    /// The cluster does not match the predicates.
    Predicate,
    /// The cluster is in none of the cluster sets.
    Outside,
    /// The cluster does not exist, or is being deleted.
    Gone,
}

impl SchedulingState {
    /// Returns the name of the state.
    fn as_str(self) -> &'static str {
        match self {
            Self::Selected => "Selected",
            Self::Arriving => "Arriving",
            Self::Kept => "Kept",
            Self::Leaving => "Leaving",
            Self::Outranked => "Outranked",
            Self::TaintToleration => "TaintToleration",
            Self::Predicate => "Predicate",
            Self::Outside => "Outside",
            Self::Gone => "Gone",
        }
    }
}

impl Display for SchedulingState {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

impl Explanation {
    /// Returns the clusters by state, each group sorted by rank and then by name.
    pub fn by_state(&self) -> BTreeMap<SchedulingState, Vec<&ClusterExplanation>> {
        let mut by_state: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for explained in &self.clusters {
            by_state.entry(explained.state).or_default().push(explained);
        }
        for clusters in by_state.values_mut() {
            clusters.sort_by_key(|explained| explained.rank);
        }
        by_state
    }
}

/// Prints the reason for the state, and the rank of the cluster.
impl Display for ClusterExplanation {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Self { cluster_name: _, state: _, why, decision, rank, scores, unscored, total, tolerated_until } =
            self;
        write!(f, "{why}")?;
        if let Some(decision) = decision {
            write!(f, "; in {decision}")?;
        }
        if let Some(rank) = rank {
            write!(f, "; rank {rank}")?;
        }
        if let Some(total) = total {
            let scores = scores.iter().map(|(name, score)| format!("{name} {score}"));
            let scores: Vec<_> = scores.chain(unscored.iter().cloned()).collect();
            write!(f, "; score {total} ({})", scores.join(", "))?;
        }
        if let Some(at) = tolerated_until {
            write!(f, "; its taints are tolerated until {at}")?;
        }
        Ok(())
    }
}

/// Explains the result of [`schedule`](super::schedule()) for the same input.
pub fn explain(input: &ScheduleInput<'_>, now: Timestamp) -> Explanation {
    let published = Published::read(input.decisions, input.fleet);
    let sets = input.sets();
    let meta = &input.placement.metadata;
    let (namespace, name) = (meta.namespace.as_deref(), meta.name.as_deref());
    let explanation = Explanation {
        placement: format!("{}/{}", namespace.unwrap_or_default(), name.unwrap_or_default()),
        cluster_sets: sets.iter().map(|set| set.name().to_owned()).collect(),
        conditions: conditions(&schedule(input, now)),
        ..Explanation::default()
    };
    let explained = input.policy().and_then(|policy| {
        let cycle = Cycle { policy: &policy, sets: &sets, fleet: input.fleet, published: &published, now };
        let mut selection = select(&cycle, input.max_steps)?;
        if !policy.is_ranked() {
            let feasible: Vec<Id> = selection.feasible(input.fleet).collect();
            selection.ranges = measure(&cycle, &feasible);
        }
        Ok(explain_cycle(&cycle, &selection, explanation.clone()))
    });
    explained.unwrap_or_else(|refusal| Explanation {
        error: Some(refusal.to_string()),
        clusters: kept_decisions(input, &published),
        ..explanation
    })
}

fn explain_cycle(cycle: &Cycle<'_>, selection: &CycleSelection, mut explanation: Explanation) -> Explanation {
    explanation.number_of_clusters = cycle.policy.wanted;
    let weights = cycle.policy.weights.iter();
    explanation.prioritize_results = weights
        .map(|weighted| Prioritized {
            name: weighted.to_string(),
            weight: weighted.weight,
            scores: BTreeMap::new(),
        })
        .collect();
    let ranks: BTreeMap<Id, usize> = selection.ranking.iter().copied().zip(1..).collect();
    let mut predicated = Filtered { name: "Predicate".into(), ..Filtered::default() };
    let mut tolerated = Filtered { name: "Predicate,TaintToleration".into(), ..Filtered::default() };
    for id in
        cycle.fleet.ids().filter(|id| cycle.fleet.cluster(*id).is_some() || cycle.published.contains(*id))
    {
        let name = cycle.fleet.name(id);
        if selection.result(id) > FilterResult::Unmatched {
            predicated.filtered_clusters.push(name.to_owned());
        }
        if selection.is_feasible(id) {
            tolerated.filtered_clusters.push(name.to_owned());
            for (result, (_, score)) in
                explanation.prioritize_results.iter_mut().zip(scores(cycle, &selection.ranges, id))
            {
                result.scores.extend(score.value().map(|value| (name.to_owned(), value)));
            }
            let score = i64::from(total(cycle, &selection.ranges, id).value);
            explanation.aggregated_scores.push(Aggregated { cluster_name: name.to_owned(), score });
        }
        explanation
            .clusters
            .push(ClusterExplanation { rank: ranks.get(&id).copied(), ..explained(cycle, selection, id) });
    }
    explanation
        .aggregated_scores
        .sort_by(|a, b| b.score.cmp(&a.score).then_with(|| a.cluster_name.cmp(&b.cluster_name)));
    explanation.filtered_pipeline_results = vec![predicated, tolerated];
    explanation
}

/// Returns the clusters whose decisions are kept because the spec is invalid.
fn kept_decisions(input: &ScheduleInput<'_>, published: &Published) -> Vec<ClusterExplanation> {
    let explained = |id: Id| {
        Some(ClusterExplanation {
            cluster_name: input.fleet.name(id).to_owned(),
            state: SchedulingState::Kept,
            why: "the spec is invalid, so its decision is kept".into(),
            decision: Some(published.slice_of(id)?.name.clone()),
            ..ClusterExplanation::default()
        })
    };
    input.fleet.ids().filter_map(explained).collect()
}

fn conditions(schedule: &Schedule) -> Vec<String> {
    let conditions = schedule.status.conditions.iter();
    conditions.map(|c| format!("{}={} {}: {}", c.type_, c.status, c.reason, c.message)).collect()
}

fn explained(cycle: &Cycle<'_>, selection: &CycleSelection, id: Id) -> ClusterExplanation {
    let slice = cycle.published.slice_of(id);
    let selected = selection.is_selected(cycle, id);
    let mut explained = ClusterExplanation {
        cluster_name: cycle.fleet.name(id).to_owned(),
        decision: slice.map(|slice| slice.name.clone()),
        ..ClusterExplanation::default()
    };
    if selection.is_feasible(id) {
        explained.total = Some(i64::from(total(cycle, &selection.ranges, id).value));
        explained.tolerated_until = tolerated_until(cycle, id);
        for (weighted, score) in scores(cycle, &selection.ranges, id) {
            match score {
                Score::Valid { value, until: _ } => _ = explained.scores.insert(weighted.to_string(), value),
                Score::Unreported => {}
                Score::Missing => explained.unscored.push(format!("{weighted} is missing")),
                Score::Expired(at) => explained.unscored.push(format!("{weighted} expired at {at}")),
            }
        }
    }
    let (state, why) = reason(cycle, selection, id, selected);
    explained.why = why;
    explained.state = match (selected, slice.is_some()) {
        (true, true) => SchedulingState::Selected,
        (true, false) => SchedulingState::Arriving,
        (false, true) => SchedulingState::Leaving,
        (false, false) => state,
    };
    explained
}

fn tolerated_until(cycle: &Cycle<'_>, id: Id) -> Option<Timestamp> {
    let Cycle { policy, fleet, published, now, .. } = *cycle;
    let taints = &fleet.cluster(id)?.spec.taints;
    taint::check(&policy.tolerations, taints, published.contains(id), now).ok()?.until
}

/// Returns the filter that removed a cluster, or the reason that it is selected.
fn reason(
    cycle: &Cycle<'_>,
    selection: &CycleSelection,
    id: Id,
    selected: bool,
) -> (SchedulingState, String) {
    let Cycle { policy, fleet, .. } = *cycle;
    let Some(cluster) = fleet.cluster(id) else {
        return (SchedulingState::Gone, "there is no such cluster".into());
    };
    match selection.result(id) {
        FilterResult::Gone => (SchedulingState::Gone, "the cluster is being deleted".into()),
        FilterResult::Outside => {
            let names: Vec<&str> = cycle.sets.iter().map(SetMembers::name).collect();
            let reason = if names.is_empty() {
                "no cluster set can be used".into()
            } else {
                format!("it is not in any of these cluster sets: {}", names.join(", "))
            };
            (SchedulingState::Outside, reason)
        }
        FilterResult::Unmatched => {
            let attributes = fleet.attributes(id).cloned().unwrap_or_default();
            let scores = || fleet.valid_scores(id, cycle.now);
            let mut budget = StepBudget::default();
            let predicates = policy.predicates.iter();
            let mismatches = predicates
                .filter_map(|predicate| predicate.mismatch(cluster, &attributes, &scores, &mut budget));
            (SchedulingState::Predicate, mismatches.collect::<Vec<_>>().join("; "))
        }
        FilterResult::Tainted | FilterResult::Expired => {
            let decided = cycle.published.contains(id);
            let refused = taint::check(&policy.tolerations, &cluster.spec.taints, decided, cycle.now).err();
            (
                SchedulingState::TaintToleration,
                refused.map(|refused| untolerated(&refused)).unwrap_or_default(),
            )
        }
        FilterResult::Feasible if selected => {
            let and = if policy.wanted.is_some() { " and ranks high enough" } else { "" };
            (SchedulingState::Selected, format!("it is feasible{and}"))
        }
        FilterResult::Feasible if !policy.spread.is_empty() => (
            SchedulingState::Outranked,
            "the spread constraints and higher-ranked clusters left no place for it".into(),
        ),
        FilterResult::Feasible => (
            SchedulingState::Outranked,
            format!("only the best {} are selected", policy.wanted.unwrap_or_default()),
        ),
    }
}

fn untolerated(refused: &taint::Untolerated<'_>) -> String {
    let taint = refused.taint;
    let expired = refused.expired.map(|at| format!(" since {at}")).unwrap_or_default();
    let value = if taint.value.is_empty() { String::new() } else { format!("={}", taint.value) };
    format!("taint {}{value}:{} is not tolerated{expired}", taint.key, taint.effect)
}
