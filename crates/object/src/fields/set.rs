//! Sets of paths.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// One step of a path.
///
/// Keys and values are JSON text, the form in which they are written and sorted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Element {
    /// A field of an object, or an entry of a map (`f:`).
    Field(String),
    /// The list item with these key fields, as a JSON object (`k:`).
    Key(String),
    /// The set item with this value, as JSON (`v:`).
    Value(String),
    /// The list item at this index (`i:`).
    Index(usize),
}

/// A set of paths, as a tree. A path is in the set if its last node is a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    nodes: BTreeMap<Element, Node>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Node {
    member: bool,
    below: FieldSet,
}

impl Element {
    fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(':')?;
        match kind {
            "f" => Some(Self::Field(rest.into())),
            "k" => Some(Self::Key(serde_json::from_str::<Value>(rest).ok()?.to_string())),
            "v" => Some(Self::Value(serde_json::from_str::<Value>(rest).ok()?.to_string())),
            "i" => rest.parse().ok().map(Self::Index),
            _ => None,
        }
    }

    fn encode(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(key) => format!("k:{key}"),
            Self::Value(value) => format!("v:{value}"),
            Self::Index(index) => format!("i:{index}"),
        }
    }

    /// Returns true if the element identifies a list item. The item may lack a key that the server has defaulted.
    pub(super) fn is_item(&self, item: &Value) -> bool {
        match self {
            Self::Key(key) => {
                let key: Map<String, Value> = serde_json::from_str(key).unwrap_or_default();
                key.iter().all(|(name, value)| item.get(name).is_none_or(|own| own == value))
            }
            Self::Value(value) => serde_json::from_str(value).is_ok_and(|value: Value| value == *item),
            Self::Field(_) | Self::Index(_) => false,
        }
    }
}

/// Formats a step of a path as upstream does: `.name`, `[name="x"]`, `[="x"]`, `[3]`.
impl std::fmt::Display for Element {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Value(value) => write!(f, "[={value}]"),
            Self::Index(index) => write!(f, "[{index}]"),
            Self::Key(key) => {
                let fields: Map<String, Value> = serde_json::from_str(key).unwrap_or_default();
                let pairs: Vec<_> = fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
                write!(f, "[{}]", pairs.join(","))
            }
        }
    }
}

impl FieldSet {
    /// Returns true if no path is in the set.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Adds a path to the set. The empty path is never in a set.
    pub fn insert(&mut self, path: &[Element]) {
        if let Some((first, rest)) = path.split_first() {
            let node = self.nodes.entry(first.clone()).or_default();
            if rest.is_empty() {
                node.member = true;
            } else {
                node.below.insert(rest);
            }
        }
    }

    /// Adds an element to the set if `member` is true, and the paths of `below` under it.
    pub(super) fn put(&mut self, element: Element, member: bool, below: FieldSet) {
        if member || !below.is_empty() {
            let node = self.nodes.entry(element).or_default();
            node.member |= member;
            node.below = std::mem::take(&mut node.below).union(&below);
        }
    }

    /// Returns the entry of an element: whether the element is in the set, and the paths below it.
    pub fn at(&self, element: &Element) -> Option<(bool, &FieldSet)> {
        self.nodes.get(element).map(|node| (node.member, &node.below))
    }

    /// Returns the entry of a list item: whether the item is in the set, and the paths below it.
    pub fn of_item(&self, item: &Value) -> Option<(bool, &Self)> {
        let mut entries = self.elements().filter(|(element, ..)| element.is_item(item));
        entries.next().map(|(_, member, below)| (member, below))
    }

    /// Returns every element with whether it is in the set, and the paths below it.
    pub fn elements(&self) -> impl Iterator<Item = (&Element, bool, &FieldSet)> {
        self.nodes.iter().map(|(element, node)| (element, node.member, &node.below))
    }

    /// Returns the paths in either set.
    #[must_use]
    pub fn union(mut self, other: &Self) -> Self {
        for (element, theirs) in &other.nodes {
            self.put(element.clone(), theirs.member, theirs.below.clone());
        }
        self
    }

    /// Returns the paths in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.combine(|element, mine| {
            let theirs = other.nodes.get(element)?;
            Some(Node { member: mine.member && theirs.member, below: mine.below.intersection(&theirs.below) })
        })
    }

    /// Returns the paths that are only in this set.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.combine(|element, mine| match other.nodes.get(element) {
            None => Some(mine.clone()),
            Some(theirs) => Some(Node {
                member: mine.member && !theirs.member,
                below: mine.below.difference(&theirs.below),
            }),
        })
    }

    fn combine(&self, node: impl Fn(&Element, &Node) -> Option<Node>) -> Self {
        let nodes =
            self.nodes.iter().filter_map(|(element, mine)| Some((element.clone(), node(element, mine)?)));
        Self { nodes: nodes.filter(|(_, node)| node.member || !node.below.is_empty()).collect() }
    }

    /// Removes the named fields that have paths below them in the set, but keeps those paths.
    #[must_use]
    pub(crate) fn without_containers(self, names: &[&str]) -> Self {
        let nodes = self.nodes.into_iter().map(|(element, node)| {
            let container = matches!(&element, Element::Field(name) if names.contains(&name.as_str()))
                && !node.below.is_empty();
            let below = node.below.without_containers(names);
            (element, Node { member: node.member && !container, below })
        });
        Self { nodes: nodes.collect() }
    }

    /// Returns every path in order, formatted as upstream does.
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect("", &mut paths);
        paths
    }

    fn collect(&self, prefix: &str, paths: &mut Vec<String>) {
        for (element, node) in &self.nodes {
            let path = format!("{prefix}{element}");
            if node.member {
                paths.push(path.clone());
            }
            node.below.collect(&path, paths);
        }
    }

    /// Parses `fieldsV1`, skipping malformed elements.
    pub(crate) fn from_v1(fields: &Value) -> Self {
        let entries = fields.as_object().into_iter().flatten().filter(|(key, _)| *key != ".");
        let nodes = entries.filter_map(|(key, value)| {
            let below = Self::from_v1(value);
            let member = below.is_empty() || value.get(".").is_some();
            Some((Element::parse(key)?, Node { member, below }))
        });
        Self { nodes: nodes.collect() }
    }

    /// Returns the set as `fieldsV1`.
    pub(crate) fn to_v1(&self) -> Value {
        let entries = self.nodes.iter().map(|(element, node)| {
            let mut value = node.below.to_v1();
            if let (true, false, Some(fields)) = (node.member, node.below.is_empty(), value.as_object_mut()) {
                fields.insert(".".into(), Value::Object(Map::new()));
            }
            (element.encode(), value)
        });
        Value::Object(entries.collect())
    }
}

impl<P: AsRef<[Element]>> FromIterator<P> for FieldSet {
    fn from_iter<I: IntoIterator<Item = P>>(paths: I) -> Self {
        let mut set = Self::default();
        for path in paths {
            set.insert(path.as_ref());
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_v1_survives_a_round_trip() {
        let fields = json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}}, "f:spec": {"f:ports": {
            "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}}, "f:tags": {"v:\"x\"": {}}, "f:list": {"i:3": {}}}});
        let set = FieldSet::from_v1(&fields);
        assert_eq!(set.to_v1(), fields);
        let expected = [
            ".metadata.labels",
            ".metadata.labels.a",
            ".spec.list[3]",
            ".spec.ports[port=80,protocol=\"TCP\"]",
            ".spec.ports[port=80,protocol=\"TCP\"].port",
            ".spec.tags[=\"x\"]",
        ];
        assert_eq!(set.paths(), expected);
    }

    fn set(paths: &str) -> FieldSet {
        let path = |text: &str| text.split('.').map(|name| Element::Field(name.into())).collect::<Vec<_>>();
        paths.split_whitespace().map(path).collect()
    }

    fn check(set: FieldSet, expected: &str) {
        assert_eq!(
            set.paths(),
            expected.split_whitespace().map(|path| format!(".{path}")).collect::<Vec<_>>()
        );
    }

    #[test]
    fn sets_combine() {
        let (a, b) = (set("x x.y x.z.q w"), set("x x.y.k x.z w"));
        check(a.clone().union(&b), "w x x.y x.y.k x.z x.z.q");
        check(a.intersection(&b), "w x");
        check(a.difference(&b), "x.y x.z.q");
        check(b.difference(&a), "x.y.k x.z");
        assert!(a.difference(&a).is_empty() && a.intersection(&FieldSet::default()).is_empty());
    }
}
