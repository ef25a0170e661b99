//! The types of scalars.
//!
//! There are two readings, as in kubectl. Objects follow rules close to YAML 1.2: `yes` is a string, `0644` and
//! `0o644` are octal. Kustomizations and JSON patches follow YAML 1.1: `yes` is `true`. Both know dates, and
//! decimal, hexadecimal, octal and binary integers with underscores.

use serde_json::Number;

use super::node::{Scalar, Style, Tag};

/// The rules that give plain scalars their types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// For objects: `yes`, `on` and `n` are strings.
    Objects,
    /// For kustomizations and JSON patches, and for other readers of our output: `yes`, `on` and `n` are booleans.
    Yaml11,
}

/// Returns the type of a plain scalar.
pub(crate) fn tag_of(text: &str, reading: Reading) -> Tag {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Tag::Null,
        "true" | "True" | "TRUE" | "false" | "False" | "FALSE" => return Tag::Bool,
        ".nan" | ".NaN" | ".NAN" => return Tag::Float,
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" | "-.inf" | "-.Inf" | "-.INF" => {
            return Tag::Float;
        }
        _ => {}
    }
    if reading == Reading::Yaml11 && bool_11(text).is_some() {
        return Tag::Bool;
    }
    match text.as_bytes().first() {
        Some(b'.') if is_float(text) => Tag::Float,
        Some(b'0'..=b'9' | b'+' | b'-') => number_tag(text),
        _ => Tag::Str,
    }
}

fn number_tag(text: &str) -> Tag {
    if is_timestamp(text) {
        return Tag::Timestamp;
    }
    let plain = without_underscores(text);
    match integer(&plain) {
        Some(_) => Tag::Int,
        None if is_float(&plain) => Tag::Float,
        None => Tag::Str,
    }
}

pub(super) fn bool_11(text: &str) -> Option<bool> {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "true" | "True" | "TRUE" => Some(true),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "false" | "False" | "FALSE" => Some(false),
        _ => None,
    }
}

/// Returns true if a string needs quotes because a YAML 1.1 reader would read another type.
pub fn reads_as_another_type(text: &str) -> bool {
    tag_of(text, Reading::Yaml11) != Tag::Str
}

impl Scalar {
    /// Returns the type of the scalar, resolving an unsettled one.
    pub fn settled(&self) -> Tag {
        match (self.tag, self.style) {
            (Tag::Unsettled, Style::Plain) => tag_of(&self.text, Reading::Objects),
            (Tag::Unsettled, Style::Quoted | Style::Folded | Style::Tagged) => Tag::Str,
            (tag, _) => tag,
        }
    }
}

pub(super) fn without_underscores(text: &str) -> String {
    text.chars().filter(|c| *c != '_').collect()
}

/// Splits an integer as Go does into its sign (true if negative), radix, and lowercase digits. The text may start
/// with a sign and one of the prefixes `0x`, `0o`, `0b` and `0`.
pub fn radix(text: &str) -> Option<(bool, u32, String)> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, lower.get(2..)?),
        [b'0', b'o', ..] => (8, lower.get(2..)?),
        [b'0', b'b', ..] => (2, lower.get(2..)?),
        [b'0', _, ..] => (8, lower.get(1..)?),
        _ => (10, lower.as_str()),
    };
    Some((negative, radix, digits.to_owned()))
}

/// Parses an integer in the syntax of [`radix`].
pub(super) fn integer(text: &str) -> Option<Number> {
    let (negative, radix, digits) = radix(text)?;
    if digits.is_empty() || !digits.bytes().all(|b| (b as char).is_digit(radix)) {
        return None;
    }
    let magnitude = u64::from_str_radix(&digits, radix).ok()?;
    match (negative, i64::try_from(magnitude)) {
        (false, Ok(value)) => Some(value.into()),
        (false, Err(_)) => (!text.starts_with('+')).then(|| magnitude.into()),
        (true, Ok(value)) => Some((-value).into()),
        (true, Err(_)) => (magnitude == i64::MIN.unsigned_abs()).then(|| i64::MIN.into()),
    }
}

/// Returns true if a text is a finite float.
pub(super) fn is_float(text: &str) -> bool {
    has_float_syntax(text) && text.parse::<f64>().is_ok_and(f64::is_finite)
}

/// Returns true if a text matches `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`.
pub fn has_float_syntax(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let mantissa_fits = match mantissa.split_once('.') {
        Some(("", fraction)) => digits(fraction),
        Some((whole, fraction)) => digits(whole) && (fraction.is_empty() || digits(fraction)),
        None => digits(mantissa),
    };
    let exponent_fits =
        exponent.is_none_or(|exponent| digits(exponent.strip_prefix(['-', '+']).unwrap_or(exponent)));
    mantissa_fits && exponent_fits
}

/// Returns true if a text is a date (`2024-01-31`) or a date with a time.
fn is_timestamp(text: &str) -> bool {
    timestamp(text).is_some()
}

/// Returns a date or time in RFC 3339 form, as objects get it for a plain scalar: `2024-1-31` becomes
/// `2024-01-31T00:00:00Z`.
pub(super) fn timestamp(text: &str) -> Option<String> {
    if text.len() < 8 || text.as_bytes().get(4) != Some(&b'-') {
        return None;
    }
    let (year, rest) = take_number(text, 4, 4)?;
    let (month, rest) = take_number(rest.strip_prefix('-')?, 1, 2)?;
    let (day, rest) = take_number(rest.strip_prefix('-')?, 1, 2)?;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=days).contains(&day) {
        return None;
    }
    let date = format!("{year:04}-{month:02}-{day:02}T");
    if rest.is_empty() {
        return Some(format!("{date}00:00:00Z"));
    }
    let (zoned, rest) = match rest.strip_prefix(['T', 't']) {
        Some(rest) => (true, rest),
        None => (false, rest.strip_prefix(' ')?),
    };
    let (hour, rest) = take_number(rest, 1, 2)?;
    let (minute, rest) = take_number(rest.strip_prefix(':')?, 1, 2)?;
    let (second, rest) = take_number(rest.strip_prefix(':')?, 1, 2)?;
    let (fraction, rest) = match rest.strip_prefix(['.', ',']) {
        Some(digits) => {
            let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
            (end > 0).then(|| digits.split_at(end))?
        }
        None => ("", rest),
    };
    let zone = match (zoned, rest) {
        (false, "") | (true, "Z" | "+00:00" | "-00:00") => "Z",
        (true, zone) if is_zone(zone) => zone,
        _ => return None,
    };
    if hour >= 24 || minute >= 60 || second >= 60 {
        return None;
    }
    let fraction = fraction.get(..9).unwrap_or(fraction).trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    Some(format!("{date}{hour:02}:{minute:02}:{second:02}{point}{fraction}{zone}"))
}

fn is_zone(text: &str) -> bool {
    let offset = |text: &str| {
        let (hours, rest) = take_number(text, 2, 2)?;
        let (minutes, rest) = take_number(rest.strip_prefix(':')?, 2, 2)?;
        (hours <= 24 && minutes < 60 && rest.is_empty()).then_some(())
    };
    text.strip_prefix(['+', '-']).is_some_and(|text| offset(text).is_some())
}

/// Reads a number of `least` to `most` digits, as many as possible.
fn take_number(text: &str, least: usize, most: usize) -> Option<(u32, &str)> {
    let end = text.bytes().take(most).take_while(u8::is_ascii_digit).count();
    (end >= least).then(|| Some((text.get(..end)?.parse().ok()?, text.get(end..)?)))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn plain(text: &str) -> Scalar {
        Scalar { text: text.into(), tag: tag_of(text, Reading::Objects), style: Style::Plain }
    }

    #[test]
    fn plain_scalars_mean_what_they_mean_to_kubectl() {
        for (text, objects, yaml11) in [
            ("yes", json!("yes"), json!(true)),
            ("on", json!("on"), json!(true)),
            ("n", json!("n"), json!(false)),
            ("true", json!(true), json!(true)),
            ("TRUE", json!(true), json!(true)),
            ("tRUE", json!("tRUE"), json!("tRUE")),
            ("~", json!(null), json!(null)),
            ("", json!(null), json!(null)),
            ("0644", json!(420), json!(420)),
            ("0o644", json!(420), json!(420)),
            ("0x1F", json!(31), json!(31)),
            ("0b101", json!(5), json!(5)),
            ("089", json!(89), json!(89)),
            ("1_000", json!(1000), json!(1000)),
            ("+12", json!(12), json!(12)),
            ("-9223372036854775808", json!(i64::MIN), json!(i64::MIN)),
            ("18446744073709551615", json!(u64::MAX), json!(u64::MAX)),
            ("1e3", json!(1000), json!(1000)),
            ("1.5", json!(1.5), json!(1.5)),
            (".5", json!(0.5), json!(0.5)),
            ("1e400", json!("1e400"), json!("1e400")),
            ("1.2.3", json!("1.2.3"), json!("1.2.3")),
            ("12:30:45", json!("12:30:45"), json!("12:30:45")),
            ("2024-01-01", json!("2024-01-01T00:00:00Z"), json!("2024-01-01")),
            (
                "2024-01-01T10:00:00.500+02:00",
                json!("2024-01-01T10:00:00.5+02:00"),
                json!("2024-01-01T10:00:00.500+02:00"),
            ),
            ("2024-1-1 1:02:03", json!("2024-01-01T01:02:03Z"), json!("2024-1-1 1:02:03")),
            ("0xZZ", json!("0xZZ"), json!("0xZZ")),
            ("-", json!("-"), json!("-")),
        ] {
            assert_eq!(plain(text).to_json(Reading::Objects), Ok(objects), "{text}");
            assert_eq!(plain(text).to_json(Reading::Yaml11), Ok(yaml11), "{text}, YAML 1.1");
        }
    }

    #[test]
    fn infinities_have_no_json() {
        for text in [".inf", "-.INF", ".nan"] {
            assert!(plain(text).to_json(Reading::Objects).is_err(), "{text}");
        }
    }

    #[test]
    fn dates_are_recognized_by_their_form() {
        for text in [
            "2024-01-01",
            "2024-2-29",
            "2001-12-14T21:59:43.10-05:00",
            "2001-12-14t21:59:43Z",
            "2001-12-14 21:59:43",
        ] {
            assert!(is_timestamp(text), "{text}");
        }
        for text in [
            "2023-02-29",
            "2024-13-01",
            "2024-01-01T",
            "2024-01-01T00:00:00",
            "20240101",
            "2024-01",
            "2024-01-01x",
        ] {
            assert!(!is_timestamp(text), "{text}");
        }
    }

    #[test]
    fn a_quoted_scalar_is_a_string() {
        let quoted = Scalar { text: "1".into(), tag: Tag::Str, style: Style::Quoted };
        assert_eq!(quoted.to_json(Reading::Yaml11), Ok(json!("1")));
        let unsettled = Scalar { tag: Tag::Unsettled, ..quoted };
        assert_eq!(unsettled.to_json(Reading::Objects), Ok(json!("1")));
    }
}
