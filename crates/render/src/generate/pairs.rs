//! Keys and values of generated objects.

use std::collections::BTreeMap;

use crate::decode::Result;
use crate::error::{Reason, RenderError};
use crate::kustomization::{Generator, Text, at};
use crate::source::Source;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads the pairs of a generator.
///
/// # Errors
/// Fails if a file is missing, a text is not a pair, or a key occurs twice.
pub(super) fn read(
    source: &Source<'_>,
    dir: &str,
    generator: &Generator,
) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut pairs = Pairs { generator, pairs: BTreeMap::new() };
    for env in &generator.envs {
        let (file, bytes) = source.read(dir, &env.text).map_err(|error| at(env, error))?;
        source.budget.spend(bytes.len()).map_err(|error| at(env, error))?;
        pairs.add_lines(env, &file, &bytes)?;
    }
    for literal in &generator.literals {
        let (key, value) =
            literal.text.split_once('=').filter(|(key, _)| !key.is_empty()).ok_or_else(|| {
                let error = RenderError::new(
                    Reason::InvalidValue,
                    "",
                    format!("{:?} is not key=value", literal.text),
                );
                at(literal, Box::new(error))
            })?;
        pairs.add(literal, key, unquoted(value).as_bytes().to_vec())?;
    }
    for entry in &generator.files {
        let (key, path) = file_source(entry)?;
        let (_, bytes) = source.read(dir, path).map_err(|error| at(entry, error))?;
        source.budget.spend(bytes.len()).map_err(|error| at(entry, error))?;
        pairs.add(entry, key, bytes.to_vec())?;
    }
    Ok(pairs.pairs)
}

struct Pairs<'g> {
    generator: &'g Generator,
    pairs: BTreeMap<String, Vec<u8>>,
}

impl Pairs<'_> {
    fn add(&mut self, text: &Text, key: &str, value: Vec<u8>) -> Result<()> {
        match self.pairs.insert(key.to_owned(), value) {
            None => Ok(()),
            Some(_) => {
                let message = format!("the key {key:?} of {:?} comes from two sources", self.generator.name);
                Err(at(text, Box::new(RenderError::new(Reason::InvalidValue, "", message))))
            }
        }
    }

    /// Adds the `key=value` lines of a file. Skips blank lines and lines that start with `#`.
    fn add_lines(&mut self, env: &Text, file: &str, bytes: &[u8]) -> Result<()> {
        let text = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
        let mut lines =
            text.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        (1u32..).zip(lines.by_ref()).try_for_each(|(number, line)| {
            let line = std::str::from_utf8(line)
                .map_err(|_| {
                    Box::new(RenderError::new(Reason::Malformed, file, "not UTF-8 text").line(number))
                })?
                .trim_start();
            if line.is_empty() || line.starts_with('#') {
                return Ok(());
            }
            let (key, value) = line.split_once('=').unwrap_or((line, ""));
            self.add(env, key, value.as_bytes().to_vec())
        })
    }
}

/// Removes one pair of quotes.
fn unquoted(value: &str) -> &str {
    let inner = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
    inner('"').or_else(|| inner('\'')).unwrap_or(value)
}

/// Reads `path` or `key=path`. The default key is the file name.
fn file_source(entry: &Text) -> Result<(&str, &str)> {
    let wrong = |reason: &str| {
        at(entry, Box::new(RenderError::new(Reason::InvalidValue, "", format!("{:?} {reason}", entry.text))))
    };
    match entry.text.split('=').collect::<Vec<_>>().as_slice() {
        [path] => Ok((path.rsplit('/').find(|part| !part.is_empty()).unwrap_or(path), path)),
        ["", _] => Err(wrong("names no key")),
        [_, ""] => Err(wrong("names no file")),
        [key, path] => Ok((key, path)),
        _ => Err(wrong("has more than one \"=\"")),
    }
}
