//! Paths and URLs (Go's `path` and `net/url`, Sprig's `url.go`).

use super::strings::text;
use super::{Call, Function, Outcome, Type};
use crate::value::{Map, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("base", &[Type::Str], |call| text(&base(call.str(0)))),
    Function::new("dir", &[Type::Str], |call| text(&dir(call.str(0)))),
    Function::new("ext", &[Type::Str], |call| text(ext(call.str(0)))),
    Function::new("clean", &[Type::Str], |call| text(&clean(call.str(0)))),
    Function::new("isAbs", &[Type::Str], |call| Ok(Value::Bool(call.str(0).starts_with('/')))),
    Function::new("osBase", &[Type::Str], |call| text(&base(call.str(0)))),
    Function::new("osDir", &[Type::Str], |call| text(&dir(call.str(0)))),
    Function::new("osExt", &[Type::Str], |call| text(ext(call.str(0)))),
    Function::new("osClean", &[Type::Str], |call| text(&clean(call.str(0)))),
    Function::new("osIsAbs", &[Type::Str], |call| Ok(Value::Bool(call.str(0).starts_with('/')))),
    Function::new("urlParse", &[Type::Str], url_parse),
    Function::new("urlJoin", &[Type::Map], url_join),
];

fn base(path: &str) -> String {
    if path.is_empty() {
        return ".".into();
    }
    match path.trim_end_matches('/').rsplit('/').next() {
        Some("") | None => "/".into(),
        Some(name) => name.into(),
    }
}

fn dir(path: &str) -> String {
    clean(path.get(..path.rfind('/').map_or(0, |at| at + 1)).unwrap_or_default())
}

fn ext(path: &str) -> &str {
    let name = path.rfind('/').and_then(|at| path.get(at + 1..)).unwrap_or(path);
    name.rfind('.').and_then(|at| name.get(at..)).unwrap_or_default()
}

/// Resolves `.`, `..` and double slashes, like `path.Clean`.
pub(crate) fn clean(path: &str) -> String {
    let rooted = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if rooted => {}
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    match (rooted, joined.is_empty()) {
        (true, _) => format!("/{joined}"),
        (false, true) => ".".into(),
        (false, false) => joined,
    }
}

/// Escapes a text for the query of a URL, like `url.QueryEscape`.
pub(super) fn query_escape(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            b' ' => out.push('+'),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

fn unescaped(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        if *byte == b'%' {
            out.push(u8::from_str_radix(text.get(at + 1..at + 3)?, 16).ok()?);
            at += 3;
        } else {
            out.push(*byte);
            at += 1;
        }
    }
    Some(String::from_utf8_lossy(&out).into_owned())
}

fn url_parse(call: Call<'_>) -> Outcome {
    let url = call.str(0);
    let bad = || format!("unable to parse url: parse {url:?}: invalid URL");
    if url.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err(
            format!("unable to parse url: parse {url:?}: net/url: invalid control character in URL").into()
        );
    }
    let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (scheme, rest) = match rest.split_once(':') {
        Some((scheme, rest))
            if scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b)) =>
        {
            (scheme.to_ascii_lowercase(), rest)
        }
        Some(("", _)) => {
            return Err(format!("unable to parse url: parse {url:?}: missing protocol scheme").into());
        }
        _ => (String::new(), rest),
    };
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    if !rest.starts_with('/')
        && scheme.is_empty()
        && rest.split('/').next().is_some_and(|first| first.contains(':'))
    {
        let reason = "first path segment in URL cannot contain colon";
        return Err(format!("unable to parse url: parse {url:?}: {reason}").into());
    }
    let is_opaque = !scheme.is_empty() && !rest.starts_with('/') && !rest.is_empty();
    let (opaque, rest) = if is_opaque { (rest, "") } else { ("", rest) };
    let (authority, path) = match rest.strip_prefix("//") {
        Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        None => ("", rest),
    };
    let (userinfo, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let hostname = match (host.strip_prefix('['), host.rsplit_once(':')) {
        (Some(rest), _) => rest.split(']').next().unwrap_or_default(),
        (None, Some((name, port))) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        (None, Some(_)) => return Err(bad().into()),
        (None, None) => host,
    };
    let path = unescaped(path).ok_or_else(bad)?;
    let fields = [
        ("scheme", scheme.as_str()),
        ("host", host),
        ("hostname", hostname),
        ("path", &path),
        ("query", query),
        ("opaque", opaque),
        ("fragment", fragment),
        ("userinfo", userinfo),
    ];
    Ok(Value::Map(fields.into_iter().map(|(key, value)| (key, Value::str(value))).collect::<Map>()))
}

fn url_join(call: Call<'_>) -> Outcome {
    let field = |key: &str| -> Result<String, crate::fault::Fault> {
        match call.map(0).and_then(|map| map.get(key)) {
            None => Ok(String::new()),
            Some(Value::Str(text)) => Ok(text.to_string()),
            Some(other) => {
                let text = format!(
                    "unable to parse {key} key, must be of type string, but {} found",
                    other.type_name()
                );
                Err(text.into())
            }
        }
    };
    let (scheme, host, path, query) = (field("scheme")?, field("host")?, field("path")?, field("query")?);
    let (opaque, fragment, userinfo) = (field("opaque")?, field("fragment")?, field("userinfo")?);
    let mut url = String::new();
    if !scheme.is_empty() {
        url.push_str(&format!("{scheme}:"));
    }
    if opaque.is_empty() {
        if !scheme.is_empty() || !host.is_empty() || !userinfo.is_empty() {
            if !host.is_empty() || !path.is_empty() || !userinfo.is_empty() {
                url.push_str("//");
            }
            if !userinfo.is_empty() {
                url.push_str(&format!("{userinfo}@"));
            }
            url.push_str(&host);
        }
        if !path.is_empty() && !path.starts_with('/') && !host.is_empty() {
            url.push('/');
        }
        url.push_str(&path);
    } else {
        url.push_str(&opaque);
    }
    if !query.is_empty() {
        url.push_str(&format!("?{query}"));
    }
    if !fragment.is_empty() {
        url.push_str(&format!("#{fragment}"));
    }
    text(&url)
}
