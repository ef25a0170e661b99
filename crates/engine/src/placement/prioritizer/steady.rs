//! Prefers clusters that the placement has already selected.

use super::{MAX_SCORE, Prioritizer, Scale, Score, ScoreInput};

/// Scores 100 for clusters in the published decisions, and 0 for others.
pub(super) static STEADY: Prioritizer = Prioritizer {
    name: "Steady",
    scale: Scale::Absolute,
    score: |input: &ScoreInput<'_>| {
        Score::lasting(if input.cycle.published.contains(input.id) { MAX_SCORE } else { 0 })
    },
    differs: |_, _| false,
};
