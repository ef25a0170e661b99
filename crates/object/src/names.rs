//! Validates names, label keys and label values as Kubernetes does, with the same messages.

const VALUE_FAULT: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and \
     end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
     '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const NAME_FAULT: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
     character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const PREFIX_FAULT: &str = "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
     start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// Returns the reason why a text is not a valid label value; `None` if it is valid.
pub fn label_value_fault(value: &str) -> Option<&'static str> {
    match value {
        "" => None,
        value if value.len() > 63 => Some("must be no more than 63 characters"),
        value if !is_name(value) => Some(VALUE_FAULT),
        _ => None,
    }
}

/// Returns the reason why a text is not a qualified name, as label and annotation keys must be; `None` if it is
/// valid.
pub fn qualified_name_fault(key: &str) -> Option<&'static str> {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    match (prefix, name) {
        (Some(""), _) => Some("prefix part must be non-empty"),
        (Some(prefix), _) if prefix.len() > 253 => Some("prefix part must be no more than 253 characters"),
        (Some(prefix), _) if !is_dns_subdomain(prefix) => Some(PREFIX_FAULT),
        (_, "") => Some("name part must be non-empty"),
        (_, name) if name.len() > 63 => Some("name part must be no more than 63 characters"),
        (_, name) if !is_name(name) => Some(NAME_FAULT),
        _ => None,
    }
}

fn is_name(text: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
}

/// Returns true if the text is an RFC 1123 label: at most 63 lowercase letters, digits and `-`, starting and
/// ending with an alphanumeric character.
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= 63 && is_dns_part(text)
}

/// Returns true if the text is an RFC 1123 subdomain: dot-separated parts like labels, at most 253 bytes in total.
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_dns_part)
}

fn is_dns_part(text: &str) -> bool {
    let alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.starts_with(alphanumeric)
        && text.ends_with(alphanumeric)
        && text.chars().all(|c| alphanumeric(c) || c == '-')
}
