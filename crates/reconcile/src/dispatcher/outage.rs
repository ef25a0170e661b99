//! Detects the outages of API servers, and their ends.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::Site;
use crate::queue::earlier;

/// The time without an answer after which a server has an outage. A busy server that rejects some requests still
/// answers others, so its keys keep their backoff.
const OUTAGE: SignedDuration = SignedDuration::from_secs(5);

/// The API servers that are unreachable or unavailable, and since when.
#[derive(Debug, Default)]
pub(super) struct Outages(BTreeMap<Site, Timestamp>);

impl Outages {
    /// Records that the server was unreachable or too busy.
    pub(super) fn failed(&mut self, site: Site, now: Timestamp) {
        self.0.entry(site).or_insert(now);
    }

    /// Moves the times back by the step that the clock was set back.
    pub(super) fn bring_forward(&mut self, by: SignedDuration) {
        for since in self.0.values_mut() {
            *since = earlier(*since, by);
        }
    }

    /// Records an answer of the server; returns true if it ends an outage.
    pub(super) fn answered(&mut self, site: Site, now: Timestamp) -> bool {
        self.0.remove(&site).is_some_and(|since| now.duration_since(since) >= OUTAGE)
    }
}
