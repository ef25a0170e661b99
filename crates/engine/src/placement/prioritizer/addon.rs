//! Takes the scores add-ons publish for their cluster.

use jiff::{SignedDuration, Timestamp};

use api::cluster::v1alpha1::AddOnPlacementScore;

/// What an add-on says of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Score {
    /// A score, and the first moment at which it is none.
    Valid(i64, Option<Timestamp>),
    /// It was one until then.
    Expired(Timestamp),
    /// There is none.
    Missing,
}

/// Reads a score. One that has expired or is missing counts as 0, but its cluster comes after all clusters with valid ones.
pub fn read(scores: Option<&AddOnPlacementScore>, name: &str, now: Timestamp) -> Score {
    let Some(status) = scores.and_then(|scores| scores.status.as_ref()) else { return Score::Missing };
    let until = status.valid_until.as_ref().map(|until| until.0);
    match (status.scores.iter().find(|score| score.name == name), until) {
        (_, Some(until)) if until < now => Score::Expired(until),
        (Some(score), until) => Score::Valid(i64::from(score.value), until.map(after)),
        (None, _) => Score::Missing,
    }
}

/// The moment after the last one at which scores are valid; `validUntil` itself still counts, as in Open Cluster Management.
pub fn after(valid_until: Timestamp) -> Timestamp {
    valid_until.saturating_add(SignedDuration::from_nanos(1)).unwrap_or(Timestamp::MAX)
}
