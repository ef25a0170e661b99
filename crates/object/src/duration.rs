//! Durations in Go's format, which OCM's fields use.

use jiff::{SignedDuration, Timestamp};

const NANOS: [(&str, f64); 8] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("\u{b5}s", 1e3),
    ("\u{3bc}s", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3600e9),
];

/// Adds a duration to a time; returns the last supported time if the result would be later.
pub fn later(time: Timestamp, by: SignedDuration) -> Timestamp {
    time.saturating_add(by).unwrap_or(Timestamp::MAX)
}

/// Truncates a time to whole seconds, as objects store it, so that it reads back unchanged.
pub fn whole_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// Returns the wait after a number of consecutive failures. The first wait doubles with each further failure, up
/// to the longest.
pub fn doubled(first: SignedDuration, longest: SignedDuration, failures: u32) -> SignedDuration {
    first.saturating_mul(1 << failures.saturating_sub(1).min(30)).min(longest)
}

/// Returns a part of a span that depends on a name, to spread work that many names would do at the same time.
pub fn spread(name: &str, span: SignedDuration) -> SignedDuration {
    let hash = name.bytes().fold(7_u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
    (span / 250).saturating_mul(i32::try_from(hash % 250).unwrap_or_default())
}

/// Parses a duration like Go's [`time.ParseDuration`](https://pkg.go.dev/time#ParseDuration): `1h30m`, `1.5h`,
/// `500ms`, `0`.
///
/// Returns `None` if the text is not a duration, or exceeds 292 years, Go's limit.
pub fn parse(text: &str) -> Option<SignedDuration> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total = 0i64;
    while !rest.is_empty() {
        let number = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
        let (number, tail) = rest.split_at_checked(number)?;
        let unit = tail.len() - tail.trim_start_matches(|c: char| !c.is_ascii_digit() && c != '.').len();
        let (unit, tail) = tail.split_at_checked(unit)?;
        let (_, scale) = NANOS.iter().find(|(name, _)| *name == unit)?;
        total = total.checked_add(nanos(number, *scale)?)?;
        rest = tail;
    }
    Some(SignedDuration::from_nanos(if negative { -total } else { total }))
}

/// Returns `number` × `scale`: the whole part exactly, the fraction rounded down to a nanosecond.
#[expect(clippy::cast_possible_truncation, reason = "scale is a whole number and the fraction is below it")]
fn nanos(number: &str, scale: f64) -> Option<i64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let whole = if whole.is_empty() { 0 } else { whole.parse::<i64>().ok()? };
    let fraction = if fraction.is_empty() { 0.0 } else { format!("0.{fraction}").parse::<f64>().ok()? };
    whole.checked_mul(scale as i64)?.checked_add((fraction * scale) as i64)
}

/// Formats a duration for OCM's fields: `90s` becomes `1m30s`, zero becomes `0s`.
pub fn format(duration: SignedDuration) -> String {
    let (total, millis) = (duration.as_secs().unsigned_abs(), duration.subsec_millis().unsigned_abs());
    let parts = [(total / 3600, "h"), (total / 60 % 60, "m"), (total % 60, "s")];
    let mut text: String =
        parts.iter().filter(|(n, _)| *n != 0).map(|(n, unit)| format!("{n}{unit}")).collect();
    if millis != 0 {
        text += &format!("{millis}ms");
    }
    match (text.is_empty(), duration.is_negative()) {
        (true, _) => "0s".into(),
        (false, true) => format!("-{text}"),
        (false, false) => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_maximum() {
        let seconds = SignedDuration::from_secs;
        let waits = [0, 1, 2, 3, 7, 8, u32::MAX].map(|n| doubled(seconds(10), seconds(600), n).as_secs());
        assert_eq!(waits, [10, 10, 20, 40, 600, 600, 600]);
        assert_eq!(doubled(SignedDuration::MAX, SignedDuration::MAX, 9), SignedDuration::MAX);
    }

    #[test]
    fn names_spread_over_a_span() {
        let span = SignedDuration::from_secs(15);
        let parts: Vec<_> = (0..100).map(|i| spread(&format!("cluster-{i}"), span).as_secs()).collect();
        assert!(parts.iter().all(|second| (0..15).contains(second)));
        let most = (0..15).map(|second| parts.iter().filter(|part| **part == second).count()).max();
        assert!(most <= Some(15), "{parts:?}");
    }

    #[test]
    fn durations_survive_a_round_trip() {
        for text in ["0s", "1h30m", "-1h30m", "-500ms", "1m0s5ms", "-2m"] {
            let read = parse(text).unwrap();
            assert_eq!(parse(&format(read)), Some(read), "{text}");
        }
    }

    #[test]
    fn durations_are_read_as_go_reads_them() {
        let check = |text: &str, seconds: Option<f64>| {
            assert_eq!(parse(text).map(|d| d.as_secs_f64()), seconds, "{text:?}");
        };
        check("0", Some(0.0));
        check("90s", Some(90.0));
        check("1h30m", Some(5400.0));
        check("1.5h", Some(5400.0));
        check("500ms", Some(0.5));
        check(".5s", Some(0.5));
        check("-2m", Some(-120.0));
        check("+2m", Some(120.0));
        check("7us", Some(7e-6));
        for bad in
            ["", "-", "5", "s", ".s", "5x", "5mxyz", "1|", "1 h", "1..5s", "None", "9999999999999h", "5m|"]
        {
            check(bad, None);
        }
    }

    #[test]
    fn a_duration_is_written_so_that_it_reads_back() {
        for text in ["0s", "1m30s", "2h", "1h1s", "500ms"] {
            assert_eq!(format(parse(text).unwrap()), text);
        }
    }
}
