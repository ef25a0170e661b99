//! Dotted paths in an object: `spec.containers.[name=web].image`, `spec.ports.*.port`, `spec.args.0`.

use super::fieldspec::split_dotted;
use super::pattern::compile;
use yaml::{Map, Node, Scalar, Style, Tag, Value, documents};

/// A step from a value to a nested one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A field of a map.
    Field(String),
    /// An item of a list.
    Item(usize),
}

/// The value to create at the end of a path that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Scalar,
    List,
    Map,
}

impl Shape {
    pub(super) fn from_node(node: &Node) -> Self {
        match node.value {
            Value::Scalar(_) => Self::Scalar,
            Value::List(_) => Self::List,
            Value::Map(_) => Self::Map,
        }
    }

    fn make(self) -> Node {
        match self {
            Self::Scalar => Scalar { text: String::new(), tag: Tag::Unsettled, style: Style::Plain }.into(),
            Self::List => Value::List(Vec::new()).into(),
            Self::Map => Node::empty_map(),
        }
    }
}

/// Returns the value at a path. List items are selected by index, `-` for the last item, or `[key=value]`.
///
/// # Errors
/// Returns a sentence if a part of the path is invalid.
pub(super) fn lookup<'a>(node: &'a Node, path: &[String]) -> Result<Option<&'a Node>, String> {
    let mut at = node;
    for part in path.iter().map(|part| part.trim()).filter(|part| !part.is_empty()) {
        if at.is_null() {
            return Ok(None);
        }
        let next = if let Ok(index) = part.parse::<i64>() {
            let index = usize::try_from(index).map_err(|_| format!("the index {index} is negative"))?;
            list(at)?.get(index)
        } else if part == "-" {
            list(at)?.last()
        } else if part == "*" {
            return Err("\"*\" matches several values, but only one is allowed here".into());
        } else if let Some((key, value)) = item_condition(part)? {
            let matches = |item: &&Node| {
                if key.is_empty() {
                    item.text() == value
                } else {
                    item.get(key).is_some_and(|v| v.text() == value)
                }
            };
            list(at)?.iter().find(matches)
        } else {
            let map = at.as_map().ok_or_else(|| format!("cannot find {part:?} in {}", at.kind()))?;
            map.get(part).map(|entry| &entry.node)
        };
        match next {
            Some(next) => at = next,
            None => return Ok(None),
        }
    }
    Ok(Some(at))
}

fn list(node: &Node) -> Result<&[Node], String> {
    node.as_list().ok_or_else(|| format!("a list is expected, not {}", node.kind()))
}

/// Reads `[key=value]`. The key is empty in `[=value]`.
fn item_condition(part: &str) -> Result<Option<(&str, &str)>, String> {
    let Some(inner) = part.strip_prefix('[').and_then(|part| part.strip_suffix(']')) else { return Ok(None) };
    inner.split_once('=').map(Some).ok_or_else(|| format!("{part:?} must be [key=value]"))
}

pub(super) fn parts(path: &str) -> Vec<String> {
    split_dotted(path)
}

/// Returns all values at a path. Creates absent values if `create` is set.
///
/// # Errors
/// Returns a sentence if a part of the path is invalid or has no value.
pub(super) fn find_all(
    node: &mut Node,
    path: &[String],
    create: Option<Shape>,
) -> Result<Vec<Vec<Step>>, String> {
    let mut search = Search { create, steps: Vec::new(), found: Vec::new() };
    search.walk(node, path)?;
    Ok(search.found)
}

/// Returns the value at the end of the steps.
pub(super) fn at_mut<'a>(node: &'a mut Node, steps: &[Step]) -> Option<&'a mut Node> {
    steps.iter().try_fold(node, |node, step| match (&mut node.value, step) {
        (Value::Map(map), Step::Field(field)) => map.get_mut(field).map(|entry| &mut entry.node),
        (Value::List(items), Step::Item(index)) => items.get_mut(*index),
        _ => None,
    })
}

/// Returns the shape of the value before a part, which depends on the next part.
fn shape_before(next: Option<&String>, last: Shape) -> Shape {
    match next {
        None => last,
        Some(part) if part.is_empty() => last,
        Some(part) if (part.starts_with('[') && part.ends_with(']')) || part.parse::<usize>().is_ok() => {
            Shape::List
        }
        Some(_) => Shape::Map,
    }
}

/// A search for the values at a path.
struct Search {
    /// The shape of the last value, if absent values are created.
    create: Option<Shape>,
    /// The steps to the current value.
    steps: Vec<Step>,
    found: Vec<Vec<Step>>,
}

impl Search {
    fn walk(&mut self, node: &mut Node, path: &[String]) -> Result<(), String> {
        let Some((part, rest)) = path.split_first() else {
            self.found.push(self.steps.clone());
            return Ok(());
        };
        if let Ok(index) = part.parse::<usize>() {
            let items = items_of(node)?;
            if let (Some(last), true) = (self.create, items.len() == index) {
                items.push(shape_before(rest.first(), last).make());
            }
            let count = items.len();
            let item = items
                .get_mut(index)
                .ok_or_else(|| format!("the index {index} is out of range: the list has {count} items"))?;
            return self.deeper(item, Step::Item(index), rest);
        }
        if let Some((key, pattern)) = item_condition(part)? {
            return self.walk_matching(node, key, pattern, rest);
        }
        if part == "*" {
            for (index, item) in items_of(node)?.iter_mut().enumerate() {
                self.deeper(item, Step::Item(index), rest)?;
            }
            return Ok(());
        }
        if node.is_null() {
            return match self.create {
                Some(_) => Err(format!("{part:?} cannot be created in null")),
                None => Ok(()),
            };
        }
        let kind = node.kind();
        let map = node.as_map_mut().ok_or_else(|| format!("cannot find {part:?} in {kind}"))?;
        if let (Some(last), false) = (self.create, map.contains_key(part)) {
            map.insert(part.clone(), shape_before(rest.first(), last).make().into());
        }
        match map.get_mut(part) {
            // A path cannot continue inside a text. Callers that need this parse the text first.
            Some(entry)
                if !rest.is_empty()
                    && entry.node.as_scalar().is_some_and(|scalar| scalar.tag != Tag::Null) =>
            {
                let parsed = documents(entry.node.text().as_bytes())
                    .ok()
                    .and_then(|documents| documents.into_iter().next());
                let mut parsed = parsed.ok_or_else(|| {
                    format!("cannot find {:?} in {part:?}, which is a single value", rest.join("."))
                })?;
                find_all(&mut parsed, rest, self.create)?;
                Err(format!("{part:?} is a string that contains {:?}", rest.join(".")))
            }
            Some(entry) => self.deeper(&mut entry.node, Step::Field(part.clone()), rest),
            None => Ok(()),
        }
    }

    fn deeper(&mut self, node: &mut Node, step: Step, rest: &[String]) -> Result<(), String> {
        self.steps.push(step);
        let walked = self.walk(node, rest);
        self.steps.pop();
        walked
    }

    fn found(&mut self, step: Step) {
        self.steps.push(step);
        self.found.push(self.steps.clone());
        self.steps.pop();
    }

    /// Walks into the items that match a condition. Creates one if none does.
    fn walk_matching(
        &mut self,
        node: &mut Node,
        key: &str,
        pattern: &str,
        rest: &[String],
    ) -> Result<(), String> {
        let matcher = compile(pattern)?;
        let before = self.found.len();
        let matches = |item: &Node| {
            let text = if key.is_empty() { Some(item.text()) } else { item.get(key).map(Node::text) };
            text.is_some_and(|text| matcher.is_match(text.trim()))
        };
        for (index, item) in items_of(node)?.iter_mut().enumerate() {
            if matches(item) {
                if key.is_empty() {
                    self.found(Step::Item(index));
                } else {
                    self.deeper(item, Step::Item(index), rest)?;
                }
            }
        }
        if self.create.is_none() || self.found.len() > before {
            return Ok(());
        }
        let value = Scalar::unsettled(pattern);
        let mut made: Node = match key {
            "" => value.into(),
            key => Value::Map(Map::from([(key.to_owned(), Node::from(value).into())])).into(),
        };
        let items = items_of(node)?;
        let index = items.len();
        if !matches(&made) {
            return Err(format!("no item matches {pattern:?}, and a pattern cannot create one"));
        }
        if key.is_empty() {
            self.found(Step::Item(index));
        } else {
            self.deeper(&mut made, Step::Item(index), rest)?;
        }
        items_of(node)?.push(made);
        Ok(())
    }
}

fn items_of(node: &mut Node) -> Result<&mut Vec<Node>, String> {
    let kind = node.kind();
    match &mut node.value {
        Value::List(items) => Ok(items),
        Value::Scalar(_) | Value::Map(_) => Err(format!("a list is expected, not {kind}")),
    }
}
