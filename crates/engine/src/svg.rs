//! Shared parts of pictures: time axis marks and text.

use jiff::{SignedDuration, Timestamp};

/// The possible intervals between marks on the time axis. The first one with at most `MARKS` marks is used.
const STEPS: [i64; 12] = [1, 5, 15, 60, 300, 900, 3600, 3 * 3600, 12 * 3600, 86_400, 7 * 86_400, 30 * 86_400];
const MARKS: i64 = 10;

/// Returns the moments to mark on the time axis.
pub(crate) fn marks(start: Timestamp, end: Timestamp) -> impl Iterator<Item = Timestamp> {
    let seconds = end.duration_since(start).as_secs();
    let step = STEPS.into_iter().find(|step| seconds / step <= MARKS).unwrap_or(seconds.max(1));
    (0..=seconds / step)
        .filter_map(move |mark| start.checked_add(SignedDuration::from_secs(mark * step)).ok())
}

/// Escapes text content for XML.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
