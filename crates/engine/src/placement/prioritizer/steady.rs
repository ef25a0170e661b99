//! Prefers clusters that the placement has selected already.

use super::{MAX_SCORE, Prioritizer, Scale, Score, Subject};

/// Gives 100 to a cluster in the published decisions, else 0.
pub(super) static STEADY: Prioritizer = Prioritizer {
    name: "Steady",
    scale: Scale::Absolute,
    score: |subject: &Subject<'_>| {
        Score::lasting(if subject.cycle.published.contains(subject.id) { MAX_SCORE } else { 0 })
    },
};
