//! Percent encoding of paths (RFC 3986, 2.1).

/// Decodes `%xx`. Keeps invalid escapes, and replaces invalid UTF-8.
pub(super) fn decoded(path: &str) -> String {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let escaped = if first == b'%' { tail.first_chunk::<2>().and_then(hex_byte) } else { None };
        bytes.push(escaped.unwrap_or(first));
        rest = tail.get(if escaped.is_some() { 2 } else { 0 }..).unwrap_or_default();
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hex_byte(digits: &[u8; 2]) -> Option<u8> {
    let [high, low] = digits.map(|d| char::from(d).to_digit(16));
    u8::try_from(high? * 16 + low?).ok()
}
