//! Prefers clusters that the placement has selected already.

use super::{MAX_SCORE, Prioritizer, Scale, Score, ScoreInput};

/// Gives 100 to a cluster in the published decisions, else 0.
pub(super) static STEADY: Prioritizer = Prioritizer {
    name: "Steady",
    scale: Scale::Absolute,
    score: |input: &ScoreInput<'_>| {
        Score::lasting(if input.cycle.published.contains(input.id) { MAX_SCORE } else { 0 })
    },
    differs: |_, _| false,
};
