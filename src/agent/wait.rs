use std::time::Duration;

/// The wait before the next attempt. It doubles with each attempt, up to a limit.
pub(super) struct Wait {
    pub(super) next: Duration,
    longest: Duration,
}

impl Wait {
    pub(super) const fn new(first: Duration, longest: Duration) -> Self {
        Self { next: first, longest }
    }

    /// Returns the wait, and doubles the next one.
    pub(super) fn take(&mut self) -> Duration {
        let wait = self.next;
        self.next = self.longest.min(wait * 2);
        wait
    }
}
