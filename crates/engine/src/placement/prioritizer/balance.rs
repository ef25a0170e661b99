//! Prefers clusters that appear in few decisions of other placements.

use super::{MAX_SCORE, Prioritizer, Range, Scale, Score, ScoreInput};

pub(super) static BALANCE: Prioritizer = Prioritizer {
    name: "Balance",
    scale: Scale::Hub(|fleet, published| {
        let own = published.clusters().map(|id| (id, published.entries_of(id)));
        Range { least: 0.0, most: f64::from(fleet.most_used(own)) }
    }),
    score: |input: &ScoreInput<'_>| {
        let own = input.cycle.published.entries_of(input.id);
        let used = input.cycle.fleet.used(input.id).saturating_sub(own);
        Score::lasting(score(used, input.range.most))
    },
    differs: |_, _| false,
};

/// Returns 100 for an unused cluster and -100 for the most used one. It rounds like OCM, before doubling.
fn score(used: u32, most_used: f64) -> i64 {
    if used == 0 || most_used <= 0.0 {
        return MAX_SCORE;
    }
    #[expect(clippy::cast_possible_truncation, reason = "between -50 and 50")]
    let half = (100.0 * (0.5 - f64::from(used) / most_used)) as i64;
    2 * half
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_truncated_before_they_are_doubled() {
        assert_eq!(
            [score(0, 3.0), score(1, 3.0), score(2, 3.0), score(3, 3.0), score(0, 0.0)],
            [100, 32, -32, -100, 100]
        );
    }
}
