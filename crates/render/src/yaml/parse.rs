//! Text to nodes.

use std::borrow::Cow;
use std::collections::BTreeMap;

use granit_parser::{
    ErrorKind, Event, Options, Parser, ScalarStyle, Span, StructureStyle, Tag as WrittenTag,
};

use super::node::{Entry, Map, Node, Scalar, Style, Tag, Value};
use super::scalar::{Reading, tag_of};
use crate::limits::{
    MAX_COPIED_VALUES, MAX_DEPTH, MAX_DOCUMENTS, MAX_FILE_BYTES, MAX_LONE_DASHES, MAX_VALUES,
};

/// The key whose value is merged into its map, <https://yaml.org/type/merge.html>.
pub(super) const MERGE_KEY: &str = "<<";
const CORE_TAGS: &str = "tag:yaml.org,2002:";

/// Text that is not YAML, or more of it than we take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Where, counted from 1.
    pub line: u32,
    /// What is wrong.
    pub why: String,
}

type Result<T> = std::result::Result<T, Malformed>;

/// Reads all documents of a file; empty ones are skipped.
///
/// # Errors
/// [`Malformed`] names the first line that cannot be read.
pub fn documents(bytes: &[u8]) -> Result<Vec<Node>> {
    read(bytes, Repeated::Refused)
}

/// Reads all documents of a kustomization: where a key stands twice in a map, the last one counts, as it does to kustomize.
///
/// # Errors
/// [`Malformed`] names the first line that cannot be read.
pub fn kustomization(bytes: &[u8]) -> Result<Vec<Node>> {
    read(bytes, Repeated::LastCounts)
}

fn read(bytes: &[u8], repeated: Repeated) -> Result<Vec<Node>> {
    let text = decode(bytes)?;
    let parts = split(&text)?;
    let (mut values, mut copied) = (0, 0);
    let mut documents = Vec::new();
    let mut dashes = 0;
    for (first_line, part) in parts {
        let mut part = Cow::Borrowed(part);
        loop {
            let mut builder = Builder {
                unbroken_end: None,
                line_offset: first_line,
                values,
                copied,
                anchors: BTreeMap::new(),
                repeated,
                lone_dash: None,
            };
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
            return Err(Malformed {
                line: first_line + 1,
                why: format!("more than {MAX_DOCUMENTS} documents in one file"),
            });
        }
    }
    Ok(documents)
}

fn decode(bytes: &[u8]) -> Result<String> {
    if bytes.len() > MAX_FILE_BYTES {
        return Err(Malformed {
            line: 1,
            why: format!("the file has {} bytes, more than {MAX_FILE_BYTES}", bytes.len()),
        });
    }
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err(Malformed { line: 1, why: "the file is in UTF-16; write it in UTF-8".into() });
    }
    let text = std::str::from_utf8(bytes).map_err(|e| {
        let before = bytes.get(..e.valid_up_to()).unwrap_or_default();
        Malformed { line: line_at(before), why: "not UTF-8 text".into() }
    })?;
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
    // YAML 1.1 breaks lines at this one too.
    Ok(if text.contains('\u{85}') { text.replace('\u{85}', "\n") } else { text })
}

fn line_at(before: &[u8]) -> u32 {
    let lines = before.iter().filter(|byte| **byte == b'\n').count();
    u32::try_from(lines + 1).unwrap_or(u32::MAX)
}

/// Cuts a stream at the lines that start with `---`; each part comes with the number of lines before it.
fn split(text: &str) -> Result<Vec<(u32, &str)>> {
    let mut parts = Vec::new();
    let (mut start, mut line, mut first_line) = (0, 0, 0);
    let mut at = 0;
    let mut previous_was_separator = true;
    for row in text.split_inclusive('\n') {
        // The first line may open the document, and a separator right after a separator opens an empty one.
        if row.starts_with("---") && row.ends_with('\n') && !previous_was_separator {
            let after = row.get(3..).unwrap_or_default().trim();
            if !(after.is_empty() || after.starts_with('#')) {
                return Err(Malformed {
                    line: line + 1,
                    why: format!("only a comment may follow \"---\", not {after:?}"),
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

/// What becomes of a key that stands twice in a map.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeated {
    Refused,
    LastCounts,
}

struct Builder {
    /// The end of a text whose last line has characters but no line break, in characters.
    unbroken_end: Option<usize>,
    line_offset: u32,
    values: usize,
    /// Those of them that anchors and aliases copied.
    copied: usize,
    anchors: BTreeMap<usize, (Node, usize)>,
    repeated: Repeated,
    /// Where reading stopped at a dash in `[-]` or `{a: -}`, which is a text to kustomize and a mistake to our parser.
    lone_dash: Option<usize>,
}

/// A list or map that is still open.
struct Open {
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
    fn document(&mut self, text: &str) -> Result<Option<Node>> {
        let last_line = text.rsplit('\n').next().unwrap_or_default();
        self.unbroken_end = (!last_line.trim().is_empty()).then(|| text.chars().count());
        let mut options = Options::default();
        options.emit_comments = false;
        options.flow_nesting_limit = MAX_DEPTH;
        options.block_nesting_limit = MAX_DEPTH;
        let mut stack: Vec<Open> = Vec::new();
        let mut root = None;
        for event in Parser::new_from_str_with_options(text, options) {
            let (event, span) = event.map_err(|e| {
                let is_dash = matches!(e.kind(), ErrorKind::PlainScalarStartsWithDashFlowIndicator);
                let at = text.char_indices().nth(e.marker().index()).filter(|(_, c)| *c == '-');
                self.lone_dash = at.filter(|_| is_dash).map(|(at, _)| at);
                Malformed { line: self.line(e.marker().line()), why: e.info() }
            })?;
            let done = match event {
                Event::DocumentEnd => break,
                Event::Scalar(text, style, anchor, tag) => {
                    let mut node = self.scalar(&text, style, tag.as_deref(), &span)?;
                    if stack.last().is_some_and(|open| open.style == StructureStyle::Flow) {
                        keep_time(&mut node);
                    }
                    if let Some(Open { node: Node { value: Value::Map(_), .. }, key: key @ None, .. }) =
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
                    self.open(&mut stack, Open { node, anchor, style, key: None, merges: Vec::new() })?;
                    None
                }
                Event::MappingStart(style, anchor, tag) => {
                    let line = self.line(span.start.line());
                    check_tag(tag.as_deref(), "map", line)?;
                    let node = Node { line, value: Value::Map(Map::new()), shared: 0 };
                    self.open(&mut stack, Open { node, anchor, style, key: None, merges: Vec::new() })?;
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
            return Err(Malformed { line, why: format!("more than {MAX_VALUES} values in one file") });
        }
        Ok(())
    }

    fn count_copied(&mut self, values: usize, line: u32) -> Result<()> {
        self.copied += values;
        if self.copied > MAX_COPIED_VALUES {
            return Err(Malformed {
                line,
                why: format!("anchors and aliases make more than {MAX_COPIED_VALUES} values in one file"),
            });
        }
        self.count(values, line)
    }

    fn open(&mut self, stack: &mut Vec<Open>, open: Open) -> Result<()> {
        let line = open.node.line;
        self.count(1, line)?;
        if stack.len() >= MAX_DEPTH {
            return Err(Malformed { line, why: format!("values within values, more than {MAX_DEPTH} deep") });
        }
        if let Some(Open { node: Node { value: Value::Map(_), .. }, key: None, .. }) = stack.last() {
            return Err(Malformed { line, why: "a list or map cannot be a key".into() });
        }
        stack.push(open);
        Ok(())
    }

    fn close(&mut self, open: Open) -> Result<Node> {
        let Open { mut node, anchor, merges, .. } = open;
        for merged in merges.into_iter().rev() {
            merge_into(&mut node, merged)?;
        }
        self.remember(anchor, &node)?;
        Ok(node)
    }

    /// Keeps a copy for aliases; copies count, or anchors within anchors would hold far more than the file.
    fn remember(&mut self, anchor: usize, node: &Node) -> Result<()> {
        if anchor != 0 {
            let size = node.size();
            self.count_copied(size, node.line)?;
            self.anchors.insert(anchor, (node.clone(), size));
        }
        Ok(())
    }

    fn alias(&mut self, id: usize, span: &Span) -> Result<Node> {
        let line = self.line(span.start.line());
        let Some(size) = self.anchors.get(&id).map(|(_, size)| *size) else {
            return Err(Malformed { line, why: "the alias refers to the value it stands in".into() });
        };
        self.count_copied(size, line)?;
        let node = self.anchors.get(&id).map(|(node, _)| node.clone());
        node.ok_or_else(|| Malformed { line, why: "the alias refers to nothing".into() })
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
        // A block that the text ends with has no more line breaks than the text.
        let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
        let at_end = is_block && self.unbroken_end.is_some_and(|end| span.end.index() >= end);
        let text = match () {
            () if at_end => text.strip_suffix('\n').unwrap_or(text),
            // The parser says `~` for what is not written at all.
            () if plain && span.start.index() == span.end.index() => "",
            () => text,
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

/// Makes a text of a time in brackets or braces: kustomize puts it in quotes there because of its colons.
fn keep_time(node: &mut Node) {
    if let Value::Scalar(scalar @ Scalar { tag: Tag::Timestamp, style: Style::Plain, .. }) = &mut node.value
        && scalar.text.contains(':')
    {
        scalar.tag = Tag::Str;
    }
}

impl Open {
    fn add(&mut self, node: Node, repeated: Repeated) -> Result<()> {
        match (&mut self.node.value, self.key.take()) {
            (Value::List(items), _) => items.push(node),
            (Value::Map(_), Some(key)) if key.text == MERGE_KEY && key.style == Style::Plain => {
                match node.value {
                    _ if !self.merges.is_empty() && repeated == Repeated::Refused => {
                        return Err(Malformed {
                            line: key.line,
                            why: "\"<<\" stands twice in this map; give it a list of maps".into(),
                        });
                    }
                    Value::Map(_) => self.merges.push(node),
                    Value::List(items) if items.iter().all(|item| item.as_map().is_some()) => {
                        self.merges.extend(items.into_iter().rev())
                    }
                    Value::List(_) | Value::Scalar(_) => {
                        return Err(Malformed {
                            line: key.line,
                            why: "\"<<\" merges maps and nothing else".into(),
                        });
                    }
                }
            }
            (Value::Map(map), Some(key)) => {
                if let (Some(first), Repeated::Refused) = (map.get(&key.text), repeated) {
                    let why = format!(
                        "the key {:?} stands twice in this map, first in line {}",
                        key.text, first.line
                    );
                    return Err(Malformed { line: key.line, why });
                }
                map.insert(key.text, Entry { key_style: key.style, line: key.line, node });
            }
            (Value::Map(_), None) => {
                return Err(Malformed { line: node.line, why: "a list or map cannot be a key".into() });
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
            Err(Malformed { line: node.line, why: "a list or map cannot be a key".into() })
        }
    }
}

/// Adds the fields that are not there yet.
fn merge_into(node: &mut Node, merged: Node) -> Result<()> {
    let line = merged.line;
    match (&mut node.value, merged.value) {
        (Value::Map(map), Value::Map(merged)) => {
            for (key, entry) in merged {
                map.entry(key).or_insert(entry);
            }
            Ok(())
        }
        _ => Err(Malformed { line, why: "\"<<\" merges maps and nothing else".into() }),
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
        (handle, suffix) => {
            Err(Malformed { line, why: format!("the tag {handle}{suffix} has no meaning in an object") })
        }
    }
}

fn check_tag(tag: Option<&WrittenTag>, expected: &str, line: u32) -> Result<()> {
    match tag {
        Some(tag) if (tag.handle(), tag.suffix()) != (CORE_TAGS, expected) => Err(Malformed {
            line,
            why: format!("the tag {}{} has no meaning in an object", tag.handle(), tag.suffix()),
        }),
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value as Json, json};

    fn read(text: &str) -> Vec<Json> {
        documents(text.as_bytes())
            .unwrap()
            .iter()
            .map(|node| node.to_json(Reading::Objects).unwrap())
            .collect()
    }

    fn refused(text: &str, line: u32, why: &str) {
        let malformed = documents(text.as_bytes()).unwrap_err();
        assert_eq!((malformed.line, malformed.why.contains(why)), (line, true), "{text:?}: {malformed:?}");
    }

    #[test]
    fn documents_are_split_at_their_separators() {
        assert_eq!(read("---\na: 1\n---\n---\n# nothing\n---\nb: 2\n"), [json!({"a": 1}), json!({"b": 2})]);
        assert_eq!(read("a: |\n  ---\n  x\n"), [json!({"a": "---\nx\n"})]);
        assert_eq!(read(""), [] as [Json; 0]);
        refused("a: 1\n--- b\n", 2, "only a comment");
    }

    #[test]
    fn a_time_in_brackets_or_braces_is_a_text() {
        let times = "a: 2024-1-1 1:02:03\nb: [2024-1-1 1:02:03, 2024-1-1]\nc: {d: 2024-1-1 1:02:03}\n";
        let (time, date, text) = ("2024-01-01T01:02:03Z", "2024-01-01T00:00:00Z", "2024-1-1 1:02:03");
        assert_eq!(read(times), [json!({"a": time, "b": [text, date], "c": {"d": text}})]);
    }

    #[test]
    fn a_lone_dash_in_brackets_or_braces_is_a_text() {
        assert_eq!(
            read("a: [-, -x, é, -]\nb: {c: -}\n---\n[-]"),
            [json!({"a": ["-", "-x", "é", "-"], "b": {"c": "-"}}), json!(["-"])]
        );
        refused(&format!("a: [{}]", "-,".repeat(MAX_LONE_DASHES + 1)), 1, "cannot start with '-'");
    }

    #[test]
    fn a_block_at_the_end_has_the_line_breaks_of_the_text() {
        assert_eq!(read("a: |\n  x\n  y"), [json!({"a": "x\ny"})]);
        assert_eq!(read("a: |\n  x\n  y\n"), [json!({"a": "x\ny\n"})]);
        assert_eq!(read("a: |\n  x\n\n\n"), [json!({"a": "x\n"})]);
        assert_eq!(read("a: |\n  x\n  "), [json!({"a": "x\n"})]);
        assert_eq!(read("a: |\n  x\nb: y"), [json!({"a": "x\n", "b": "y"})]);
    }

    #[test]
    fn nodes_know_their_lines() {
        let nodes = documents(b"a: 1\n---\nb:\n  c:\n    - d\n").unwrap();
        assert_eq!(nodes[1].as_map().unwrap()["b"].line, 3);
        assert_eq!(nodes[1].get("b").unwrap().get("c").unwrap().as_list().unwrap()[0].line, 5);
    }

    #[test]
    fn aliases_and_merge_keys_are_expanded() {
        let text =
            "base: &base {a: 1, b: 2}\nother: &o {b: 3, c: 4}\nx:\n  <<: [*base, *o]\n  a: 9\ny: *base\n";
        let documents = read(text);
        assert_eq!(documents[0]["x"], json!({"a": 9, "b": 2, "c": 4}));
        assert_eq!(documents[0]["y"], json!({"a": 1, "b": 2}));
    }

    #[test]
    fn what_would_be_lost_or_misread_is_refused() {
        refused("a: 1\na: 2\n", 2, "twice");
        refused("a: !foo b\n", 1, "tag");
        refused("a: *nowhere\n", 1, "");
        refused("a: &x [*x]\n", 1, "the value it stands in");
        refused("? [a]\n: b\n", 1, "cannot be a key");
        refused("a: {{ .Values.x }}\n", 1, "");
        refused("a: [\n", 1, "");
        refused("a:\n\tb: 1\n", 2, "");
    }

    #[test]
    fn floods_are_refused_in_time() {
        let deep = "[".repeat(100_000);
        assert!(documents(deep.as_bytes()).is_err());
        let mut laughs = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..9 {
            let items = format!("*a{},", level - 1).repeat(10);
            laughs.push_str(&format!("a{level}: &a{level} [{items}]\n"));
        }
        let malformed = documents(laughs.as_bytes()).unwrap_err();
        assert!(malformed.why.contains("aliases"), "{malformed:?}");
    }
}
