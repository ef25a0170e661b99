//! Prefers clusters the placement has selected already.

use super::MAX_SCORE;

/// 100 for a cluster that is selected, else 0.
pub fn score(decided: bool) -> i64 {
    if decided { MAX_SCORE } else { 0 }
}
