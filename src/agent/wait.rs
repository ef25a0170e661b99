//! The waits between attempts of the agent.

use std::time::Duration;

/// The wait before the next attempt: each is twice as long as the one before, up to a limit.
pub(super) struct Wait {
    pub(super) next: Duration,
    longest: Duration,
}

impl Wait {
    pub(super) const fn new(first: Duration, longest: Duration) -> Self {
        Self { next: first, longest }
    }

    /// Returns the wait, and doubles the one after it.
    pub(super) fn take(&mut self) -> Duration {
        let wait = self.next;
        self.next = self.longest.min(wait * 2);
        wait
    }
}
