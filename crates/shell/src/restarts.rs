//! The backoff of watches.

use std::time::Duration;

use jiff::SignedDuration;
use ring::rand::{SecureRandom as _, SystemRandom};

use object::duration::doubled;

/// The first wait, which doubles with each watch that ends early. The values match client-go's reflector.
const INITIAL_BACKOFF: SignedDuration = SignedDuration::from_millis(800);
/// The longest wait, without jitter.
const MAX_BACKOFF: SignedDuration = SignedDuration::from_secs(30);
/// A watch ends early if it is shorter than this or the wait before it.
const SHORT: Duration = Duration::from_secs(5);
/// A watch that lasted this long did not end early, even if the wait before it was longer.
const STABLE_AFTER: Duration = Duration::from_secs(30);

/// Counts the watches of one kind that ended early.
#[derive(Default)]
pub(super) struct Restarts {
    /// The number of consecutive early ends.
    failures: u32,
    /// The wait after the last one.
    waited: Duration,
}

impl Restarts {
    /// Returns the wait after a watch that lasted for `lasted`, on a server that wants no requests for
    /// `retry_after`. Jitter may double the wait, so that the kinds of a process, and the processes of a fleet, do
    /// not all return at once.
    pub(super) fn after(&mut self, lasted: Duration, retry_after: Duration) -> Duration {
        let is_early = lasted < self.waited.clamp(SHORT, STABLE_AFTER);
        self.failures = if is_early { self.failures.saturating_add(1) } else { 0 };
        let doubled = match self.failures {
            0 => Duration::ZERO,
            failures => doubled(INITIAL_BACKOFF, MAX_BACKOFF, failures).unsigned_abs(),
        };
        // If the system has no randomness, there is no jitter.
        let mut random = [0];
        let _ = SystemRandom::new().fill(&mut random);
        let wait = doubled.max(retry_after);
        self.waited = wait + wait * u32::from(random[0]) / 256;
        self.waited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_with_jitter_until_a_watch_lasts() {
        let mut restarts = Restarts::default();
        for seconds in [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0] {
            let wait = restarts.after(Duration::ZERO, Duration::ZERO).as_secs_f64();
            assert!((seconds..seconds * 2.0).contains(&wait), "{wait} after {seconds}");
        }
        assert_eq!(restarts.after(STABLE_AFTER, Duration::ZERO), Duration::ZERO);
        assert!(restarts.after(SHORT / 2, Duration::ZERO) >= INITIAL_BACKOFF.unsigned_abs());
        let waited = (0..4).map(|_| restarts.after(SHORT / 2, Duration::ZERO)).last().unwrap();
        assert!(restarts.after(waited - Duration::from_millis(1), Duration::ZERO) > waited);
        let waited = restarts.waited;
        assert_eq!(restarts.after(waited, Duration::ZERO), Duration::ZERO, "a connection that breaks twice");
        let asked = Duration::from_secs(5);
        assert!(restarts.after(Duration::ZERO, asked) >= asked);
    }
}
