//! Parses every time that an API server accepts.
//!
//! For custom resources, an API server checks the format `date-time` only with a pattern. So a field may contain
//! text that our library cannot parse, such as a year after the last supported time, or an offset of 99 hours.
//! Types read such fields with [`timestamp`], which never fails for text that [`is_date_time`] accepts. See
//! docs/hazards-hub.md#unreadable-times.

use std::sync::LazyLock;

use jiff::civil::{Date, DateTime};
use jiff::{SignedDuration, Timestamp};
use regex::Regex;
use serde_json::Value;

/// The time of day and the zone, as `strfmt.IsDateTime` of kube-openapi matches them. Any character may precede
/// the fraction.
static TIME: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(?:[zZ]|([+-])([0-9]{2}):([0-9]{2}))$")
        .expect("the pattern is a constant")
});

/// Returns true if a text has the format `date-time` according to kube-apiserver (`strfmt.IsDateTime`).
pub fn is_date_time(text: &str) -> bool {
    parts(text).is_some()
}

/// Parses a time; returns `None` if neither RFC 3339 nor [`is_date_time`] accepts it.
///
/// Times before the year 1 or after the last supported time are clamped, so that the result can be written again.
/// If only the pattern accepts the text, the fraction is dropped.
pub fn timestamp(text: &str) -> Option<Timestamp> {
    let read = text.parse().ok().or_else(|| parts(text)).or_else(|| beyond(text))?;
    Some(read.max(first()))
}

/// Returns the first time with a year of four digits, which is Go's zero time.
fn first() -> Timestamp {
    const YEAR_ONE: i64 = -62_135_596_800;
    Timestamp::from_second(YEAR_ONE).expect("the year 1 is in the range of times")
}

fn parts(text: &str) -> Option<Timestamp> {
    // Upstream also ignores the text after a second `t`.
    let mut halves = text.split(['t', 'T']);
    let (date, time) = (halves.next()?, halves.next()?);
    let is_plain = date.len() == "2006-01-02".len() && date.starts_with(|c: char| c.is_ascii_digit());
    let date: Date = date.parse().ok().filter(|_| is_plain)?;
    let found = TIME.captures(time)?;
    let number = |group: usize| found.get(group).and_then(|text| text.as_str().parse::<i8>().ok());
    let (hour, minute, second) = (number(1)?, number(2)?, number(3)?);
    let civil = DateTime::from_parts(date, jiff::civil::Time::new(hour, minute, second, 0).ok()?);
    let offset =
        i64::from(number(6).unwrap_or_default()) * 3600 + i64::from(number(7).unwrap_or_default()) * 60;
    let is_west = found.get(5).is_some_and(|sign| sign.as_str() == "-");
    let epoch = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
    let local = civil.duration_since(epoch);
    let utc = local - SignedDuration::from_secs(if is_west { -offset } else { offset });
    let range = Timestamp::MIN.as_second()..=Timestamp::MAX.as_second();
    Timestamp::from_second(utc.as_secs().clamp(*range.start(), *range.end())).ok()
}

/// Returns the limit that a time exceeds. Go writes the times of built-in kinds in UTC, and the result may be
/// outside the years that Go can parse.
fn beyond(text: &str) -> Option<Timestamp> {
    let (year, _) = text.strip_prefix('-').unwrap_or(text).split_once('-')?;
    let is_year = !year.is_empty() && year.len() <= 5 && year.bytes().all(|byte| byte.is_ascii_digit());
    match (text.starts_with('-'), year.len()) {
        _ if !is_year => None,
        (true, _) => Some(Timestamp::MIN),
        (false, 5) => Some(Timestamp::MAX),
        (false, _) => None,
    }
}

/// Replaces every time in an object that our library cannot parse with the time it means; returns whether there
/// was any.
///
/// A time is a text in a field whose name ends in `time` or `Timestamp`, as in built-in kinds.
pub fn clamp_times(value: &mut Value) -> bool {
    let mut is_changed = false;
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                is_changed |= match value {
                    Value::String(text) if is_time(name) => clamp(text),
                    value => clamp_times(value),
                };
            }
        }
        Value::Array(items) => {
            for item in items {
                is_changed |= clamp_times(item);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    is_changed
}

fn is_time(field: &str) -> bool {
    field == "time" || field.ends_with("Time") || field.ends_with("Timestamp")
}

fn clamp(text: &mut String) -> bool {
    let is_read = text.parse::<Timestamp>().is_ok_and(|read| read >= first());
    match timestamp(text).filter(|_| !is_read) {
        Some(time) => {
            *text = jiff::fmt::strtime::format("%Y-%m-%dT%H:%M:%SZ", time).unwrap_or_default();
            true
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A text, and the time it means.
    const ADMITTED: &[(&str, &str)] = &[
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
        ("2026-01-02t03:04:05z", "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05.5+01:00", "2026-01-02T02:04:05.5Z"),
        ("9999-12-31T23:59:59Z", "9999-12-30T22:00:00Z"),
        ("2026-01-05T03:04:05+99:99", "2025-12-31T22:25:05Z"),
        ("2026-01-02T00:00:00x5Z", "2026-01-02T00:00:00Z"),
        ("2026-01-02T03:04:05.0123456789012345Z", "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05Zthe end", "2026-01-02T03:04:05Z"),
        ("0000-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
        ("0000-01-01T00:00:00+99:99", "0001-01-01T00:00:00Z"),
        ("9999-12-31T23:59:59-99:99", "9999-12-30T22:00:00Z"),
    ];

    #[test]
    fn every_time_that_an_api_server_admits_can_be_read() {
        for (text, time) in ADMITTED {
            let time: Timestamp = time.parse().unwrap();
            assert!(is_date_time(text), "{text}");
            let read = timestamp(text).unwrap();
            assert!(read == time || read.as_second() == time.as_second(), "{text}: {read}");
        }
    }

    #[test]
    fn other_texts_are_not_times() {
        for text in [
            "",
            "yesterday",
            "2026-01-02",
            "2026-01-02 03:04:05Z",
            "2026-13-02T03:04:05Z",
            "2026-02-30T00:00:00Z",
            "2026-01-02T24:00:00Z",
            "2026-01-02T00:60:00Z",
            "2026-01-02T00:00:60Z",
            "2026-01-02T00:00:00",
            "20260102T000000Z",
            "+2026-01-02T00:00:00Z",
            "2026-01-02T00:00:00+0100",
        ] {
            assert!(!is_date_time(text), "{text}");
        }
        assert_eq!([timestamp("yesterday"), timestamp(""), timestamp("2026-13-02T03:04:05Z")], [None; 3]);
    }

    #[test]
    fn times_outside_of_the_years_of_go_are_the_first_and_the_last() {
        assert_eq!(
            timestamp("10000-01-01T20:59:59.000000Z").map(Timestamp::as_second),
            Some(Timestamp::MAX.as_second())
        );
        assert_eq!(timestamp("-0001-12-31T01:00:00Z"), Some(first()));
    }

    #[test]
    fn only_times_that_cannot_be_read_are_changed() {
        let mut value = json!({
            "spec": {"renewTime": "9999-12-31T23:59:59.000000Z", "acquireTime": "2026-01-02T03:04:05.000001Z", "time": "noon"},
            "metadata": {"managedFields": [{"time": "9999-12-31T23:59:59Z"}], "annotations": {"until": "9999-12-31T23:59:59Z"}},
        });
        assert!(clamp_times(&mut value));
        let want = json!({
            "spec": {"renewTime": "9999-12-30T22:00:00Z", "acquireTime": "2026-01-02T03:04:05.000001Z", "time": "noon"},
            "metadata": {"managedFields": [{"time": "9999-12-30T22:00:00Z"}], "annotations": {"until": "9999-12-31T23:59:59Z"}},
        });
        assert_eq!(value, want);
        assert!(!clamp_times(&mut value));
    }
}
