//! The clock.

use jiff::Timestamp;

/// The time now. All other code takes the time as an argument.
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
pub fn now() -> Timestamp {
    Timestamp::now()
}
