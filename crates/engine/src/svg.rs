//! The parts that pictures share: the marks of a time axis, and texts.

use jiff::{SignedDuration, Timestamp};

/// Distances of the marks on the time axis; the first that gives at most `MARKS` is taken.
const STEPS: [i64; 12] = [1, 5, 15, 60, 300, 900, 3600, 3 * 3600, 12 * 3600, 86_400, 7 * 86_400, 30 * 86_400];
const MARKS: i64 = 10;

/// Returns the moments to mark on the time axis.
pub(crate) fn marks(start: Timestamp, end: Timestamp) -> impl Iterator<Item = Timestamp> {
    let seconds = end.duration_since(start).as_secs();
    let step = STEPS.into_iter().find(|step| seconds / step <= MARKS).unwrap_or(seconds.max(1));
    (0..=seconds / step)
        .filter_map(move |mark| start.checked_add(SignedDuration::from_secs(mark * step)).ok())
}

/// Escapes a text of an element.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
