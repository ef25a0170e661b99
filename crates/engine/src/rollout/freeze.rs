//! Time windows: freezes, which block rollouts and commits, and windows for applying commits.

use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp};

use super::cron::Cron;
use super::refused::Refused;
use api::gitops::v1alpha1::{ConfigRepoSpec, TimeWindow};
use object::duration::{self, later};

/// The maximum number of adjacent windows to join. After that many, the engine decides again, which bounds the
/// work for an endless freeze.
const JOINED: usize = 16;

/// The longest window. The search for its last start goes back this far.
const LONGEST: SignedDuration = SignedDuration::from_hours(24 * 366);

/// The maximum number of consecutive freezes and windows that a commit waits for. After that many, the engine
/// decides again.
const VISITED: usize = 64;

/// A recurring window.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// The name for people.
    pub name: String,
    schedule: Cron,
    zone: TimeZone,
    duration: SignedDuration,
}

impl Window {
    /// Adds the name of the policy to the name of the window.
    pub(super) fn of_policy(self, policy: &str) -> Self {
        if policy.is_empty() {
            return self;
        }
        Self { name: format!("{} of RolloutPolicy {policy}", self.name), ..self }
    }

    /// Parses the windows of a field.
    ///
    /// # Errors
    /// Fails if a part of a window is invalid, or if a window is empty or longer than a year.
    pub(super) fn read_all(field: &str, windows: &[TimeWindow]) -> Result<Vec<Self>, Refused> {
        windows.iter().map(|window| Self::read(field, window)).collect()
    }

    /// Parses a window: a cron expression for its starts, an IANA time zone (empty is UTC), and a duration.
    pub(super) fn read(field: &str, window: &TimeWindow) -> Result<Self, Refused> {
        let TimeWindow { name, schedule, time_zone, duration, unknown: _ } = window;
        let refused = |part: &str, value: &str, reason: &str, hint: &str| {
            Refused::new(format!("{field}[{name}].{part}"), value, reason, hint)
        };
        let cron = Cron::parse(schedule).map_err(|reason| {
            let hint = "write minute hour day month weekday, such as \"0 18 * * fri\"";
            refused("schedule", schedule, &reason, hint)
        })?;
        let zone = match time_zone.as_str() {
            "" => TimeZone::UTC,
            zone => TimeZoneDatabase::bundled().get(zone).map_err(|_| {
                refused("timeZone", zone, "no such time zone", "write an IANA name, such as Europe/Berlin")
            })?,
        };
        let lasts = duration::parse(duration).filter(|lasts| lasts.is_positive() && *lasts <= LONGEST);
        let lasts = lasts.ok_or_else(|| {
            let hint = "write hours or minutes, such as 60h";
            refused("duration", duration, "not a duration up to a year", hint)
        })?;
        Ok(Self { name: name.clone(), schedule: cron, zone, duration: lasts })
    }

    /// Returns the end of the window that is open at `now`. If occurrences overlap, the last one to start ends
    /// last.
    fn open_until(&self, now: Timestamp) -> Option<Timestamp> {
        let after = now.checked_sub(self.duration).ok()?;
        self.schedule.last_due(after, now, &self.zone)?.checked_add(self.duration).ok()
    }

    /// Returns the next start of the window within a year.
    fn opens_after(&self, now: Timestamp) -> Option<Timestamp> {
        self.schedule.next_due(now, later(now, LONGEST), &self.zone)
    }
}

/// The reason that a commit of a repository waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplyWait {
    /// A freeze is in force.
    Freeze {
        /// The name of the freeze window.
        window: String,
        /// The end of the freeze, including adjacent windows.
        until: Timestamp,
    },
    /// No apply window is open yet.
    Window {
        /// The name of the next window.
        window: String,
        /// The start of the next window.
        until: Timestamp,
    },
    /// No apply window opens within a year.
    NoWindow {
        /// The end of the year.
        until: Timestamp,
    },
}

impl ApplyWait {
    /// Returns the earliest time at which the commit can be applied.
    pub fn until(&self) -> Timestamp {
        match self {
            Self::Freeze { window: _, until }
            | Self::Window { window: _, until }
            | Self::NoWindow { until } => *until,
        }
    }
}

/// The windows of a repository that control when its commits are applied.
pub struct ApplyWindows {
    freezes: Vec<Window>,
    windows: Vec<Window>,
}

impl ApplyWindows {
    /// Parses the windows of a repository.
    ///
    /// # Errors
    /// Fails if a window is invalid.
    pub fn read(spec: &ConfigRepoSpec) -> Result<Self, Refused> {
        let freezes = Window::read_all("freezeWindows", &spec.freeze_windows)?;
        let windows = Window::read_all("applyWindows", &spec.apply_windows)?;
        Ok(Self { freezes, windows })
    }

    /// Returns what a commit waits for at `now`; `None` if it does not wait. No freeze window may be open. If
    /// the repository has apply windows, one of them must be open.
    pub fn wait(&self, now: Timestamp) -> Option<ApplyWait> {
        let Self { freezes, windows } = self;
        let freeze_at = |at| {
            let (window, until) = frozen(freezes, at)?;
            Some(ApplyWait::Freeze { window: window.to_owned(), until })
        };
        let mut wait = freeze_at(now);
        if windows.is_empty() {
            return wait;
        }
        for _ in 0..VISITED {
            let at = wait.as_ref().map_or(now, ApplyWait::until);
            if let Some(freeze) = freeze_at(at) {
                if matches!(wait, Some(ApplyWait::Freeze { .. })) {
                    // The freeze continues at its end. The engine decides again then.
                    break;
                }
                wait = Some(freeze);
                continue;
            }
            if windows.iter().any(|window| window.open_until(at).is_some()) {
                break;
            }
            let next = windows.iter().filter_map(|it| Some((it.opens_after(at)?, it.name.as_str()))).min();
            let Some((until, window)) = next else {
                return Some(ApplyWait::NoWindow { until: later(at, LONGEST) });
            };
            wait = Some(ApplyWait::Window { window: window.to_owned(), until });
        }
        wait
    }
}

/// Returns the name of the window that freezes rollouts at `now`, and the end of the freeze, including adjacent
/// windows.
pub(crate) fn frozen(freezes: &[Window], now: Timestamp) -> Option<(&str, Timestamp)> {
    let open_at = |at| freezes.iter().filter_map(|f| Some((f.open_until(at)?, f.name.as_str()))).max();
    let (mut until, name) = open_at(now)?;
    for _ in 0..JOINED {
        // A window that is open at a moment ends after that moment.
        let Some((later, _)) = open_at(until) else { break };
        until = later;
    }
    Some((name, until))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(name: &str, schedule: &str, zone: &str, lasts: &str) -> TimeWindow {
        TimeWindow {
            name: name.into(),
            schedule: schedule.into(),
            time_zone: zone.into(),
            duration: lasts.into(),
            ..TimeWindow::default()
        }
    }

    fn freeze(name: &str, schedule: &str, zone: &str, lasts: &str) -> Window {
        Window::read("freezeWindows", &window(name, schedule, zone, lasts)).unwrap()
    }

    #[test]
    fn a_freeze_lasts_from_its_first_to_its_last_moment() {
        let weekend = [freeze("weekend", "0 18 * * fri", "Europe/Berlin", "62h")];
        let check = |now: &str, until: Option<&str>| {
            let frozen =
                frozen(&weekend, now.parse().unwrap()).map(|(name, until)| (name, until.to_string()));
            assert_eq!(frozen, until.map(|u| ("weekend", u.to_owned())), "{now}");
        };
        check("2026-03-06T16:59:59Z", None);
        check("2026-03-06T17:00:00Z", Some("2026-03-09T07:00:00Z"));
        check("2026-03-09T06:59:59Z", Some("2026-03-09T07:00:00Z"));
        check("2026-03-09T07:00:00Z", None);
    }

    /// Compares what a commit waits for at the given times: the variant, the window name and the time.
    fn check_waits(spec: &ConfigRepoSpec, cases: &[(&str, &str)]) {
        for (now, expected) in cases {
            let wait = match ApplyWindows::read(spec).unwrap().wait(now.parse().unwrap()) {
                None => String::new(),
                Some(ApplyWait::Freeze { window, until }) => format!("freeze {window} {until}"),
                Some(ApplyWait::Window { window, until }) => format!("window {window} {until}"),
                Some(ApplyWait::NoWindow { until }) => format!("none {until}"),
            };
            assert_eq!(wait, *expected, "{now}");
        }
    }

    fn spec(apply_windows: Vec<TimeWindow>, freeze_windows: Vec<TimeWindow>) -> ConfigRepoSpec {
        ConfigRepoSpec { apply_windows, freeze_windows, ..ConfigRepoSpec::default() }
    }

    #[test]
    fn a_commit_waits_for_the_freeze_that_is_open() {
        let freezes =
            vec![window("morning", "0 8 * * *", "", "1h"), window("evening", "0 20 * * *", "", "1h")];
        let cases = [
            ("2026-03-06T12:00:00Z", ""),
            ("2026-03-06T20:30:00Z", "freeze evening 2026-03-06T21:00:00Z"),
            ("2026-03-06T21:00:00Z", ""),
        ];
        check_waits(&spec(Vec::new(), freezes), &cases);
        let bad = spec(Vec::new(), vec![window("bad", "0 8", "", "1h")]);
        assert!(ApplyWindows::read(&bad).is_err());
    }

    #[test]
    fn a_commit_waits_for_the_apply_window_that_begins_next() {
        let windows =
            vec![window("night", "0 2 * * *", "", "2h"), window("weekend", "0 0 * * sat", "", "48h")];
        let cases = [
            ("2026-03-06T01:59:59Z", "window night 2026-03-06T02:00:00Z"),
            ("2026-03-06T02:00:00Z", ""),
            ("2026-03-06T03:59:59Z", ""),
            ("2026-03-06T04:00:00Z", "window weekend 2026-03-07T00:00:00Z"),
            ("2026-03-08T23:59:59Z", ""),
            ("2026-03-09T00:00:00Z", "window night 2026-03-09T02:00:00Z"),
        ];
        check_waits(&spec(windows, Vec::new()), &cases);
    }

    #[test]
    fn a_freeze_has_precedence_over_an_apply_window() {
        let windows = vec![window("day", "0 8 * * *", "", "10h")];
        let freezes =
            vec![window("lunch", "0 12 * * *", "", "1h"), window("friday", "0 7 * * fri", "", "24h")];
        let cases = [
            ("2026-03-04T12:30:00Z", "freeze lunch 2026-03-04T13:00:00Z"),
            ("2026-03-04T13:00:00Z", ""),
            // Friday is frozen until Saturday, an hour before Saturday's window.
            ("2026-03-06T09:00:00Z", "window day 2026-03-07T08:00:00Z"),
            ("2026-03-05T18:00:00Z", "window day 2026-03-07T08:00:00Z"),
        ];
        check_waits(&spec(windows.clone(), freezes), &cases);
        // The freeze ends within the window.
        let freezes = vec![window("early", "0 6 * * *", "", "3h")];
        check_waits(
            &spec(windows.clone(), freezes),
            &[("2026-03-04T05:00:00Z", "freeze early 2026-03-04T09:00:00Z")],
        );
        // The freeze covers each window, so the search ends.
        let freezes = vec![window("day", "0 7 * * *", "", "12h")];
        let [now, later] = ["2026-03-04T05:00:00Z", "2026-03-30T00:00:00Z"].map(|at| at.parse().unwrap());
        let covered = ApplyWindows::read(&spec(windows, freezes)).unwrap().wait(now);
        assert!(covered.is_some_and(|wait| wait.until() > later));
    }

    /// Searching beyond the endless freeze would visit each minute of a day a thousand times in every plan.
    #[test]
    fn a_commit_waits_for_an_endless_freeze_as_if_there_were_no_apply_window() {
        let always = vec![window("always", "* * * * *", "", "1h")];
        let cases = [("2026-03-04T05:00:00Z", "freeze always 2026-03-04T22:00:00Z")];
        check_waits(&spec(Vec::new(), always.clone()), &cases);
        check_waits(&spec(vec![window("night", "0 2 * * *", "", "2h")], always), &cases);
    }

    #[test]
    fn an_apply_window_begins_by_the_clock_of_its_zone_and_lasts_its_duration() {
        let windows = vec![window("night", "30 2 * * *", "Europe/Berlin", "2h")];
        let cases = [
            // 2:30 does not exist on 29 March: the window begins an hour later.
            ("2026-03-28T12:00:00Z", "window night 2026-03-29T01:30:00Z"),
            ("2026-03-29T01:29:59Z", "window night 2026-03-29T01:30:00Z"),
            ("2026-03-29T03:29:59Z", ""),
            ("2026-03-29T03:30:00Z", "window night 2026-03-30T00:30:00Z"),
            // 2:30 occurs twice on 25 October: the window begins once.
            ("2026-10-25T00:29:59Z", "window night 2026-10-25T00:30:00Z"),
            ("2026-10-25T02:29:59Z", ""),
            ("2026-10-25T02:30:00Z", "window night 2026-10-26T01:30:00Z"),
        ];
        check_waits(&spec(windows, Vec::new()), &cases);
    }

    #[test]
    fn no_commit_is_applied_if_no_apply_window_ever_begins() {
        let windows = vec![window("never", "0 0 31 2 *", "", "1h")];
        let cases = [("2026-03-04T05:00:00Z", "none 2027-03-05T05:00:00Z")];
        check_waits(&spec(windows, Vec::new()), &cases);
    }

    #[test]
    fn windows_without_a_gap_are_one_freeze() {
        let freezes = [freeze("night", "0 20 * * *", "", "10h"), freeze("day", "0 6 * * sat", "", "14h")];
        let (name, until) = frozen(&freezes, "2026-03-06T21:00:00Z".parse().unwrap()).unwrap();
        assert_eq!((name, until.to_string().as_str()), ("night", "2026-03-08T06:00:00Z"));
    }

    #[test]
    fn windows_that_overlap_themselves_end_with_the_last() {
        let freezes = [freeze("hourly", "0 9-11 * * *", "", "90m")];
        let (_, until) = frozen(&freezes, "2026-03-06T10:15:00Z".parse().unwrap()).unwrap();
        assert_eq!(until.to_string(), "2026-03-06T12:30:00Z");
    }

    #[test]
    fn a_freeze_without_an_end_is_checked_again() {
        let freezes = [freeze("always", "* * * * *", "", "1h")];
        let now: Timestamp = "2026-03-06T10:15:30Z".parse().unwrap();
        let (_, until) = frozen(&freezes, now).unwrap();
        assert!(until > now);
    }

    #[test]
    fn mistakes_name_the_window_and_the_field() {
        let check = |schedule: &str, zone: &str, lasts: &str, expected: &str| {
            let read = Window::read("freezeWindows", &window("w", schedule, zone, lasts));
            let refused = read.unwrap_err().to_string();
            assert!(refused.starts_with(expected), "{refused}");
        };
        check(
            "0 18 * *",
            "",
            "1h",
            "freezeWindows[w].schedule: \"0 18 * *\" is refused: a cron expression has 5 fields, not 4",
        );
        check(
            "0 18 * * *",
            "Mars/Base",
            "1h",
            "freezeWindows[w].timeZone: \"Mars/Base\" is refused: no such time zone",
        );
        let leap = freeze("w", "0 18 * * *", "", "8784h");
        assert_eq!(leap.duration, LONGEST, "a window may last a leap year");
        check("0 18 * * *", "", "0s", "freezeWindows[w].duration: \"0s\" is refused");
        check("0 18 * * *", "", "8785h", "freezeWindows[w].duration: \"8785h\" is refused");
    }
}
