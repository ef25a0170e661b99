//! Scores for an AddOnPlacementScore, which rank clusters for placements.

use std::ops::RangeInclusive;

/// Scales a value to a score: -100 at or below the lower bound, 100 at or above the upper bound. An empty range
/// gives -100.
pub fn score(value: i128, bounds: RangeInclusive<i128>) -> i32 {
    let (low, high) = bounds.into_inner();
    let width = high.saturating_sub(low);
    if width <= 0 {
        return -100;
    }
    let above = value.clamp(low, high).saturating_sub(low);
    i32::try_from(above.saturating_mul(200) / width - 100).unwrap_or(-100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_a_score_between_its_bounds() {
        let cases = [
            (0, 0..=10, -100),
            (5, 0..=10, 0),
            (10, 0..=10, 100),
            (-1, 0..=10, -100),
            (11, 0..=10, 100),
            (2, 0..=3, 33),
            (15, 10..=20, 0),
            (1, 5..=5, -100),
            (1, RangeInclusive::new(5, 0), -100),
        ];
        for (value, bounds, expected) in cases {
            assert_eq!(score(value, bounds.clone()), expected, "{value} in {bounds:?}");
        }
    }
}
