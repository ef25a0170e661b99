//! `format`, which drafts before 2019 validate. Unlisted formats are not checked.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Returns the reason why a text does not match a format.
pub(super) fn refused(format: &str, text: &str) -> Option<String> {
    let is_valid = match format {
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "hostname" => is_hostname(text),
        "email" => is_email(text),
        "date" => is_date(text),
        "date-time" => is_date_time(text),
        "uri" | "iri" => is_uri(text),
        "uuid" => is_uuid(text),
        _ => true,
    };
    (!is_valid).then(|| format!("the text does not have the format {format}"))
}

fn is_hostname(text: &str) -> bool {
    let text = text.strip_suffix('.').unwrap_or(text);
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else { return false };
    let is_quoted = local.len() > 1 && local.starts_with('"');
    let is_plain = !local.is_empty()
        && !local.starts_with('.')
        && !local.ends_with('.')
        && !local.contains("..")
        && local.chars().all(|c| c.is_ascii_alphanumeric() || ".!#$%&'*+-/=?^_`{|}~".contains(c));
    let address = domain.strip_prefix('[').and_then(|domain| domain.strip_suffix(']'));
    let is_domain = match address {
        Some(address) => address.strip_prefix("IPv6:").map_or_else(
            || address.parse::<Ipv4Addr>().is_ok(),
            |address| address.parse::<Ipv6Addr>().is_ok(),
        ),
        None => is_hostname(domain),
    };
    text.len() <= 254 && local.len() <= 64 && (is_quoted || is_plain) && is_domain
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()
}

fn is_date_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't']) else { return false };
    is_date(date) && time.len() >= 9 && text.to_ascii_uppercase().parse::<jiff::Timestamp>().is_ok()
}

/// Returns true if a text is an absolute URI.
fn is_uri(text: &str) -> bool {
    let Some((scheme, _)) = text.split_once(':') else { return false };
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
        && !text.chars().any(|c| c.is_control() || c == ' ' || c == '\\')
}

fn is_uuid(text: &str) -> bool {
    let lengths: Vec<usize> = text.split('-').map(str::len).collect();
    lengths == [8, 4, 4, 4, 12] && text.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
}
