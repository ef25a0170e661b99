//! Checks the named formats of strings. Formats that kube-apiserver does not know are not checked.

use base64::Engine;

/// The format of `metav1.MicroTime`, which the schemas of built-in kinds do not distinguish from a time.
pub(super) const MICRO_TIME: &str = "micro-time";

/// Returns true if a text has a format.
pub(super) fn is_valid(format: &str, text: &str) -> bool {
    match format {
        MICRO_TIME => is_micro_time(text),
        "date-time" => object::date_time::is_date_time(text),
        "date" => text.parse::<jiff::civil::Date>().is_ok(),
        "byte" => base64::engine::general_purpose::STANDARD.decode(text).is_ok(),
        "ipv4" => text.parse::<std::net::Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<std::net::Ipv6Addr>().is_ok(),
        "cidr" => text.split_once('/').is_some_and(|(ip, bits)| {
            ip.parse::<std::net::IpAddr>().is_ok_and(|ip| {
                bits.parse::<u8>().is_ok_and(|bits| bits <= if ip.is_ipv4() { 32 } else { 128 })
            })
        }),
        "uuid" | "uuid3" | "uuid4" | "uuid5" => {
            let parts: Vec<_> = text.split('-').map(str::len).collect();
            (parts == [8, 4, 4, 4, 12] || text.len() == 32)
                && text.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
        }
        "duration" => is_duration(text),
        "uri" | "url" => {
            text.split_once(':')
                .is_some_and(|(scheme, _)| scheme.starts_with(|c: char| c.is_ascii_alphabetic()))
                || text.starts_with('/')
        }
        "hostname" => object::names::is_dns_subdomain(&text.to_lowercase()),
        "email" => text.split_once('@').is_some_and(|(who, host)| !who.is_empty() && !host.is_empty()),
        _ => true,
    }
}

/// Returns true if a text is a time with six fractional digits. Go accepts no other as a `MicroTime`.
fn is_micro_time(text: &str) -> bool {
    let digits = text.split_once('.').map(|(_, rest)| rest.chars().take_while(char::is_ascii_digit).count());
    digits == Some(6) && object::date_time::is_date_time(text)
}

/// Returns true if a text is a Go duration, such as `1h2m3.5s`, or a Scala duration, such as `5 days`.
fn is_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let units = ["ns", "us", "µs", "ms", "s", "m", "h"];
        let word = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(word);
        let scala =
            [" days", " day", " hours", " hour", " minutes", " minute", " seconds", " second", "d", "w"];
        if number.parse::<f64>().is_err() || !(units.contains(&unit) || scala.contains(&unit)) {
            return false;
        }
        rest = tail;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_checked() {
        for (format, good, bad) in [
            ("date-time", "2026-01-02T03:04:05Z", "yesterday"),
            (MICRO_TIME, "2026-01-02T03:04:05.000000Z", "2026-01-02T03:04:05Z"),
            ("date", "2026-01-02", "2026-13-02"),
            ("byte", "aGk=", "%"),
            ("ipv4", "1.2.3.4", "1.2.3"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("duration", "1h2m3.5s", "soon"),
            ("uuid", "7c9e6679-7425-40de-944b-e07fc1f90ae7", "7c9e"),
        ] {
            assert!(is_valid(format, good) && !is_valid(format, bad), "{format}");
        }
        assert!(is_valid("made-up", "anything"));
    }
}
