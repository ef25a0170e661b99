//! Runs all filters for one cluster.

use jiff::Timestamp;

use super::cel::StepBudget;
use super::{FilterResult, taint};
use crate::placement::fleet::Id;
use crate::placement::input::Cycle;

/// The cost of an evaluation that exceeded its own limit. This is above the limit of any placement.
const EXHAUSTED: u64 = 1 << 40;

/// The result of the filters for one cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Evaluation {
    /// The furthest stage that the cluster reached.
    pub result: FilterResult,
    /// True if the cluster has an untolerated taint `PreferNoSelect`.
    pub avoid: bool,
    /// The time at which the result may change without a change of any object.
    pub until: Option<Timestamp>,
    /// The number of steps of its CEL expressions.
    pub steps: u64,
}

/// Passes a cluster through the filters.
pub(crate) fn evaluate(cycle: &Cycle<'_>, id: Id) -> Evaluation {
    let Cycle { policy, sets, fleet, published, now } = *cycle;
    let gone = Evaluation::default();
    let (Some(cluster), Some(attributes)) = (fleet.cluster(id), fleet.attributes(id)) else { return gone };
    if attributes.is_leaving {
        return gone;
    }
    if !sets.iter().any(|set| set.contains(attributes)) {
        return Evaluation { result: FilterResult::Outside, ..gone };
    }
    let scores = || fleet.valid_scores(id, now);
    let mut budget = StepBudget::default();
    let matches = policy.predicates.is_empty()
        || policy
            .predicates
            .iter()
            .any(|predicate| predicate.matches(cluster, attributes, &scores, &mut budget));
    let steps = if budget.exhausted { EXHAUSTED } else { budget.spent };
    let until = if policy.has_expressions() { fleet.scores_until(id, now) } else { None };
    if !matches {
        return Evaluation { result: FilterResult::Unmatched, until, steps, ..gone };
    }
    let taints = if attributes.is_tainted { cluster.spec.taints.as_slice() } else { &[] };
    match taint::check(&policy.tolerations, taints, published.contains(id), now) {
        Ok(tolerated) => Evaluation {
            result: FilterResult::Feasible,
            avoid: tolerated.avoid,
            until: [until, tolerated.until].into_iter().flatten().min(),
            steps,
        },
        Err(refused) if refused.expired.is_some() => {
            Evaluation { result: FilterResult::Expired, until, steps, ..gone }
        }
        Err(_) => Evaluation { result: FilterResult::Tainted, until, steps, ..gone },
    }
}
