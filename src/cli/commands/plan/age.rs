//! The age of the report that a plan is based on.

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::git::PathChange;
use object::duration;
use object::text::short_commit;

/// The number of report intervals after which a report is old.
const INTERVALS: i32 = 10;
/// The minimum age of an old report.
const OLD: SignedDuration = SignedDuration::from_hours(1);

/// The report that a plan is based on.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReportAge {
    /// The newest commit that changed the report.
    pub(super) commit: String,
    /// The time of the commit.
    pub(super) time: Timestamp,
    /// The age of the commit at the time of the plan.
    pub(super) age_seconds: i64,
}

impl ReportAge {
    pub(super) fn new(PathChange { commit, time }: PathChange, now: Timestamp) -> Self {
        Self { commit, time, age_seconds: now.duration_since(time).as_secs().max(0) }
    }

    /// Returns the report line of a plan.
    pub(super) fn line(&self) -> String {
        format!("commit {} of {}, {} old", short_commit(&self.commit), self.time, self.age())
    }

    /// Returns a warning if the report is too old for an operator with this report interval.
    pub(super) fn warning(&self, interval: SignedDuration) -> Option<String> {
        let limit = interval.saturating_mul(INTERVALS).max(OLD);
        (SignedDuration::from_secs(self.age_seconds) > limit).then(|| {
            format!(
                "the report is {} old: the operator reports only changes, so check that it runs, for example with `wheelwright status`",
                self.age()
            )
        })
    }

    fn age(&self) -> String {
        duration::format(SignedDuration::from_secs(self.age_seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_old_after_ten_intervals_and_an_hour() {
        let time: Timestamp = "2026-03-02T08:00:00Z".parse().unwrap();
        let of = |seconds: i64| {
            let commit = PathChange { commit: "a".repeat(40), time };
            ReportAge::new(commit, time + SignedDuration::from_secs(seconds))
        };
        assert_eq!(of(90).line(), "commit aaaaaaaaaaaa of 2026-03-02T08:00:00Z, 1m30s old");
        let [short, long] = [30, 3_600].map(SignedDuration::from_secs);
        for (age, interval, is_old) in [
            (3_600, short, false),
            (3_601, short, true),
            (36_000, long, false),
            (36_001, long, true),
            (-5, short, false),
        ] {
            assert_eq!(of(age).warning(interval).is_some(), is_old, "{age}");
        }
    }
}
