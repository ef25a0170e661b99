//! Builds the nodes of a document from the events of the parser.

use std::collections::BTreeMap;

use granit_parser::{
    ErrorKind, Event, Options, Parser, ScalarStyle, Span, StructureStyle, Tag as WrittenTag,
};

use super::node::{Entry, Map, Node, Scalar, Style, Tag, Value};
use super::scalar::{Reading, tag_of};
use crate::limits::{MAX_COPIED_BYTES, MAX_COPIED_VALUES, MAX_DEPTH, MAX_VALUES};

/// The key whose value is merged into its map, <https://yaml.org/type/merge.html>.
pub(super) const MERGE_KEY: &str = "<<";
const CORE_TAGS: &str = "tag:yaml.org,2002:";

/// Text that is not YAML or exceeds a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MalformedYaml {
    /// The line, counted from 1.
    pub line: u32,
    pub reason: String,
}

pub(super) type Result<T> = std::result::Result<T, MalformedYaml>;

/// The treatment of a key that occurs twice in a map.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DuplicateKeys {
    Refused,
    LastCounts,
}

/// A count of the values and bytes that anchors and aliases copied in one file.
#[derive(Clone, Copy, Default)]
pub(super) struct Copied {
    values: usize,
    bytes: usize,
}

pub(super) struct Builder {
    /// The length of the text in characters, if its last line is not blank and has no line break.
    unbroken_end: Option<usize>,
    line_offset: u32,
    /// The number of values in the file so far.
    pub(super) values: usize,
    /// The part of `values` that is copies.
    pub(super) copied: Copied,
    anchors: BTreeMap<usize, Node>,
    repeated: DuplicateKeys,
    /// The position of the dash in `[-]` or `{a: -}`, at which parsing stopped. kustomize reads such a dash as a
    /// string, but our parser rejects it.
    pub(super) lone_dash: Option<usize>,
}

/// A list or map that is being built.
struct Frame {
    node: Node,
    anchor: usize,
    style: StructureStyle,
    key: Option<Key>,
    merges: Vec<Node>,
}

struct Key {
    text: String,
    style: Style,
    line: u32,
}

impl Builder {
    /// Creates a builder for a document that starts after `line_offset` lines of the file.
    pub(super) fn new(line_offset: u32, repeated: DuplicateKeys, values: usize, copied: Copied) -> Self {
        Self {
            unbroken_end: None,
            line_offset,
            values,
            copied,
            anchors: BTreeMap::new(),
            repeated,
            lone_dash: None,
        }
    }

    pub(super) fn document(&mut self, text: &str) -> Result<Option<Node>> {
        let last_line = text.rsplit('\n').next().unwrap_or_default();
        self.unbroken_end = (!last_line.trim().is_empty()).then(|| text.chars().count());
        let mut options = Options::default();
        options.emit_comments = false;
        options.flow_nesting_limit = MAX_DEPTH;
        options.block_nesting_limit = MAX_DEPTH;
        let mut stack: Vec<Frame> = Vec::new();
        let mut root = None;
        for event in Parser::new_from_str_with_options(text, options) {
            let (event, span) = event.map_err(|e| {
                let is_dash = matches!(e.kind(), ErrorKind::PlainScalarStartsWithDashFlowIndicator);
                let at = text.char_indices().nth(e.marker().index()).filter(|(_, c)| *c == '-');
                self.lone_dash = at.filter(|_| is_dash).map(|(at, _)| at);
                MalformedYaml { line: self.line(e.marker().line()), reason: e.info() }
            })?;
            let done = match event {
                Event::DocumentEnd => break,
                Event::Scalar(text, style, anchor, tag) => {
                    let mut node = self.scalar(&text, style, tag.as_deref(), &span)?;
                    if stack.last().is_some_and(|open| open.style == StructureStyle::Flow) {
                        keep_time(&mut node);
                    }
                    if let Some(Frame { node: Node { value: Value::Map(_), .. }, key: key @ None, .. }) =
                        stack.last_mut()
                    {
                        *key = Some(key_of(node, anchor, self)?);
                        continue;
                    }
                    self.remember(anchor, &node)?;
                    Some(node)
                }
                Event::SequenceStart(style, anchor, tag) => {
                    let line = self.line(span.start.line());
                    check_tag(tag.as_deref(), "seq", line)?;
                    let node = Node { line, value: Value::List(Vec::new()), shared: 0 };
                    self.open(&mut stack, Frame { node, anchor, style, key: None, merges: Vec::new() })?;
                    None
                }
                Event::MappingStart(style, anchor, tag) => {
                    let line = self.line(span.start.line());
                    check_tag(tag.as_deref(), "map", line)?;
                    let node = Node { line, value: Value::Map(Map::new()), shared: 0 };
                    self.open(&mut stack, Frame { node, anchor, style, key: None, merges: Vec::new() })?;
                    None
                }
                Event::SequenceEnd | Event::MappingEnd => {
                    stack.pop().map(|open| self.close(open)).transpose()?
                }
                Event::Alias(id) => Some(self.alias(id, &span)?),
                _ => None,
            };
            match (done, stack.last_mut()) {
                (Some(node), Some(open)) => open.add(node, self.repeated)?,
                (Some(node), None) => root = Some(node),
                (None, _) => {}
            }
        }
        Ok(root.filter(|node| !node.is_null()))
    }

    fn line(&self, line: usize) -> u32 {
        u32::try_from(line.max(1)).unwrap_or(u32::MAX).saturating_add(self.line_offset)
    }

    fn count(&mut self, values: usize, line: u32) -> Result<()> {
        self.values += values;
        if self.values > MAX_VALUES {
            return Err(MalformedYaml {
                line,
                reason: format!("the file has more than {MAX_VALUES} values"),
            });
        }
        Ok(())
    }

    /// Counts a copy of a node before it is made.
    fn count_copy(&mut self, node: &Node, line: u32) -> Result<()> {
        let values = node.size();
        self.copied.values += values;
        self.copied.bytes = self.copied.bytes.saturating_add(node.text_bytes());
        let reason = if self.copied.values > MAX_COPIED_VALUES {
            format!("anchors and aliases expand to more than {MAX_COPIED_VALUES} values in one file")
        } else if self.copied.bytes > MAX_COPIED_BYTES {
            format!("anchors and aliases copy more than {MAX_COPIED_BYTES} bytes in one file")
        } else {
            return self.count(values, line);
        };
        Err(MalformedYaml { line, reason })
    }

    fn open(&mut self, stack: &mut Vec<Frame>, open: Frame) -> Result<()> {
        let line = open.node.line;
        self.count(1, line)?;
        if stack.len() >= MAX_DEPTH {
            return Err(MalformedYaml {
                line,
                reason: format!("lists and maps are nested more than {MAX_DEPTH} levels deep"),
            });
        }
        if let Some(Frame { node: Node { value: Value::Map(_), .. }, key: None, .. }) = stack.last() {
            return Err(MalformedYaml { line, reason: "a list or map cannot be a key".into() });
        }
        stack.push(open);
        Ok(())
    }

    fn close(&mut self, open: Frame) -> Result<Node> {
        let Frame { mut node, anchor, merges, .. } = open;
        for merged in merges.into_iter().rev() {
            merge_into(&mut node, merged)?;
        }
        self.remember(anchor, &node)?;
        Ok(node)
    }

    /// Stores a copy for aliases. Copies count toward the limits, because nested anchors can hold far more than
    /// the file.
    fn remember(&mut self, anchor: usize, node: &Node) -> Result<()> {
        if anchor != 0 {
            self.count_copy(node, node.line)?;
            self.anchors.insert(anchor, node.clone());
        }
        Ok(())
    }

    fn alias(&mut self, id: usize, span: &Span) -> Result<Node> {
        let line = self.line(span.start.line());
        let Some(node) = self.anchors.remove(&id) else {
            return Err(MalformedYaml {
                line,
                reason: "the alias refers to a value that contains it".into(),
            });
        };
        self.count_copy(&node, line)?;
        let copy = node.clone();
        self.anchors.insert(id, node);
        Ok(copy)
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        tag: Option<&WrittenTag>,
        span: &Span,
    ) -> Result<Node> {
        let line = self.line(span.start.line());
        self.count(1, line)?;
        let plain = style == ScalarStyle::Plain;
        // A block scalar at the end of the text has no more line breaks than the text.
        let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
        let at_end = is_block && self.unbroken_end.is_some_and(|end| span.end.index() >= end);
        let text = if at_end {
            text.strip_suffix('\n').unwrap_or(text)
        } else if plain && span.start.index() == span.end.index() {
            // The parser returns `~` for a missing value.
            ""
        } else {
            text
        };
        let (tag, style) = match tag {
            None if plain => (tag_of(text, Reading::Objects), Style::Plain),
            None if style == ScalarStyle::Folded => (Tag::Str, Style::Folded),
            None => (Tag::Str, Style::Quoted),
            Some(tag) => (explicit(tag, line)?, Style::Tagged),
        };
        Ok(Node { line, value: Value::Scalar(Scalar { text: text.to_owned(), tag, style }), shared: 0 })
    }
}

/// Turns a time inside brackets or braces into a string, because kustomize quotes it there for its colons.
fn keep_time(node: &mut Node) {
    if let Value::Scalar(scalar @ Scalar { tag: Tag::Timestamp, style: Style::Plain, .. }) = &mut node.value
        && scalar.text.contains(':')
    {
        scalar.tag = Tag::Str;
    }
}

impl Frame {
    fn add(&mut self, node: Node, repeated: DuplicateKeys) -> Result<()> {
        match (&mut self.node.value, self.key.take()) {
            (Value::List(items), _) => items.push(node),
            (Value::Map(_), Some(key)) if key.text == MERGE_KEY && key.style == Style::Plain => {
                match node.value {
                    _ if !self.merges.is_empty() && repeated == DuplicateKeys::Refused => {
                        return Err(MalformedYaml {
                            line: key.line,
                            reason: "\"<<\" occurs twice in this map; use one \"<<\" with a list of maps"
                                .into(),
                        });
                    }
                    Value::Map(_) => self.merges.push(node),
                    Value::List(items) if items.iter().all(|item| item.as_map().is_some()) => {
                        self.merges.extend(items.into_iter().rev())
                    }
                    Value::List(_) | Value::Scalar(_) => {
                        return Err(MalformedYaml {
                            line: key.line,
                            reason: "\"<<\" can only merge maps".into(),
                        });
                    }
                }
            }
            (Value::Map(map), Some(key)) => {
                if let (Some(first), DuplicateKeys::Refused) = (map.get(&key.text), repeated) {
                    let reason = format!(
                        "the key {:?} occurs twice in this map, first in line {}",
                        key.text, first.line
                    );
                    return Err(MalformedYaml { line: key.line, reason });
                }
                map.insert(key.text, Entry { key_style: key.style, line: key.line, node });
            }
            (Value::Map(_), None) => {
                return Err(MalformedYaml {
                    line: node.line,
                    reason: "a list or map cannot be a key".into(),
                });
            }
            (Value::Scalar(_), _) => {}
        }
        Ok(())
    }
}

fn key_of(node: Node, anchor: usize, builder: &mut Builder) -> Result<Key> {
    builder.remember(anchor, &node)?;
    match node.value {
        Value::Scalar(scalar) => Ok(Key { text: scalar.text, style: scalar.style, line: node.line }),
        Value::List(_) | Value::Map(_) => {
            Err(MalformedYaml { line: node.line, reason: "a list or map cannot be a key".into() })
        }
    }
}

/// Adds the fields that the map does not have yet.
fn merge_into(node: &mut Node, merged: Node) -> Result<()> {
    let line = merged.line;
    match (&mut node.value, merged.value) {
        (Value::Map(map), Value::Map(merged)) => {
            for (key, entry) in merged {
                map.entry(key).or_insert(entry);
            }
            Ok(())
        }
        _ => Err(MalformedYaml { line, reason: "\"<<\" can only merge maps".into() }),
    }
}

fn explicit(tag: &WrittenTag, line: u32) -> Result<Tag> {
    match (tag.handle(), tag.suffix()) {
        ("!", "") | ("", "!") => Ok(Tag::Str),
        (CORE_TAGS, "str") => Ok(Tag::Str),
        (CORE_TAGS, "null") => Ok(Tag::Null),
        (CORE_TAGS, "bool") => Ok(Tag::Bool),
        (CORE_TAGS, "int") => Ok(Tag::Int),
        (CORE_TAGS, "float") => Ok(Tag::Float),
        (CORE_TAGS, "timestamp") => Ok(Tag::Timestamp),
        (CORE_TAGS, "binary") => Ok(Tag::Binary),
        (handle, suffix) => Err(MalformedYaml {
            line,
            reason: format!("the tag {handle}{suffix} has no meaning in an object"),
        }),
    }
}

fn check_tag(tag: Option<&WrittenTag>, expected: &str, line: u32) -> Result<()> {
    match tag {
        Some(tag) if (tag.handle(), tag.suffix()) != (CORE_TAGS, expected) => Err(MalformedYaml {
            line,
            reason: format!("the tag {}{} has no meaning in an object", tag.handle(), tag.suffix()),
        }),
        Some(_) | None => Ok(()),
    }
}
