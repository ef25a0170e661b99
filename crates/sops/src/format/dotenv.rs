use super::{File, no_metadata, text_of};
use crate::cipher::{DataKey, open};
use crate::error::Error;
use crate::metadata::unflattened;
use crate::tree::Value;

/// The beginning of keys with metadata.
const PREFIX: &str = "sops_";
/// The place of comments in the file, with which they are encrypted.
const PLACE_OF_COMMENTS: &str = ":";

/// A line of a file.
pub(super) enum Line {
    Comment(String),
    /// The next key with its value.
    Pair,
}

pub(super) fn parse(text: &str) -> Result<File, Error> {
    let (mut lines, mut pairs, mut metadata) = (Vec::new(), Vec::new(), Vec::new());
    for line in text.split('\n').filter(|line| !line.is_empty()) {
        if let Some(comment) = line.strip_prefix('#') {
            lines.push(Line::Comment(comment.to_owned()));
            continue;
        }
        let malformed = || Error::Malformed("a line is not KEY=VALUE".into());
        let (key, value) = line.split_once('=').ok_or_else(malformed)?;
        let value = Value::text(value.replace("\\n", "\n"));
        match key.strip_prefix(PREFIX) {
            Some(key) => metadata.push((key.to_owned(), value)),
            None => {
                lines.push(Line::Pair);
                pairs.push((key.to_owned(), value));
            }
        }
    }
    if metadata.is_empty() {
        return Err(no_metadata());
    }
    Ok(File { documents: vec![Value::Map(pairs)], metadata: unflattened(metadata)?, lines })
}

pub(super) fn print(documents: Vec<Value>, lines: Vec<Line>, key: &DataKey) -> Result<Vec<u8>, Error> {
    let mut pairs = documents.into_iter().flat_map(Value::into_fields);
    let mut out = String::new();
    for line in lines {
        out.push_str(&match line {
            Line::Comment(comment) => {
                let opened = open(&comment, key, PLACE_OF_COMMENTS).ok();
                let opened = opened.and_then(|opened| String::from_utf8(opened.bytes).ok());
                format!("#{}\n", opened.unwrap_or(comment))
            }
            Line::Pair => match pairs.next() {
                Some((key, value)) => format!("{key}={}\n", text_of(value, &key)?.replace('\n', "\\n")),
                None => break,
            },
        });
    }
    Ok(out.into_bytes())
}
