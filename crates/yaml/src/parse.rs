//! Decodes files, splits them into documents, and builds the nodes of each.

use std::borrow::Cow;

use super::builder::{Builder, Copied, DuplicateKeys, MalformedYaml, Result};
use super::node::Node;
use crate::limits::{MAX_DOCUMENTS, MAX_FILE_BYTES, MAX_LONE_DASHES};

/// Parses all documents of a file, skipping empty ones.
///
/// # Errors
/// Returns [`MalformedYaml`] with the first line that cannot be parsed.
pub fn documents(bytes: &[u8]) -> Result<Vec<Node>> {
    read(bytes, DuplicateKeys::Refused)
}

/// Parses all documents of a kustomization. If a map repeats a key, the last one wins, as in kustomize.
///
/// # Errors
/// Returns [`MalformedYaml`] with the first line that cannot be parsed.
pub fn kustomization(bytes: &[u8]) -> Result<Vec<Node>> {
    read(bytes, DuplicateKeys::LastCounts)
}

fn read(bytes: &[u8], repeated: DuplicateKeys) -> Result<Vec<Node>> {
    let text = decode(bytes)?;
    let parts = split(&text)?;
    let (mut values, mut copied) = (0, Copied::default());
    let mut documents = Vec::new();
    let mut dashes = 0;
    for (first_line, part) in parts {
        let mut part = Cow::Borrowed(part);
        loop {
            let mut builder = Builder::new(first_line, repeated, values, copied);
            match (builder.document(&part), builder.lone_dash) {
                (Err(_), Some(at)) if dashes < MAX_LONE_DASHES => {
                    part.to_mut().replace_range(at..=at, "'-'");
                    dashes += 1;
                }
                (document, _) => {
                    documents.extend(document?);
                    (values, copied) = (builder.values, builder.copied);
                    break;
                }
            }
        }
        if documents.len() > MAX_DOCUMENTS {
            return Err(MalformedYaml {
                line: first_line + 1,
                reason: format!("the file has more than {MAX_DOCUMENTS} documents"),
            });
        }
    }
    Ok(documents)
}

fn decode(bytes: &[u8]) -> Result<String> {
    if bytes.len() > MAX_FILE_BYTES {
        return Err(MalformedYaml {
            line: 1,
            reason: format!("the file has more than {MAX_FILE_BYTES} bytes"),
        });
    }
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err(MalformedYaml { line: 1, reason: "the file is encoded in UTF-16; use UTF-8".into() });
    }
    let text = std::str::from_utf8(bytes).map_err(|e| {
        let before = bytes.get(..e.valid_up_to()).unwrap_or_default();
        MalformedYaml { line: line_at(before), reason: "not UTF-8 text".into() }
    })?;
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
    // YAML 1.1 also breaks lines at this character.
    Ok(if text.contains('\u{85}') { text.replace('\u{85}', "\n") } else { text })
}

fn line_at(before: &[u8]) -> u32 {
    let lines = before.iter().filter(|byte| **byte == b'\n').count();
    u32::try_from(lines + 1).unwrap_or(u32::MAX)
}

/// Splits a stream at lines that start with `---`. Each part comes with the number of lines before it.
fn split(text: &str) -> Result<Vec<(u32, &str)>> {
    let mut parts = Vec::new();
    let (mut start, mut line, mut first_line) = (0, 0, 0);
    let mut at = 0;
    let mut previous_was_separator = true;
    for row in text.split_inclusive('\n') {
        // The first line may open the document, and a separator right after another one opens an empty document.
        if row.starts_with("---") && row.ends_with('\n') && !previous_was_separator {
            let after = row.get(3..).unwrap_or_default().trim();
            if !(after.is_empty() || after.starts_with('#')) {
                return Err(MalformedYaml {
                    line: line + 1,
                    reason: format!("only a comment may follow \"---\", not {after:?}"),
                });
            }
            parts.push((first_line, text.get(start..at).unwrap_or_default()));
            start = at + row.len();
            first_line = line + 1;
            previous_was_separator = true;
        } else {
            previous_was_separator = false;
        }
        at += row.len();
        line += 1;
    }
    parts.push((first_line, text.get(start..).unwrap_or_default()));
    Ok(parts)
}
