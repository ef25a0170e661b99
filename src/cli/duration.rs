//! Parses durations in arguments.

use std::fmt;
use std::time::Duration;

use jiff::SignedDuration;
use object::duration::{format, parse};
use tokio::time::Instant;

/// The longest wait: a year.
const LONGEST_WAIT: SignedDuration = SignedDuration::from_hours(365 * 24);

/// The time for which a command waits for a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait(SignedDuration);

impl Wait {
    /// Returns true if the command does not wait at all.
    pub(super) fn is_zero(self) -> bool {
        self.0.is_zero()
    }

    /// Returns the time at which a wait that starts now ends.
    pub(super) fn deadline(self) -> Instant {
        Instant::now() + Duration::try_from(self.0).unwrap_or_default()
    }

    /// Returns a wait that is longer by `more`.
    pub(super) fn plus(self, more: SignedDuration) -> Self {
        Self(self.0.saturating_add(more).min(LONGEST_WAIT))
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format(self.0))
    }
}

/// Parses a wait: a duration such as 5m, or a number of seconds.
pub(super) fn wait(text: &str) -> Result<Wait, String> {
    let seconds = || text.parse().ok().map(SignedDuration::from_secs);
    let duration = seconds().or_else(|| parse(text)).filter(|duration| !duration.is_negative());
    duration
        .map(|duration| Wait(duration.min(LONGEST_WAIT)))
        .ok_or_else(|| "write a duration such as 5m or 90s".into())
}

/// Returns a parser for a duration of at least `shortest`.
pub(super) fn at_least(
    shortest: SignedDuration,
) -> impl Fn(&str) -> Result<SignedDuration, String> + Clone + Send + Sync + 'static {
    move |text| {
        let duration = parse(text).filter(|duration| *duration >= shortest);
        duration.ok_or_else(|| format!("write a duration of at least {}, such as 30m", format(shortest)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_a_duration_or_a_number_of_seconds() {
        for (text, shown) in [("5m", "5m"), ("300", "5m"), ("1h30m", "1h30m"), ("0", "0s")] {
            assert_eq!(wait(text).unwrap().to_string(), shown, "{text}");
        }
        assert_eq!(wait("999999h"), Ok(Wait(LONGEST_WAIT)));
        for text in ["", "soon", "-1", "-5m", "5 m"] {
            assert!(wait(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_duration_below_the_shortest_is_refused() {
        let parser = at_least(SignedDuration::from_mins(10));
        assert_eq!(parser("10m"), Ok(SignedDuration::from_mins(10)));
        for text in ["599s", "-1h", "30", ""] {
            assert_eq!(parser(text), Err("write a duration of at least 10m, such as 30m".into()), "{text}");
        }
    }
}
