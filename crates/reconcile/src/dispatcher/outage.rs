//! When an API server that could not be reached can be reached again.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::Site;
use crate::queue::earlier;

/// How long a server must answer nothing at all for that to be an outage. A busy server that refuses some
/// requests answers others in between, and keeps the waits of the keys that it refused.
const OUTAGE: SignedDuration = SignedDuration::from_secs(5);

/// Since when each API server has answered nothing but that it is unavailable.
#[derive(Debug, Default)]
pub(super) struct Outages(BTreeMap<Site, Timestamp>);

impl Outages {
    /// The server could not be reached, or was too busy.
    pub(super) fn failed(&mut self, site: Site, now: Timestamp) {
        self.0.entry(site).or_insert(now);
    }

    /// The clock was set back.
    pub(super) fn bring_forward(&mut self, by: SignedDuration) {
        for since in self.0.values_mut() {
            *since = earlier(*since, by);
        }
    }

    /// The server answered; whether that is the end of an outage.
    pub(super) fn answered(&mut self, site: Site, now: Timestamp) -> bool {
        self.0.remove(&site).is_some_and(|since| now.duration_since(since) >= OUTAGE)
    }
}
