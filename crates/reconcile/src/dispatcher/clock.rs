//! A wall clock that is set back.

use jiff::{SignedDuration, Timestamp};

use super::state::Dispatcher;

/// A step back that is followed. Of a smaller one the clock catches up by itself, and two threads
/// may tell their times out of order.
const SET_BACK: SignedDuration = SignedDuration::from_secs(1);

impl Dispatcher {
    /// Takes note of the time. Whatever is due by a clock that was set back would wait as much
    /// longer, a renewal of a lease as well, so all of it is due as much earlier. A plan that is
    /// made too early says again when it is to be made.
    pub(super) fn follow_clock(&mut self, now: Timestamp) {
        let back = self.latest.duration_since(now);
        if back < SET_BACK {
            self.latest = self.latest.max(now);
            return;
        }
        self.latest = now;
        for lane in &mut self.lanes {
            lane.queue.bring_forward(back);
        }
        for turn in self.turns.values_mut() {
            turn.bring_forward(back);
        }
        self.memos.bring_forward(back);
        self.lookups.bring_forward(back);
        self.outages.bring_forward(back);
    }
}
