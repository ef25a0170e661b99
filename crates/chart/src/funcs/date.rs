//! Times and durations (Sprig's `date.go`), with Go's layouts. The time zone is UTC.

use std::rc::Rc;

use jiff::civil::{Date, Weekday};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp, Zoned};

use super::math::to_int64;
use super::strings::text;
use super::{Call, Function, Outcome, Type};
use crate::object::Object;
use crate::value::Value;

const ZONED: &[Type] = &[Type::Str, Type::Any, Type::Str];

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("now", &[], |call| Ok(time(call.env.fresh.now().to_zoned(TimeZone::UTC)))),
    Function::new("date", &[Type::Str, Type::Any], |call| text(&format(&time_of(call, 1), call.str(0)))),
    Function::new("dateInZone", ZONED, in_zone),
    Function::new("date_in_zone", ZONED, in_zone),
    Function::new("htmlDate", &[Type::Any], |call| text(&format(&time_of(call, 0), "2006-01-02"))),
    Function::new("htmlDateInZone", &[Type::Any, Type::Str], |call| {
        text(&format(&time_of(call, 0).with_time_zone(zone(call.str(1))), "2006-01-02"))
    }),
    Function::new("dateModify", &[Type::Str, Type::Time], |call| {
        Ok(modified(call).unwrap_or_else(|_| call.arg(1).clone()))
    }),
    Function::new("date_modify", &[Type::Str, Type::Time], |call| {
        Ok(modified(call).unwrap_or_else(|_| call.arg(1).clone()))
    }),
    Function::new("mustDateModify", &[Type::Str, Type::Time], |call| Ok(modified(call)?)),
    Function::new("must_date_modify", &[Type::Str, Type::Time], |call| Ok(modified(call)?)),
    Function::new("toDate", &[Type::Str, Type::Str], |call| {
        Ok(time(parse(call.str(0), call.str(1)).unwrap_or_else(zero)))
    }),
    Function::new("mustToDate", &[Type::Str, Type::Str], |call| {
        let reason = || format!("parsing time {:?} as {:?}: cannot parse", call.str(1), call.str(0));
        Ok(time(parse(call.str(0), call.str(1)).ok_or_else(reason)?))
    }),
    Function::new("unixEpoch", &[Type::Time], |call| {
        text(&time_of(call, 0).timestamp().as_second().to_string())
    }),
    Function::new("ago", &[Type::Any], |call| {
        let seconds = call.env.fresh.now().as_second() - time_of(call, 0).timestamp().as_second();
        text(&print_duration(seconds.saturating_mul(1_000_000_000)))
    }),
    Function::new("duration", &[Type::Any], |call| {
        let seconds = match call.arg(0) {
            Value::Str(text) => text.parse().unwrap_or(0),
            Value::Int64(seconds) => *seconds,
            _ => 0,
        };
        text(&print_duration(seconds.saturating_mul(1_000_000_000)))
    }),
    Function::new("durationRound", &[Type::Any], |call| text(&rounded(nanoseconds(call)))),
    Function::new("mustToDuration", &[Type::Any], |call| match call.arg(0) {
        Value::Str(written) => {
            let reason = || format!("time: invalid duration {:?}", &**written);
            Ok(Value::Object(Rc::new(Object::Duration(parse_duration(written).ok_or_else(reason)?))))
        }
        other => Ok(Value::Object(Rc::new(Object::Duration(to_int64(other).saturating_mul(1_000_000_000))))),
    }),
    Function::new("durationSeconds", &[Type::Any], |call| Ok(Value::Float(nanoseconds(call) as f64 / 1e9))),
    Function::new("durationMinutes", &[Type::Any], |call| Ok(Value::Float(nanoseconds(call) as f64 / 6e10))),
    Function::new("durationHours", &[Type::Any], |call| Ok(Value::Float(nanoseconds(call) as f64 / 3.6e12))),
];

fn time(time: Zoned) -> Value {
    Value::Object(Rc::new(Object::Time(time)))
}

/// Returns Go's zero time.
fn zero() -> Zoned {
    Date::constant(1, 1, 1).to_zoned(TimeZone::UTC).unwrap_or_default()
}

fn zone(name: &str) -> TimeZone {
    TimeZoneDatabase::bundled().get(name).unwrap_or(TimeZone::UTC)
}

/// Reads an argument as a time, or as seconds since 1970. All other values mean now.
fn time_of(call: Call<'_>, at: usize) -> Zoned {
    let seconds = match call.arg(at) {
        Value::Object(object) => match &**object {
            Object::Time(time) => return time.clone(),
            _ => None,
        },
        Value::Int(seconds) | Value::Int64(seconds) => Some(*seconds),
        _ => None,
    };
    let timestamp = seconds
        .and_then(|seconds| Timestamp::from_second(seconds).ok())
        .unwrap_or_else(|| call.env.fresh.now());
    timestamp.to_zoned(TimeZone::UTC)
}

fn in_zone(call: Call<'_>) -> Outcome {
    text(&format(&time_of(call, 1).with_time_zone(zone(call.str(2))), call.str(0)))
}

fn modified(call: Call<'_>) -> Result<Value, String> {
    let reason = || format!("time: invalid duration {:?}", call.str(0));
    let duration = SignedDuration::from_nanos(parse_duration(call.str(0)).ok_or_else(reason)?);
    let moved = time_of(call, 1).checked_add(duration).map_err(|error| error.to_string())?;
    Ok(time(moved))
}

fn nanoseconds(call: Call<'_>) -> i64 {
    match call.arg(0) {
        Value::Str(text) => parse_duration(text).unwrap_or(0),
        Value::Object(object) => match &**object {
            Object::Duration(nanoseconds) => *nanoseconds,
            Object::Time(time) => (call.env.fresh.now().as_second() - time.timestamp().as_second())
                .saturating_mul(1_000_000_000),
            _ => 0,
        },
        Value::Int64(number) | Value::Int(number) => *number,
        _ => 0,
    }
}

/// Parses a duration such as `1h30m`, like `time.ParseDuration`.
fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut total = 0f64;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let (number, after) = rest.split_at(end);
        let unit_end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let factor = match unit {
            "ns" => 1.0,
            "us" | "µs" | "μs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" => 6e10,
            "h" => 3.6e12,
            _ => return None,
        };
        total += number.parse::<f64>().ok()? * factor;
        rest = after;
    }
    (total < 9.2e18).then_some(if negative { -total } else { total } as i64)
}

/// Prints a duration like Go: `1h30m0s`, `1.5s`, `10ms`.
pub(crate) fn print_duration(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let size = nanoseconds.unsigned_abs();
    let fraction = |whole: u64, unit: u64, width: usize| {
        let digits = format!("{:0width$}", whole % unit);
        let digits = digits.trim_end_matches('0');
        if digits.is_empty() { (whole / unit).to_string() } else { format!("{}.{digits}", whole / unit) }
    };
    match size {
        0 => "0s".into(),
        1..1_000 => format!("{sign}{size}ns"),
        1_000..1_000_000 => format!("{sign}{}µs", fraction(size, 1_000, 3)),
        1_000_000..1_000_000_000 => format!("{sign}{}ms", fraction(size, 1_000_000, 6)),
        _ => {
            let minutes = size / 60_000_000_000;
            let seconds = fraction(size % 60_000_000_000, 1_000_000_000, 9);
            match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{sign}{seconds}s"),
                (0, minutes) => format!("{sign}{minutes}m{seconds}s"),
                (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}s"),
            }
        }
    }
}

/// Prints a duration in its largest unit.
fn rounded(nanoseconds: i64) -> String {
    let seconds = nanoseconds.unsigned_abs() / 1_000_000_000;
    const UNITS: [(u64, &str); 5] =
        [(31_536_000, "y"), (2_592_000, "mo"), (86_400, "d"), (3_600, "h"), (60, "m")];
    match UNITS.iter().find(|(size, _)| seconds > *size) {
        Some((size, unit)) => format!("{}{unit}", seconds / size),
        None if seconds > 1 => format!("{seconds}s"),
        None => "0s".into(),
    }
}

/// Prints a time like its `String` method.
pub(crate) fn print_time(time: &Zoned) -> String {
    format(time, "2006-01-02 15:04:05.999999999 -0700 MST")
}

/// The elements of layouts. Longer ones come before their prefixes.
const ELEMENTS: [&str; 33] = [
    "January",
    "Jan",
    "Monday",
    "Mon",
    "MST",
    "2006",
    "Z07:00:00",
    "Z07:00",
    "Z0700",
    "Z07",
    "-07:00:00",
    "-07:00",
    "-0700",
    "-07",
    "002",
    "01",
    "02",
    "03",
    "04",
    "05",
    "06",
    "15",
    "PM",
    "pm",
    "_2006",
    "__2",
    "_2",
    "1",
    "2",
    "3",
    "4",
    "5",
    ".",
];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

fn weekday(day: Weekday) -> &'static str {
    match day {
        Weekday::Monday => "Monday",
        Weekday::Tuesday => "Tuesday",
        Weekday::Wednesday => "Wednesday",
        Weekday::Thursday => "Thursday",
        Weekday::Friday => "Friday",
        Weekday::Saturday => "Saturday",
        Weekday::Sunday => "Sunday",
    }
}

/// Returns the element at the start of a layout.
fn element(layout: &str) -> Option<&str> {
    let found = *ELEMENTS.iter().find(|element| layout.starts_with(**element))?;
    if found != "." {
        // `Jan` and `Mon` are elements only if no lower-case letter follows.
        let after = layout.get(found.len()..).unwrap_or_default();
        let is_word = matches!(found, "Jan" | "Mon") && after.starts_with(|c: char| c.is_ascii_lowercase());
        return (!is_word).then_some(found);
    }
    let digit = layout.chars().nth(1).filter(|c| matches!(c, '0' | '9'))?;
    let count = layout.chars().skip(1).take_while(|c| *c == digit).count();
    let after = layout.chars().nth(1 + count);
    (!after.is_some_and(|c| c.is_ascii_digit())).then(|| layout.get(..=count)).flatten()
}

/// Prints a time in a layout, like `Time.Format`.
pub(crate) fn format(time: &Zoned, layout: &str) -> String {
    let mut out = String::new();
    let mut rest = layout;
    while let Some(c) = rest.chars().next() {
        let Some(found) = element(rest) else {
            out.push(c);
            rest = rest.get(c.len_utf8()..).unwrap_or_default();
            continue;
        };
        rest = rest.get(found.len()..).unwrap_or_default();
        out.push_str(&formatted(time, found));
    }
    out
}

fn formatted(time: &Zoned, element: &str) -> String {
    let month =
        usize::try_from(time.month() - 1).ok().and_then(|at| MONTHS.get(at)).copied().unwrap_or_default();
    let hour12 = (time.hour() + 11) % 12 + 1;
    match element {
        "January" => month.into(),
        "Jan" => month.get(..3).unwrap_or_default().into(),
        "Monday" => weekday(time.weekday()).into(),
        "Mon" => weekday(time.weekday()).get(..3).unwrap_or_default().into(),
        "MST" => abbreviation(time),
        "2006" => format!("{:04}", time.year()),
        "_2006" => format!("_{:04}", time.year()),
        "06" => format!("{:02}", time.year() % 100),
        "01" => format!("{:02}", time.month()),
        "1" => time.month().to_string(),
        "02" => format!("{:02}", time.day()),
        "_2" => format!("{:>2}", time.day()),
        "2" => time.day().to_string(),
        "002" => format!("{:03}", time.day_of_year()),
        "__2" => format!("{:>3}", time.day_of_year()),
        "15" => format!("{:02}", time.hour()),
        "03" => format!("{hour12:02}"),
        "3" => hour12.to_string(),
        "04" => format!("{:02}", time.minute()),
        "4" => time.minute().to_string(),
        "05" => format!("{:02}", time.second()),
        "5" => time.second().to_string(),
        "PM" => if time.hour() >= 12 { "PM" } else { "AM" }.into(),
        "pm" => if time.hour() >= 12 { "pm" } else { "am" }.into(),
        zone if zone.starts_with(['Z', '-']) => offset(time, zone),
        fraction => {
            let digits = format!("{:09}", time.subsec_nanosecond());
            let shown = digits.get(..fraction.len() - 1).unwrap_or(&digits);
            if fraction.contains('9') {
                let shown = shown.trim_end_matches('0');
                if shown.is_empty() { String::new() } else { format!(".{shown}") }
            } else {
                format!(".{shown}")
            }
        }
    }
}

fn abbreviation(time: &Zoned) -> String {
    let info = time.time_zone().to_offset_info(time.timestamp());
    info.abbreviation().to_owned()
}

fn offset(time: &Zoned, element: &str) -> String {
    let seconds = time.offset().seconds();
    if seconds == 0 && element.starts_with('Z') {
        return "Z".into();
    }
    let sign = if seconds < 0 { '-' } else { '+' };
    let size = seconds.unsigned_abs();
    let (hours, minutes, rest) = (size / 3600, size / 60 % 60, size % 60);
    match element.trim_start_matches(['Z', '-']) {
        "07" => format!("{sign}{hours:02}"),
        "0700" => format!("{sign}{hours:02}{minutes:02}"),
        "07:00" => format!("{sign}{hours:02}:{minutes:02}"),
        _ => format!("{sign}{hours:02}:{minutes:02}:{rest:02}"),
    }
}

/// Parses a time in a layout. Supports layouts with numbers and month names.
fn parse(layout: &str, value: &str) -> Option<Zoned> {
    let mut parts = Parts {
        rest: value,
        year: 0,
        month: 1,
        day: 1,
        time: [0; 3],
        nanosecond: 0,
        afternoon: None,
        shift: 0,
    };
    let mut layout = layout;
    while let Some(c) = layout.chars().next() {
        match element(layout) {
            None => {
                parts.rest = parts.rest.strip_prefix(c)?;
                layout = layout.get(c.len_utf8()..)?;
            }
            Some(found) => {
                layout = layout.get(found.len()..)?;
                parts.read(found)?;
            }
        }
    }
    if parts.rest.is_empty() { parts.zoned() } else { None }
}

/// The parsed parts of a time, and the remaining text.
struct Parts<'a> {
    rest: &'a str,
    year: i16,
    month: i8,
    day: i8,
    /// Hour, minute and second.
    time: [i8; 3],
    nanosecond: i32,
    afternoon: Option<bool>,
    /// The offset from UTC in seconds.
    shift: i32,
}

impl Parts<'_> {
    fn read(&mut self, element: &str) -> Option<()> {
        let [hour, minute, second] = &mut self.time;
        let rest = &mut self.rest;
        match element {
            "2006" => self.year = number(rest, 4, 4)?.try_into().ok()?,
            "06" => {
                let short: i16 = number(rest, 2, 2)?.try_into().ok()?;
                self.year = if short >= 69 { 1900 + short } else { 2000 + short };
            }
            "01" => self.month = number(rest, 2, 2)?.try_into().ok()?,
            "1" => self.month = number(rest, 1, 2)?.try_into().ok()?,
            "02" => self.day = number(rest, 2, 2)?.try_into().ok()?,
            "2" | "_2" => {
                *rest = rest.trim_start();
                self.day = number(rest, 1, 2)?.try_into().ok()?;
            }
            "15" | "03" => *hour = number(rest, 2, 2)?.try_into().ok()?,
            "3" => *hour = number(rest, 1, 2)?.try_into().ok()?,
            "04" => *minute = number(rest, 2, 2)?.try_into().ok()?,
            "4" => *minute = number(rest, 1, 2)?.try_into().ok()?,
            "05" => *second = number(rest, 2, 2)?.try_into().ok()?,
            "5" => *second = number(rest, 1, 2)?.try_into().ok()?,
            other => return self.read_word(other),
        }
        Some(())
    }

    fn read_word(&mut self, element: &str) -> Option<()> {
        let letters = |text: &str| text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len());
        match element {
            "January" | "Jan" => {
                let is_month = |name: &&str| self.rest.starts_with(name.get(..3).unwrap_or(name));
                let at = MONTHS.iter().position(is_month)?;
                let length = if element == "Jan" { 3 } else { MONTHS.get(at)?.len() };
                self.rest = self.rest.get(length..)?;
                self.month = i8::try_from(at + 1).ok()?;
            }
            "PM" | "pm" => {
                self.afternoon = Some(self.rest.get(..2)?.eq_ignore_ascii_case("pm"));
                self.rest = self.rest.get(2..)?;
            }
            "MST" | "Monday" | "Mon" => self.rest = self.rest.get(letters(self.rest)..)?,
            zone if zone.starts_with(['Z', '-']) => self.read_zone()?,
            fraction if fraction.starts_with('.') => {
                if let Some(rest) = self.rest.strip_prefix('.') {
                    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
                    self.nanosecond = format!("{:0<9}", rest.get(..end.min(9))?).parse().ok()?;
                    self.rest = rest.get(end..)?;
                }
            }
            _ => return None,
        }
        Some(())
    }

    fn read_zone(&mut self) -> Option<()> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Some(());
        }
        let sign = if self.rest.starts_with('-') { -1 } else { 1 };
        self.rest = self.rest.strip_prefix(['-', '+'])?;
        let hours = i32::try_from(number(&mut self.rest, 2, 2)?).ok()?;
        self.rest = self.rest.strip_prefix(':').unwrap_or(self.rest);
        let minutes = i32::try_from(number(&mut self.rest, 2, 2)?).ok()?;
        self.shift = sign * (hours * 3600 + minutes * 60);
        Some(())
    }

    fn zoned(&self) -> Option<Zoned> {
        let [hour, minute, second] = self.time;
        let hour = match self.afternoon {
            Some(true) if hour < 12 => hour + 12,
            Some(false) if hour == 12 => 0,
            _ => hour,
        };
        let time = jiff::civil::Time::new(hour, minute, second, self.nanosecond).ok()?;
        let time = Date::new(self.year, self.month, self.day).ok()?.to_datetime(time);
        let offset = jiff::tz::Offset::from_seconds(self.shift).ok()?;
        time.to_zoned(if self.shift == 0 { TimeZone::UTC } else { TimeZone::fixed(offset) }).ok()
    }
}

fn number(value: &mut &str, least: usize, most: usize) -> Option<u32> {
    let end = value.bytes().take(most).take_while(u8::is_ascii_digit).count();
    let number = value.get(..end).filter(|_| end >= least)?.parse().ok()?;
    *value = value.get(end..)?;
    Some(number)
}
