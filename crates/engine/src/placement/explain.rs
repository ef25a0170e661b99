//! Why a placement selects what it selects, cluster by cluster. Computed when somebody asks, from nothing.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use super::filter::cel::Budget;
use super::filter::{Verdict, taint};
use super::fleet::{Fleet, Id};
use super::policy::Policy;
use super::prioritizer::{Coordinate, addon};
use super::schedule::{Input, Schedule};
use super::sets::Members;
use super::standing::Standing;

/// Everything that led to the decisions of a placement. Results and scores are those of Open Cluster Management's debug server.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// `namespace/name`.
    pub placement: String,
    /// Clusters that were left after each filter, in order.
    pub filtered_pipeline_results: Vec<Filtered>,
    /// The scores each prioritizer gave.
    pub prioritize_results: Vec<Prioritized>,
    /// Totals, the best first.
    pub aggregated_scores: Vec<Aggregated>,
    /// Why the spec cannot be followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Why nothing of this is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled: Option<String>,
    /// The sets the placement selects from.
    pub cluster_sets: Vec<String>,
    /// How many clusters it wants; all where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number_of_clusters: Option<usize>,
    /// The conditions as they should be: type, status, reason and message.
    pub conditions: Vec<String>,
    /// Every cluster, by name.
    pub clusters: Vec<Story>,
}

/// Clusters that were left after a filter.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Filtered {
    /// The filters so far.
    pub name: String,
    /// The clusters.
    pub filtered_clusters: Vec<String>,
}

/// The scores of a prioritizer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Prioritized {
    /// The prioritizer.
    pub name: String,
    /// What a score is multiplied with.
    pub weight: i32,
    /// Score by cluster.
    pub scores: BTreeMap<String, i64>,
}

/// A cluster's total.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Aggregated {
    /// The cluster.
    pub cluster_name: String,
    /// The total.
    pub score: i64,
}

/// What became of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Story {
    /// The cluster.
    pub cluster_name: String,
    /// In one word: Selected, Arriving, Leaving, Outranked, or what removed it.
    pub state: &'static str,
    /// Why, in a sentence.
    pub why: String,
    /// The decision it is published in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    /// Its place among the feasible clusters, from 1, where scores count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<usize>,
    /// The score of each prioritizer that has one, in the order of their names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub scores: BTreeMap<String, i64>,
    /// Prioritizers that have no score for it, and why; each counts 0, and the cluster comes after all that have theirs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unscored: Vec<String>,
    /// Sum of scores times weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<i64>,
}

/// Explains what [`schedule`](super::schedule()) does with the same input.
pub fn explain(input: &Input<'_>, now: Timestamp) -> Explanation {
    let mut standing = Standing::default();
    let schedule = standing.schedule(input, now);
    let meta = &input.placement.metadata;
    let mut explanation = Explanation {
        placement: format!(
            "{}/{}",
            meta.namespace.as_deref().unwrap_or_default(),
            meta.name.as_deref().unwrap_or_default()
        ),
        cluster_sets: input.eligible().filter_map(|set| set.metadata.name.clone()).collect(),
        conditions: conditions(&schedule),
        ..Explanation::default()
    };
    let policy = match standing.policy(input.placement) {
        Some(Ok(policy)) => policy,
        Some(Err(e)) => {
            explanation.error = Some(e.to_string());
            explanation.clusters = kept(&standing, input.fleet);
            return explanation;
        }
        None => return explanation,
    };
    standing.rescale_all(&policy, input.fleet);
    explanation.number_of_clusters = policy.wanted;
    explanation.prioritize_results = prioritized(&policy);
    let mut predicated = Filtered { name: "Predicate".into(), ..Filtered::default() };
    let mut tolerated = Filtered { name: "Predicate,TaintToleration".into(), ..Filtered::default() };
    for id in input.fleet.ids() {
        let verdict = standing.verdict(id);
        if verdict == Verdict::Gone
            && !standing.decided.contains_key(&id)
            && input.fleet.cluster(id).is_none()
        {
            continue;
        }
        let name = input.fleet.name(id).to_owned();
        if verdict > Verdict::Unmatched {
            predicated.filtered_clusters.push(name.clone());
        }
        if verdict == Verdict::Feasible {
            tolerated.filtered_clusters.push(name.clone());
            let total = score(&standing, &policy, input.fleet, id, now, &mut explanation.prioritize_results);
            explanation.aggregated_scores.push(Aggregated { cluster_name: name, score: total });
        }
        explanation.clusters.push(story(&standing, &policy, input, id, now));
    }
    explanation
        .aggregated_scores
        .sort_by(|a, b| b.score.cmp(&a.score).then_with(|| a.cluster_name.cmp(&b.cluster_name)));
    explanation.filtered_pipeline_results = vec![predicated, tolerated];
    explanation
}

/// The clusters whose decisions stay because the spec cannot be followed.
fn kept(standing: &Standing, fleet: &Fleet) -> Vec<Story> {
    let kept = fleet.ids().filter_map(|id| Some((id, standing.decided.get(&id)?)));
    let story = |(id, slice): (Id, &u32)| Story {
        cluster_name: fleet.name(id).to_owned(),
        state: "Kept",
        why: "the spec cannot be followed, so its decision stays".into(),
        decision: standing.held.get(*slice as usize).map(|held| held.name.clone()),
        ..Story::default()
    };
    kept.map(story).collect()
}

fn conditions(schedule: &Schedule) -> Vec<String> {
    schedule
        .status
        .conditions
        .iter()
        .map(|c| format!("{}={} {}: {}", c.type_, c.status, c.reason, c.message))
        .collect()
}

fn prioritized(policy: &Policy) -> Vec<Prioritized> {
    let one = |(coordinate, weight): &(Coordinate, i32)| Prioritized {
        name: coordinate.to_string(),
        weight: *weight,
        scores: BTreeMap::new(),
    };
    policy.weights.iter().map(one).collect()
}

/// Adds a cluster's scores to those of the others; returns its total.
fn score(
    standing: &Standing,
    policy: &Policy,
    fleet: &Fleet,
    id: Id,
    now: Timestamp,
    results: &mut [Prioritized],
) -> i64 {
    let mut results = results.iter_mut();
    let scored = standing.score_each(policy, fleet, id, now, |score| {
        if let (Some(result), Some(score)) = (results.next(), score) {
            result.scores.insert(fleet.name(id).to_owned(), score);
        }
    });
    i64::from(scored.total)
}

fn story(standing: &Standing, policy: &Policy, input: &Input<'_>, id: Id, now: Timestamp) -> Story {
    let fleet = input.fleet;
    let slice = standing.decided.get(&id).and_then(|slice| standing.held.get(*slice as usize));
    let selected = standing.is_selected(policy, fleet, id);
    let mut story = Story {
        cluster_name: fleet.name(id).to_owned(),
        decision: slice.map(|held| held.name.clone()),
        rank: standing.ranking.iter().position(|other| *other == id).map(|place| place + 1),
        ..Story::default()
    };
    if standing.verdict(id) == Verdict::Feasible {
        let mut coordinates = policy.weights.iter();
        let scored = standing.score_each(policy, fleet, id, now, |score| {
            if let (Some((coordinate, _)), Some(score)) = (coordinates.next(), score) {
                story.scores.insert(coordinate.to_string(), score);
            }
        });
        story.total = Some(i64::from(scored.total));
        story.unscored = unscored(policy, fleet, id, now);
    }
    let (state, why) = reason(standing, policy, input, id, now, selected);
    (story.state, story.why) = match (selected, slice.is_some()) {
        (true, true) => ("Selected", why),
        (true, false) => ("Arriving", why),
        (false, true) => ("Leaving", why),
        (false, false) => (state, why),
    };
    story
}

/// The prioritizers that have no score for a cluster.
fn unscored(policy: &Policy, fleet: &Fleet, id: Id, now: Timestamp) -> Vec<String> {
    let lacking = policy.weights.iter().filter_map(|(coordinate, _)| match coordinate {
        Coordinate::AddOn { resource, score } => match addon::read(fleet.scores(id, resource), score, now) {
            addon::Score::Valid(..) => None,
            addon::Score::Expired(at) => Some(format!("{coordinate} expired at {at}")),
            addon::Score::Missing => Some(format!("{coordinate} is missing")),
        },
        Coordinate::Balance | Coordinate::Steady | Coordinate::Allocatable(_) => None,
    });
    lacking.collect()
}

/// What removed a cluster, or why nothing did.
fn reason(
    standing: &Standing,
    policy: &Policy,
    input: &Input<'_>,
    id: Id,
    now: Timestamp,
    selected: bool,
) -> (&'static str, String) {
    let fleet = input.fleet;
    let cluster = fleet.cluster(id);
    match (standing.verdict(id), cluster) {
        (_, None) => ("Gone", "there is no such cluster".into()),
        (Verdict::Gone, Some(_)) => ("Gone", "the cluster is being deleted".into()),
        (Verdict::Outside, Some(_)) => {
            let names: Vec<&str> = standing.sets.iter().map(Members::name).collect();
            let why = if names.is_empty() {
                "no cluster set can be used".into()
            } else {
                format!("it is in none of the cluster sets [{}]", names.join(","))
            };
            ("Outside", why)
        }
        (Verdict::Unmatched, Some(cluster)) => {
            let facts = fleet.facts(id).cloned().unwrap_or_default();
            let scores = || fleet.valid_scores(id, now);
            let mut budget = Budget::default();
            let mismatches = policy
                .predicates
                .iter()
                .filter_map(|predicate| predicate.mismatch((cluster, &facts), &scores, &mut budget));
            ("Predicate", mismatches.collect::<Vec<_>>().join("; "))
        }
        (Verdict::Tainted | Verdict::Expired, Some(cluster)) => {
            let refused = taint::check(
                &policy.tolerations,
                &cluster.spec.taints,
                standing.decided.contains_key(&id),
                now,
            )
            .err();
            let why = refused.map(|refused| {
                let taint = refused.taint;
                let expired = refused.expired.map(|at| format!(" since {at}")).unwrap_or_default();
                let value = if taint.value.is_empty() { String::new() } else { format!("={}", taint.value) };
                format!("taint {}{value}:{} is not tolerated{expired}", taint.key, taint.effect)
            });
            ("TaintToleration", why.unwrap_or_default())
        }
        (Verdict::Feasible, Some(_)) if selected => (
            "Selected",
            "it is feasible".to_owned() + if policy.wanted.is_some() { " and ranks high enough" } else { "" },
        ),
        (Verdict::Feasible, Some(_)) if !policy.spread.is_empty() => {
            ("Outranked", "the spread constraints or better clusters left no place for it".into())
        }
        (Verdict::Feasible, Some(_)) => {
            ("Outranked", format!("only the best {} are wanted", policy.wanted.unwrap_or_default()))
        }
    }
}
