//! Prefers clusters that few decisions of other placements name.

use super::MAX_SCORE;

/// Unused clusters get 100, the most used one -100, with the rounding of Open Cluster Management (before doubling).
pub fn score(used: u32, most_used: u32) -> i64 {
    if used == 0 || most_used == 0 {
        return MAX_SCORE;
    }
    #[expect(clippy::cast_possible_truncation, reason = "between -50 and 50")]
    let half = (100.0 * (0.5 - f64::from(used) / f64::from(most_used))) as i64;
    2 * half
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_truncated_before_they_are_doubled() {
        assert_eq!(
            [score(0, 3), score(1, 3), score(2, 3), score(3, 3), score(0, 0)],
            [100, 32, -32, -100, 100]
        );
    }
}
