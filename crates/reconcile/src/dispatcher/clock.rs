//! Steps back of the wall clock.

use jiff::{SignedDuration, Timestamp};

use super::state::Dispatcher;
use crate::View as _;
use crate::queue::earlier;
use object::duration::later;

/// The smallest step back that the dispatcher follows. A smaller one passes by itself, and two threads may
/// report their times out of order.
const SET_BACK: SignedDuration = SignedDuration::from_secs(1);

/// The longest delay of a command while the process runs.
const LATE: SignedDuration = SignedDuration::from_secs(30);

impl Dispatcher {
    /// Notices that the process stood still, or that the clock was set forward: something was due long
    /// ago. The hub was not observed meanwhile. See docs/hazards.md#hub-was-away.
    pub(super) fn notice_gap(&mut self, now: Timestamp) {
        let is_late = self.next_at().is_some_and(|at| later(at, LATE) < now);
        if is_late && self.caches.observed_since().is_some() {
            self.caches.observe_since(now);
        }
    }

    /// Records the time. After a step back of the clock, everything that is due would wait longer by that
    /// step, including renewals of leases. So everything becomes due earlier by the same step. A plan that
    /// runs too early asks for its time again.
    pub(super) fn follow_clock(&mut self, now: Timestamp) {
        let back = self.latest.duration_since(now);
        if back < SET_BACK {
            self.latest = self.latest.max(now);
            return;
        }
        self.latest = now;
        for registered in &mut self.controllers {
            registered.queue.bring_forward(back);
        }
        for reconciliation in self.reconciliations.values_mut() {
            reconciliation.bring_forward(back);
        }
        self.memos.bring_forward(back);
        self.lookups.bring_forward(back);
        self.outages.bring_forward(back);
        if let Some(since) = self.caches.observed_since() {
            self.caches.observe_since(earlier(since, back));
        }
    }
}
