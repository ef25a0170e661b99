//! The wall clock, and a clock that also counts while the machine is suspended.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// Returns the current time. All other code takes the time as an argument.
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// A wait by the wall clock. It is over at its end, or if the clock was set back to before its start; otherwise it
/// would last longer by that step. See docs/hazards-hub.md#clock-jumps.
#[derive(Clone, Copy, Debug)]
pub struct WallClockWait {
    /// The start of the wait.
    pub since: Timestamp,
    /// The end of the wait.
    pub until: Timestamp,
}

impl WallClockWait {
    /// Returns true if the wait is over.
    pub fn is_over(&self, now: Timestamp) -> bool {
        !(self.since..self.until).contains(&now)
    }
}

/// A point in time for durations that include the suspension of the machine. An [`Instant`] stops while a Linux
/// machine is suspended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) instant: Instant,
    /// The time since boot; zero if the system does not report it.
    since_start: Duration,
}

impl Moment {
    pub(super) fn now() -> Self {
        Self { instant: Instant::now(), since_start: since_start() }
    }

    /// Returns the time that has passed since an earlier moment.
    pub(super) fn since(self, earlier: Self) -> Duration {
        let awake = self.instant.saturating_duration_since(earlier.instant);
        awake.max(self.since_start.saturating_sub(earlier.since_start))
    }
}

/// Returns `CLOCK_BOOTTIME`, which includes the suspension of the machine.
#[cfg(target_os = "linux")]
fn since_start() -> Duration {
    let at = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    at.try_into().unwrap_or_default()
}

#[cfg(not(target_os = "linux"))]
fn since_start() -> Duration {
    Duration::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_with_its_time_and_with_a_clock_that_is_set_back_before_it() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let wait = WallClockWait { since: at(100), until: at(110) };
        assert_eq!([100, 109, 110, 99].map(|now| wait.is_over(at(now))), [false, false, true, true]);
    }

    #[test]
    fn the_time_of_a_suspension_counts() {
        let earlier = Moment { instant: Instant::now(), since_start: Duration::from_secs(100) };
        let after = |awake: u64, suspended: u64| Moment {
            instant: earlier.instant + Duration::from_secs(awake),
            since_start: earlier.since_start + Duration::from_secs(awake + suspended),
        };
        assert_eq!(after(3, 0).since(earlier), Duration::from_secs(3));
        assert_eq!(after(1, 60).since(earlier), Duration::from_secs(61));
        assert!(Moment::now().since(Moment::now()) < Duration::from_secs(60));
    }
}
