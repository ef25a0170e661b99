//! Cron expressions with five fields, as in crontab(5), evaluated in a time zone.
//!
//! A window needs both the last and the next time at which an expression is due. Among the crates on `jiff`,
//! `cronexpr` finds only the next time, and `jiff-cron` reads the first field as seconds. `croner` 4 also finds
//! the last time and passes the tests below, with these differences: its errors do not name the field ("Number
//! out of bounds"), it rejects `5/20`, and it schedules a skipped local time for the end of the gap. For
//! expressions that are never due, such as `0 0 31 2 *`, it takes 5 to 40 ms per decision. The backward search
//! here stops at the start of the window.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};

/// A parsed cron expression: one bit set for each field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cron {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// True if day and weekday are both restricted. A date then needs to match only one (crontab(5), "Note").
    either_day: bool,
}

struct Field {
    name: &'static str,
    low: u32,
    high: u32,
    words: &'static [&'static str],
}

const FIELDS: [Field; 5] = [
    Field { name: "minute", low: 0, high: 59, words: &[] },
    Field { name: "hour", low: 0, high: 23, words: &[] },
    Field { name: "day of month", low: 1, high: 31, words: &[] },
    Field {
        name: "month",
        low: 1,
        high: 12,
        words: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    },
    Field { name: "day of week", low: 0, high: 7, words: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] },
];

impl Cron {
    /// Parses `minute hour day-of-month month day-of-week`, or `@hourly`, `@daily`, `@weekly`, `@monthly`,
    /// `@yearly`.
    ///
    /// # Errors
    /// Returns a sentence that names the invalid field.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let text = match text.trim() {
            "@hourly" => "0 * * * *",
            "@daily" | "@midnight" => "0 0 * * *",
            "@weekly" => "0 0 * * 0",
            "@monthly" => "0 0 1 * *",
            "@yearly" | "@annually" => "0 0 1 1 *",
            text => text,
        };
        let parts: Vec<_> = text.split_ascii_whitespace().collect();
        let [minute, hour, day, month, weekday] = parts.as_slice() else {
            return Err(format!("a cron expression has 5 fields, not {}", parts.len()));
        };
        let [minutes, hours, days, months, weekdays] = &FIELDS;
        let restricted = |text: &str| !text.starts_with('*') && !text.starts_with('?');
        let weekdays = weekdays.bits(weekday)?;
        Ok(Self {
            minutes: minutes.bits(minute)?,
            hours: hours.bits(hour)?,
            days: days.bits(day)?,
            months: months.bits(month)?,
            // Sunday is both 0 and 7.
            weekdays: (weekdays | weekdays >> 7) & 0x7f,
            either_day: restricted(day) && restricted(weekday),
        })
    }

    /// Returns the last time in `after..=at` at which the expression is due.
    ///
    /// A local time that is skipped by a clock change is shifted by the length of the gap. A local time that
    /// occurs twice is due only the first time.
    pub(super) fn last_due(&self, after: Timestamp, at: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        // A clock change may shift a local time by a few hours, possibly to the next day.
        let first = zone.to_datetime(after).date().checked_sub(1.day()).ok()?;
        let mut date = zone.to_datetime(at).date();
        while date >= first {
            let due = self.due_on(date, zone).filter(|t| after < *t && *t <= at).max();
            if due.is_some() {
                return due;
            }
            date = date.checked_sub(1.day()).ok()?;
        }
        None
    }

    /// Returns the first time after `after` and up to `end` at which the expression is due. Clock changes are
    /// handled as in [`Self::last_due`].
    pub(super) fn next_due(&self, after: Timestamp, end: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        // A clock change may shift a time from the previous day to today.
        let mut date = zone.to_datetime(after).date().checked_sub(1.day()).ok()?;
        let last = zone.to_datetime(end).date();
        while date <= last {
            let due = self.due_on(date, zone).filter(|t| after < *t && *t <= end).min();
            if due.is_some() {
                return due;
            }
            date = date.checked_add(1.day()).ok()?;
        }
        None
    }

    /// Returns the times on a date at which the expression is due.
    fn due_on(&self, date: Date, zone: &TimeZone) -> impl Iterator<Item = Timestamp> {
        let times = self.is_due_on(date).then(|| self.times_on(date));
        times.into_iter().flatten().filter_map(move |time| zone.to_timestamp(time).ok())
    }

    fn is_due_on(&self, date: Date) -> bool {
        let has = |bits: u64, value: i8| bits >> value & 1 == 1;
        let day = has(self.days, date.day());
        let weekday = has(self.weekdays, date.weekday().to_sunday_zero_offset());
        has(self.months, date.month()) && if self.either_day { day || weekday } else { day && weekday }
    }

    fn times_on(&self, date: Date) -> impl Iterator<Item = DateTime> {
        let set = |bits: u64| (0..60).filter(move |n: &i8| bits >> *n & 1 == 1);
        let minutes = self.minutes;
        set(self.hours).flat_map(move |hour| set(minutes).map(move |minute| date.at(hour, minute, 0, 0)))
    }
}

impl Field {
    /// Parses a comma-separated list of `*`, `a` or `a-b`, each with an optional `/step`.
    fn bits(&self, text: &str) -> Result<u64, String> {
        text.split(',').try_fold(0, |bits, item| {
            Ok(bits | self.item(item).ok_or_else(|| format!("{item:?} is not a valid {}", self.name))?)
        })
    }

    fn item(&self, item: &str) -> Option<u64> {
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, step.parse::<u32>().ok().filter(|step| *step > 0)?),
            None => (item, 1),
        };
        let (low, high) = match range.split_once('-') {
            _ if range == "*" || range == "?" => (self.low, self.high),
            Some((low, high)) => (self.value(low)?, self.value(high)?),
            // `5/15` extends to the end of the field.
            None if item.contains('/') => (self.value(range)?, self.high),
            None => (self.value(range)?, self.value(range)?),
        };
        (low <= high).then(|| (low..=high).step_by(step as usize).fold(0, |bits, value| bits | 1 << value))
    }

    fn value(&self, text: &str) -> Option<u32> {
        let word = self.words.iter().position(|word| word.eq_ignore_ascii_case(text));
        let value = match word {
            Some(at) => u32::try_from(at).ok()? + self.low,
            None if text.bytes().all(|b| b.is_ascii_digit()) => text.parse().ok()?,
            None => return None,
        };
        (self.low..=self.high).contains(&value).then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::SignedDuration;
    use jiff::tz::TimeZoneDatabase;

    fn last_due(cron: &str, zone: &str, at: &str) -> String {
        let at: Timestamp = at.parse().unwrap();
        let after = at.checked_sub(SignedDuration::from_hours(24 * 400)).unwrap();
        let due =
            Cron::parse(cron).unwrap().last_due(after, at, &TimeZoneDatabase::bundled().get(zone).unwrap());
        due.map_or_else(String::new, |due| due.to_string())
    }

    #[test]
    fn the_last_time_is_found() {
        let check =
            |cron, zone, at, expected| assert_eq!(last_due(cron, zone, at), expected, "{cron} at {at}");
        check("*/15 * * * *", "UTC", "2026-03-01T10:07:30Z", "2026-03-01T10:00:00Z");
        check("*/15 * * * *", "UTC", "2026-03-01T10:15:00Z", "2026-03-01T10:15:00Z");
        check("0 18 * * fri", "UTC", "2026-03-06T17:59:59Z", "2026-02-27T18:00:00Z");
        check("0 18 * * 5", "UTC", "2026-03-06T18:00:00Z", "2026-03-06T18:00:00Z");
        check("0 0 * * 7", "UTC", "2026-03-09T00:00:00Z", "2026-03-08T00:00:00Z");
        check("30 9 1-7 * *", "Europe/Berlin", "2026-08-01T07:30:00Z", "2026-08-01T07:30:00Z");
        check("30 9 1-7 * *", "Europe/Berlin", "2026-08-01T07:29:00Z", "2026-07-07T07:30:00Z");
        check("0 0 14 * fri", "UTC", "2026-03-13T12:00:00Z", "2026-03-13T00:00:00Z");
        check("0 0 14 * fri", "UTC", "2026-03-14T12:00:00Z", "2026-03-14T00:00:00Z");
        check("0 0 31 2 *", "UTC", "2026-03-01T00:00:00Z", "");
        check("5/20 0 * * *", "UTC", "2026-03-01T00:44:00Z", "2026-03-01T00:25:00Z");
        check("0 0 1 jan *", "UTC", "2026-03-01T00:00:00Z", "2026-01-01T00:00:00Z");
        check("0 0 1 Dec *", "UTC", "2026-03-01T00:00:00Z", "2025-12-01T00:00:00Z");
        check("7,7,7-9 0 * * *", "UTC", "2026-03-01T00:44:00Z", "2026-03-01T00:09:00Z");
        check("7-9,9 0 * * *", "UTC", "2026-03-01T00:44:00Z", "2026-03-01T00:09:00Z");
        check("@monthly", "UTC", "2026-03-31T00:00:00Z", "2026-03-01T00:00:00Z");
    }

    #[test]
    fn clock_changes_neither_lose_nor_repeat_a_time() {
        let check = |at, expected| assert_eq!(last_due("30 2 * * *", "Europe/Berlin", at), expected);
        // 2:30 does not exist on 29 March, so it is due an hour later.
        check("2026-03-29T01:29:00Z", "2026-03-28T01:30:00Z");
        check("2026-03-29T01:30:00Z", "2026-03-29T01:30:00Z");
        // 2:30 occurs twice on 25 October and is due only the first time.
        check("2026-10-25T01:45:00Z", "2026-10-25T00:30:00Z");
    }

    fn next_due(cron: &str, zone: &str, after: &str) -> String {
        let after: Timestamp = after.parse().unwrap();
        let end = after.checked_add(SignedDuration::from_hours(24 * 400)).unwrap();
        let due =
            Cron::parse(cron).unwrap().next_due(after, end, &TimeZoneDatabase::bundled().get(zone).unwrap());
        due.map_or_else(String::new, |due| due.to_string())
    }

    #[test]
    fn the_next_time_is_found() {
        let check = |cron, zone, after, expected| {
            assert_eq!(next_due(cron, zone, after), expected, "{cron} after {after}");
        };
        check("*/15 * * * *", "UTC", "2026-03-01T10:07:30Z", "2026-03-01T10:15:00Z");
        check("*/15 * * * *", "UTC", "2026-03-01T10:15:00Z", "2026-03-01T10:30:00Z");
        check("0 18 * * fri", "UTC", "2026-03-06T18:00:00Z", "2026-03-13T18:00:00Z");
        check("0 0 1 jan *", "UTC", "2026-03-01T00:00:00Z", "2027-01-01T00:00:00Z");
        check("0 0 31 2 *", "UTC", "2026-03-01T00:00:00Z", "");
        check("0 0 * * *", "America/New_York", "2026-03-01T23:00:00Z", "2026-03-02T05:00:00Z");
        // 2:30 does not exist on 29 March, and occurs twice on 25 October.
        check("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:30:00Z");
        check("30 2 * * *", "Europe/Berlin", "2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z");
        check("30 2 * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", "2026-10-25T00:30:00Z");
        check("30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z");
    }

    #[test]
    fn a_next_time_beyond_the_end_does_not_count() {
        let time = |text: &str| text.parse::<Timestamp>().unwrap();
        let hourly = Cron::parse("@hourly").unwrap();
        let next = |end: &str| hourly.next_due(time("2026-03-01T10:30:00Z"), time(end), &TimeZone::UTC);
        assert_eq!(next("2026-03-01T10:59:59Z"), None);
        assert_eq!(next("2026-03-01T11:00:00Z"), Some(time("2026-03-01T11:00:00Z")));
    }

    #[test]
    fn a_mistake_is_named() {
        let check = |cron: &str, expected: &str| assert_eq!(Cron::parse(cron).unwrap_err(), expected);
        check("* * * *", "a cron expression has 5 fields, not 4");
        check("60 * * * *", "\"60\" is not a valid minute");
        check("0 24 * * *", "\"24\" is not a valid hour");
        check("0 0 0 * *", "\"0\" is not a valid day of month");
        check("0 0 * foo *", "\"foo\" is not a valid month");
        check("0 0 * * 5-1", "\"5-1\" is not a valid day of week");
        check("*/0 * * * *", "\"*/0\" is not a valid minute");
        check("+5 * * * *", "\"+5\" is not a valid minute");
    }
}
