use std::collections::BTreeSet;

use super::{File, METADATA, no_metadata, text_of};
use crate::error::Error;
use crate::metadata::unflattened;
use crate::tree::Value;

/// The section of the keys before the first header.
const DEFAULT: &str = "DEFAULT";
/// Quotes around values that contain special characters.
const QUOTES: [&str; 2] = ["\"\"\"", "`"];

type Fields = Vec<(String, Value)>;

pub(super) fn parse(text: &str) -> Result<File, Error> {
    let mut sections: Vec<(String, Fields)> = vec![(DEFAULT.to_owned(), Fields::new())];
    let mut keys = BTreeSet::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[') {
            let (name, _) = name.rsplit_once(']').ok_or_else(|| malformed("a section is not closed"))?;
            sections.push((name.to_owned(), Fields::new()));
            keys.clear();
            continue;
        }
        let (key, value) = pair(line, &mut lines)?;
        if !keys.insert(key.clone()) {
            return Err(malformed("a section has a key twice"));
        }
        if let Some((_, fields)) = sections.last_mut() {
            fields.push((key, Value::text(value)));
        }
    }
    let at = sections.iter().position(|(name, _)| name == METADATA).ok_or_else(no_metadata)?;
    let (_, metadata) = sections.remove(at);
    // This format escapes line breaks itself.
    let unescape = |(key, value): (String, Value)| match value {
        Value::Text(text) => (key, Value::text(String::from_utf8_lossy(&text).replace("\\n", "\n"))),
        other => (key, other),
    };
    let metadata = unflattened(metadata.into_iter().map(unescape).collect())?;
    let values = sections.into_iter().map(|(name, fields)| (name, Value::Map(fields)));
    Ok(File::new(vec![Value::Map(values.collect())], metadata))
}

fn malformed(reason: &str) -> Error {
    Error::Malformed(reason.to_owned())
}

/// Reads a key and its value, which may continue on further lines inside quotes.
fn pair(line: &str, lines: &mut std::str::Lines<'_>) -> Result<(String, String), Error> {
    let at =
        line.find(['=', ':']).filter(|at| *at > 0).ok_or_else(|| malformed("a line is not KEY = VALUE"))?;
    let (key, value) = line.split_at(at);
    let value = value.get(1..).unwrap_or_default().trim();
    let value = match QUOTES.iter().find(|quote| value.starts_with(**quote)) {
        Some(quote) => quoted(value.get(quote.len()..).unwrap_or_default(), quote, lines)?,
        None if value.ends_with('\\') => return Err(malformed("a line ends with a backslash")),
        None => unquoted(value),
    };
    Ok((key.trim().trim_matches('`').to_owned(), value))
}

fn quoted(start: &str, quote: &str, lines: &mut std::str::Lines<'_>) -> Result<String, Error> {
    let mut value = start.to_owned();
    loop {
        if let Some(end) = value.rfind(quote) {
            value.truncate(end);
            return Ok(value);
        }
        value.push('\n');
        value.push_str(lines.next().ok_or_else(|| malformed("a quote is not closed"))?);
    }
}

fn unquoted(value: &str) -> String {
    let value = value.split(['#', ';']).next().unwrap_or_default().trim();
    for quote in ['"', '\''] {
        let inner = value.strip_prefix(quote).and_then(|value| value.strip_suffix(quote));
        if let Some(inner) = inner.filter(|inner| !inner.contains(quote)) {
            return inner.to_owned();
        }
    }
    value.to_owned()
}

/// Prints sections with aligned keys, like `sops`.
pub(super) fn print(documents: Vec<Value>) -> Result<Vec<u8>, Error> {
    let sections: Vec<_> = documents.into_iter().flat_map(Value::into_fields).collect();
    let count = sections.len();
    let mut out = String::new();
    for (at, (name, fields)) in sections.into_iter().enumerate() {
        let fields = fields.into_fields();
        if name != DEFAULT {
            out.push_str(&format!("[{name}]\n"));
        } else if fields.is_empty() {
            continue;
        }
        let width = fields.iter().map(|(key, _)| key.len()).max().unwrap_or_default();
        for (key, value) in fields {
            let value = in_quotes(text_of(value, &key)?);
            out.push_str(&format!("{key:width$} = {value}\n"));
        }
        if at + 1 < count {
            out.push('\n');
        }
    }
    Ok(out.into_bytes())
}

fn in_quotes(value: String) -> String {
    if value.contains(['\n', '`']) {
        format!("\"\"\"{value}\"\"\"")
    } else if value.contains(['#', ';']) {
        format!("`{value}`")
    } else if value.trim() != value {
        format!("\"{value}\"")
    } else {
        value
    }
}
