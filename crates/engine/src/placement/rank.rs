//! The prioritize stage: the total score of each feasible cluster, and the order of totals.

use std::cmp::Reverse;

use jiff::Timestamp;

use super::fleet::Id;
use super::input::Cycle;
use super::prioritizer::{Range, Score, ScoreInput, Weighted};

/// The sort key of a feasible cluster. Smaller keys come first, and equal keys are sorted by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RankKey {
    /// Clusters with taints to avoid come after all others.
    pub avoid: bool,
    /// Clusters without a valid score come after clusters with one.
    pub is_unscored: bool,
    /// Higher totals come first.
    pub total: Reverse<i32>,
}

/// The sum of a cluster's weighted scores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Total {
    pub value: i32,
    /// True if the score of an add-on is missing or has expired.
    pub is_unscored: bool,
    /// The first moment at which a currently valid score becomes invalid.
    pub until: Option<Timestamp>,
}

impl Total {
    pub(super) fn key(self, avoid: bool) -> RankKey {
        RankKey { avoid, is_unscored: self.is_unscored, total: Reverse(self.value) }
    }
}

/// Returns the score that each weighted prioritizer gives a cluster, relative to the measured ranges.
pub(super) fn scores<'a>(
    cycle: &'a Cycle<'a>,
    ranges: &'a [Range],
    id: Id,
) -> impl Iterator<Item = (&'a Weighted, Score)> {
    cycle.policy.weights.iter().zip(ranges).map(move |(weighted, range)| {
        let input = ScoreInput { cycle, id, range: *range, add_on: weighted.add_on.as_ref() };
        (weighted, (weighted.prioritizer.score)(&input))
    })
}

/// Sums the weighted scores of a cluster.
pub(super) fn total(cycle: &Cycle<'_>, ranges: &[Range], id: Id) -> Total {
    let mut total = Total::default();
    let mut sum = 0_i64;
    for (weighted, score) in scores(cycle, ranges, id) {
        match score {
            Score::Valid { value, until } => {
                sum += i64::from(weighted.weight) * value;
                total.until = [total.until, until].into_iter().flatten().min();
            }
            Score::Unreported => {}
            Score::Missing | Score::Expired(_) => total.is_unscored = true,
        }
    }
    total.value = i32::try_from(sum).unwrap_or(if sum < 0 { i32::MIN } else { i32::MAX });
    total
}
