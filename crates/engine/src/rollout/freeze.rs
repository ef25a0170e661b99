//! Freeze windows, in which no cluster starts.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::cron::Cron;
use super::refused::Refused;
use api::gitops::v1alpha1::FreezeWindow;
use object::duration;

/// Limit of the windows that are joined without a gap; after an endless freeze of that many the engine
/// decides again.
const JOINED: usize = 16;

/// The longest window; the search for its last beginning goes back this far.
const LONGEST: SignedDuration = SignedDuration::from_hours(24 * 366);

/// A recurring window.
#[derive(Clone, Debug, PartialEq)]
pub struct Freeze {
    /// Its name for people.
    pub name: String,
    schedule: Cron,
    zone: TimeZone,
    duration: SignedDuration,
}

impl Freeze {
    /// Reads a window: a cron expression for its beginnings, an IANA time zone (empty is UTC) and how long it
    /// lasts.
    ///
    /// # Errors
    /// A part cannot be read, or the window is empty or longer than a year.
    pub fn read(window: &FreezeWindow) -> Result<Self, Refused> {
        let FreezeWindow { name, schedule, time_zone, duration, unknown: _ } = window;
        let refused = |field: &str, value: &str, reason: &str, hint: &str| {
            Refused::new(format!("freezeWindows[{name}].{field}"), value, reason, hint)
        };
        let cron = Cron::parse(schedule).map_err(|reason| {
            let hint = "write minute hour day month weekday, such as \"0 18 * * fri\"";
            refused("schedule", schedule, &reason, hint)
        })?;
        let zone = match time_zone.as_str() {
            "" => TimeZone::UTC,
            zone => TimeZone::get(zone).map_err(|_| {
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

    /// Returns when the window that is open at `now` ends. Of windows that overlap, the last that began ends
    /// last.
    fn open_until(&self, now: Timestamp) -> Option<Timestamp> {
        let after = now.checked_sub(self.duration).ok()?;
        self.schedule.last_due(after, now, &self.zone)?.checked_add(self.duration).ok()
    }
}

/// Returns the window that is open at `now`: its name, and when it ends, including windows that follow
/// without a gap.
///
/// # Errors
/// A window cannot be read.
pub fn open_window(windows: &[FreezeWindow], now: Timestamp) -> Result<Option<(String, Timestamp)>, Refused> {
    let freezes: Vec<Freeze> = windows.iter().map(Freeze::read).collect::<Result<_, _>>()?;
    Ok(frozen(&freezes, now).map(|(name, until)| (name.to_owned(), until)))
}

/// Returns the window that freezes rollouts at `now`: its name, and when the freeze ends, including windows
/// that follow without a gap.
pub(crate) fn frozen(freezes: &[Freeze], now: Timestamp) -> Option<(&str, Timestamp)> {
    let open_at = |at| freezes.iter().filter_map(|f| Some((f.open_until(at)?, f.name.as_str()))).max();
    let (mut until, name) = open_at(now)?;
    for _ in 0..JOINED {
        // A window that is open at a moment ends after it.
        let Some((later, _)) = open_at(until) else { break };
        until = later;
    }
    Some((name, until))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, schedule: &str, zone: &str, lasts: &str) -> Result<Freeze, Refused> {
        Freeze::read(&FreezeWindow {
            name: name.into(),
            schedule: schedule.into(),
            time_zone: zone.into(),
            duration: lasts.into(),
            ..FreezeWindow::default()
        })
    }

    fn freeze(name: &str, schedule: &str, zone: &str, lasts: &str) -> Freeze {
        read(name, schedule, zone, lasts).unwrap()
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

    #[test]
    fn a_repository_is_told_which_of_its_windows_is_open_and_until_when() {
        let window = |name: &str, schedule: &str| FreezeWindow {
            name: name.into(),
            schedule: schedule.into(),
            duration: "1h".into(),
            ..FreezeWindow::default()
        };
        let windows = [window("morning", "0 8 * * *"), window("evening", "0 20 * * *")];
        let open = |now: &str| open_window(&windows, now.parse().unwrap()).unwrap();
        let until = "2026-03-06T21:00:00Z".parse().unwrap();
        assert_eq!(open("2026-03-06T20:30:00Z"), Some(("evening".to_owned(), until)));
        assert_eq!(open("2026-03-06T12:00:00Z"), None);
        assert!(open_window(&[window("bad", "0 8")], Timestamp::UNIX_EPOCH).is_err());
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
            let refused = read("w", schedule, zone, lasts).unwrap_err().to_string();
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
        assert!(read("w", "0 18 * * *", "", "8784h").is_ok(), "a window may last a leap year");
        check("0 18 * * *", "", "0s", "freezeWindows[w].duration: \"0s\" is refused");
        check("0 18 * * *", "", "8785h", "freezeWindows[w].duration: \"8785h\" is refused");
    }
}
