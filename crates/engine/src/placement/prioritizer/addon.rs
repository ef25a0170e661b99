//! Uses scores that add-ons publish for clusters.

use jiff::{SignedDuration, Timestamp};
use object::duration::later;

use super::{Prioritizer, Scale, Score, ScoreInput};
use api::cluster::v1alpha1::AddOnPlacementScore;

pub(super) static ADD_ON: Prioritizer = Prioritizer {
    name: "AddOn",
    scale: Scale::Absolute,
    score: |input: &ScoreInput<'_>| {
        let Some(add_on) = input.add_on else { return Score::Missing };
        let scores = input.cycle.fleet.scores(input.id, &add_on.resource);
        read(scores, &add_on.score, input.cycle.now)
    },
    differs: |_, _| false,
};

fn read(scores: Option<&AddOnPlacementScore>, name: &str, now: Timestamp) -> Score {
    let Some(status) = scores.and_then(|scores| scores.status.as_ref()) else { return Score::Missing };
    let until = status.valid_until.as_ref().map(|until| until.0);
    match (status.scores.iter().find(|score| score.name == name), until) {
        (_, Some(until)) if until < now => Score::Expired(until),
        (Some(score), until) => {
            Score::Valid { value: i64::from(score.value), until: until.map(first_invalid) }
        }
        (None, _) => Score::Missing,
    }
}

/// Returns the first moment after `validUntil`, which is itself still valid, as in OCM.
pub(crate) fn first_invalid(valid_until: Timestamp) -> Timestamp {
    later(valid_until, SignedDuration::from_nanos(1))
}
