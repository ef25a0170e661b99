//! Reads YAML like go-yaml v2.

use std::collections::BTreeMap;
use std::rc::Rc;

use granit_parser::{Event, Options, Parser, ScalarStyle, Tag};

use super::scalar::{key, resolve};
use crate::value::{Fields, Value};

/// Maximum nesting of lists and maps.
const MAX_DEPTH: usize = 200;
/// Maximum number of values in a text, including copies made by aliases.
const MAX_VALUES: usize = 1_000_000;
const CORE_TAGS: &str = "tag:yaml.org,2002:";
const MERGE_KEY: &str = "<<";

/// Reads the first document.
pub(crate) fn read(text: &str) -> Result<Value, String> {
    Ok(documents(text, true)?.into_iter().next().unwrap_or(Value::Nil))
}

/// Reads all documents.
pub(crate) fn read_all(text: &str) -> Result<Vec<Value>, String> {
    documents(text, false)
}

/// A list or map being read.
enum Frame {
    List { anchor: usize, items: Vec<Value> },
    Map { anchor: usize, fields: Fields, key: Option<(String, bool)>, merges: Vec<Value> },
}

struct Reader<'a> {
    text: &'a str,
    /// The end of a text whose last line has characters but no line break, counted in characters.
    unbroken_end: Option<usize>,
    stack: Vec<Frame>,
    anchors: BTreeMap<usize, (Value, usize)>,
    values: usize,
}

fn documents(text: &str, only_first: bool) -> Result<Vec<Value>, String> {
    let last_line = text.rsplit('\n').next().unwrap_or_default();
    let mut options = Options::default();
    options.emit_comments = false;
    options.flow_nesting_limit = MAX_DEPTH;
    options.block_nesting_limit = MAX_DEPTH;
    let mut reader = Reader {
        text,
        unbroken_end: (!last_line.trim().is_empty()).then(|| text.chars().count()),
        stack: Vec::new(),
        anchors: BTreeMap::new(),
        values: 0,
    };
    let mut roots = Vec::new();
    let mut root = None;
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(|error| yaml_error(error.marker().line(), &error.info()))?;
        if matches!(event, Event::DocumentEnd) {
            roots.push(root.take().unwrap_or(Value::Nil));
            if only_first {
                break;
            }
            continue;
        }
        let at_end = reader.unbroken_end.is_some_and(|end| span.end.index() >= end);
        let written = span.start.index() != span.end.index();
        let done =
            reader.event(event, at_end, written).map_err(|reason| yaml_error(span.start.line(), &reason))?;
        if let Some(value) = done {
            match reader.stack.last_mut() {
                Some(frame) => frame.add(value).map_err(|reason| yaml_error(span.start.line(), &reason))?,
                None => root = Some(value),
            }
        }
    }
    Ok(roots)
}

/// Returns the error in libyaml's words. libyaml counts the lines of this error from 0.
fn yaml_error(line: usize, reason: &str) -> String {
    match reason.rsplit_once(", did not find expected ") {
        Some((_, what)) if line > 1 => format!("yaml: line {}: did not find expected {what}", line - 1),
        Some((_, what)) => format!("yaml: did not find expected {what}"),
        None => format!("yaml: line {line}: {reason}"),
    }
}

impl Reader<'_> {
    fn event(&mut self, event: Event<'_>, at_end: bool, written: bool) -> Result<Option<Value>, String> {
        Ok(match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
                let text = if is_block && at_end {
                    text.strip_suffix('\n').unwrap_or(&text)
                } else if style == ScalarStyle::Plain && !written {
                    // The parser returns `~` for an omitted value.
                    ""
                } else {
                    &text
                };
                let value = scalar(text, style, tag.as_deref())?;
                self.count(1)?;
                let is_merge = style == ScalarStyle::Plain && text == MERGE_KEY;
                if let Some(Frame::Map { key: slot @ None, .. }) = self.stack.last_mut() {
                    *slot = Some((key(&value)?, is_merge));
                    if anchor != 0 {
                        self.anchors.insert(anchor, (value, 1));
                    }
                    return Ok(None);
                }
                self.remember(anchor, &value);
                Some(value)
            }
            Event::SequenceStart(_, anchor, _) => {
                self.open(Frame::List { anchor, items: Vec::new() })?;
                None
            }
            Event::MappingStart(_, anchor, _) => {
                self.open(Frame::Map { anchor, fields: Fields::new(), key: None, merges: Vec::new() })?;
                None
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(id) => {
                let Some((value, size)) = self.anchors.get(&id).cloned() else {
                    return Err("unknown anchor referenced".into());
                };
                self.count(size)?;
                if let Some(Frame::Map { key: slot @ None, .. }) = self.stack.last_mut() {
                    *slot = Some((key(&value)?, false));
                    return Ok(None);
                }
                Some(value.deep_copy())
            }
            _ => None,
        })
    }

    fn count(&mut self, values: usize) -> Result<(), String> {
        self.values = self.values.saturating_add(values);
        if self.values > MAX_VALUES {
            return Err(format!(
                "the text of {} bytes contains more than {MAX_VALUES} values",
                self.text.len()
            ));
        }
        Ok(())
    }

    fn open(&mut self, frame: Frame) -> Result<(), String> {
        self.count(1)?;
        if self.stack.len() >= MAX_DEPTH {
            return Err(format!("lists and maps are nested more than {MAX_DEPTH} levels deep"));
        }
        if let Some(Frame::Map { key: None, .. }) = self.stack.last() {
            return Err("invalid map key: map[interface {}]interface {}".into());
        }
        self.stack.push(frame);
        Ok(())
    }

    fn close(&mut self) -> Option<Value> {
        match self.stack.pop()? {
            Frame::List { anchor, items } => {
                let value = Value::list(items);
                self.remember(anchor, &value);
                Some(value)
            }
            Frame::Map { anchor, mut fields, merges, .. } => {
                for merged in merges {
                    let Value::Map(merged) = merged else { continue };
                    for (key, value) in merged.snapshot() {
                        fields.entry(key).or_insert(value);
                    }
                }
                let value = Value::map(fields);
                self.remember(anchor, &value);
                Some(value)
            }
        }
    }

    fn remember(&mut self, anchor: usize, value: &Value) {
        if anchor != 0 {
            let size = size(value);
            self.anchors.insert(anchor, (value.clone(), size));
        }
    }
}

fn size(value: &Value) -> usize {
    match value {
        Value::List(list) => list.items.iter().map(size).sum::<usize>() + 1,
        Value::Map(map) => map.borrow().values().map(size).sum::<usize>() + 1,
        _ => 1,
    }
}

impl Frame {
    fn add(&mut self, value: Value) -> Result<(), String> {
        match self {
            Self::List { items, .. } => items.push(value),
            Self::Map { fields, key, merges, .. } => match key.take() {
                Some((_, true)) => match value {
                    Value::Map(_) => merges.push(value),
                    Value::List(list) => merges.extend(list.items.iter().cloned()),
                    _ => return Err("map merge requires map or sequence of maps as the value".into()),
                },
                // If a key is repeated, the last value wins.
                Some((key, false)) => {
                    fields.insert(Rc::from(key), value);
                }
                None => return Err("invalid map key".into()),
            },
        }
        Ok(())
    }
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, String> {
    let Some(tag) = tag else {
        return Ok(if style == ScalarStyle::Plain { resolve(text) } else { Value::str(text) });
    };
    match (tag.handle(), tag.suffix()) {
        (CORE_TAGS, "str") | ("!", "") | ("", "!") => Ok(Value::str(text)),
        (CORE_TAGS, "int" | "float" | "bool" | "null") => Ok(resolve(text)),
        (CORE_TAGS, "binary") => {
            use base64::Engine as _;
            let plain: String = text.chars().filter(|c| !c.is_whitespace()).collect();
            let bytes = base64::engine::general_purpose::STANDARD.decode(plain);
            let bytes = bytes.map_err(|_| "!!binary value contains invalid base64 data".to_owned())?;
            Ok(Value::str(String::from_utf8_lossy(&bytes)))
        }
        _ if style == ScalarStyle::Plain => Ok(resolve(text)),
        _ => Ok(Value::str(text)),
    }
}
