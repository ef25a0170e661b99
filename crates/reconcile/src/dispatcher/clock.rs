//! Handles steps back of the wall clock.

use jiff::{SignedDuration, Timestamp};

use super::state::Dispatcher;

/// The smallest step back that the dispatcher follows. A smaller one soon passes, and two threads may report their
/// times out of order.
const SET_BACK: SignedDuration = SignedDuration::from_secs(1);

impl Dispatcher {
    /// Records the time. After the clock steps back, everything that is due, including lease renewals, would wait
    /// longer by that step. So everything becomes due earlier by the same step. A plan that runs too early
    /// requests its time again.
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
    }
}
