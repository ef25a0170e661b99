//! An object during rendering, with its earlier names.

use std::collections::BTreeMap;

use super::kustomization::Selector;
use super::schemas::BUILTIN;
use super::shared::Shared;
use object::Gvk;
use object::Location;
use yaml::{Node, Scalar, Style, Tag, Value, reads_as_another_type};

/// The namespace of objects that set none.
pub(super) const DEFAULT_NAMESPACE: &str = "default";
/// Placeholder for the namespace of cluster-scoped objects.
pub(super) const NOT_NAMESPACED: &str = "_non_namespaceable_";

/// The identity of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ResId {
    pub gvk: Gvk,
    pub name: String,
    /// The namespace, which is never empty.
    pub namespace: String,
}

/// Prints `Kind.group namespace/name`.
impl std::fmt::Display for ResId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.namespace.as_str() {
            NOT_NAMESPACED => write!(f, "{} {}", self.gvk, self.name),
            namespace => write!(f, "{} {namespace}/{}", self.gvk, self.name),
        }
    }
}

/// The identity of an object before a transformer changed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Previous {
    pub kind: String,
    pub name: String,
    /// The namespace, which is never empty.
    pub namespace: String,
}

/// The origin of an object or a change, recorded in annotations on request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Origin {
    /// The file of an object.
    pub path: String,
    /// The file that configures a generator or transformer.
    pub configured_in: String,
    /// The generator or transformer: `apiVersion`, `kind`, name and namespace.
    pub configured_by: Option<[String; 4]>,
}

/// An object during rendering.
#[derive(Clone, Debug)]
pub(super) struct Resource {
    /// Its fields. Copies share them until one of them changes.
    pub node: Shared<Node>,
    /// The location it was read from, or of its generator.
    pub location: Location,
    /// Its earlier names, oldest first.
    pub previous: Vec<Previous>,
    /// The prefixes added to its name, innermost first.
    pub prefixes: Vec<String>,
    /// The suffixes added to its name, innermost first.
    pub suffixes: Vec<String>,
    /// The namespace of its release, if a chart created it. Kustomizations do not change the namespace of such an
    /// object.
    pub release_namespace: Option<String>,
    /// True if a hash of its content is appended to its name at the end.
    pub needs_hash: bool,
    /// The variables that read their value from it.
    pub vars: Vec<String>,
    /// Its origin, if origins are tracked.
    pub origin: Option<Origin>,
    /// The transformers that changed it, if origins are tracked.
    pub transformations: Vec<Origin>,
    /// The values that fields share, indexed by their number minus one.
    shared: Vec<Scalar>,
}

impl Resource {
    pub(super) fn new(node: Node, location: Location) -> Self {
        Self {
            node: node.into(),
            location,
            previous: Vec::new(),
            prefixes: Vec::new(),
            suffixes: Vec::new(),
            release_namespace: None,
            needs_hash: false,
            vars: Vec::new(),
            origin: None,
            transformations: Vec::new(),
            shared: Vec::new(),
        }
    }

    pub(super) fn api_version(&self) -> &str {
        self.node.get("apiVersion").map(Node::text).unwrap_or_default()
    }

    pub(super) fn kind(&self) -> &str {
        self.node.get("kind").map(Node::text).unwrap_or_default()
    }

    pub(super) fn gvk(&self) -> Gvk {
        Gvk::parse(self.api_version(), self.kind())
    }

    pub(super) fn name(&self) -> &str {
        self.meta("name")
    }

    /// Returns `metadata.namespace`, or an empty string if it is absent.
    pub(super) fn namespace(&self) -> &str {
        self.meta("namespace")
    }

    fn meta(&self, field: &str) -> &str {
        let node = self.node.get("metadata").and_then(|meta| meta.get(field)).filter(|node| !node.is_null());
        node.map(Node::text).unwrap_or_default()
    }

    /// Returns true if the kind is known to be cluster-scoped.
    pub(super) fn is_cluster_scoped(&self) -> bool {
        BUILTIN.is_namespaced(self.api_version(), self.kind()) == Some(false)
    }

    /// Returns the namespace that counts for the identity.
    pub(super) fn effective_namespace(&self) -> &str {
        match self.namespace() {
            _ if self.is_cluster_scoped() => NOT_NAMESPACED,
            "" => DEFAULT_NAMESPACE,
            namespace => namespace,
        }
    }

    /// Returns its current identity.
    pub(super) fn id(&self) -> ResId {
        ResId { gvk: self.gvk(), name: self.name().into(), namespace: self.effective_namespace().into() }
    }

    /// Returns its earlier identities, oldest first.
    pub(super) fn previous_ids(&self) -> impl DoubleEndedIterator<Item = ResId> {
        self.previous.iter().map(|previous| ResId {
            gvk: Gvk { kind: previous.kind.clone(), ..self.gvk() },
            name: previous.name.clone(),
            namespace: previous.namespace.clone(),
        })
    }

    pub(super) fn original_id(&self) -> ResId {
        self.previous_ids().next().unwrap_or_else(|| self.id())
    }

    /// Returns all earlier identities and the current one.
    pub(super) fn all_ids(&self) -> impl Iterator<Item = ResId> {
        self.previous_ids().chain([self.id()])
    }

    /// Records its identity before a change.
    ///
    /// Kustomize records it in annotations and rewrites all of them, so they share no values afterwards.
    pub(super) fn remember(&mut self) {
        let (kind, name, namespace) =
            (self.kind().to_owned(), self.name().to_owned(), self.effective_namespace().to_owned());
        self.previous.push(Previous { kind, name, namespace });
        if !self.shared.is_empty()
            && let Some(annotations) =
                self.node.get_mut("metadata").and_then(|meta| meta.get_mut("annotations"))
        {
            annotations.for_each(&mut |node| node.shared = 0);
        }
    }

    /// Returns true if kustomize would store internal annotations in the object, which it removes at the end. A
    /// JSON patch then finds a map to change.
    pub(super) fn is_annotated(&self) -> bool {
        !self.previous.is_empty()
            || self.needs_hash
            || self.release_namespace.is_some()
            || self.origin.is_some()
    }

    /// Returns a text that several fields will share.
    pub(super) fn share(&mut self, text: &str) -> Node {
        let scalar = Scalar::string(text);
        self.shared.push(scalar.clone());
        Node { shared: u32::try_from(self.shared.len()).unwrap_or_default(), ..scalar.into() }
    }

    /// Makes fields that share a value equal again, after one of them was changed.
    pub(super) fn spread_shared(&mut self) {
        if self.shared.is_empty() {
            return;
        }
        let before = self.shared.clone();
        let at = |node: &Node| usize::try_from(node.shared).ok()?.checked_sub(1);
        let after = &mut self.shared;
        self.node.for_each(&mut |node| {
            if let (Some(at), Value::Scalar(scalar)) = (at(node), &node.value)
                && before.get(at).is_some_and(|before| before != scalar)
                && let Some(after) = after.get_mut(at)
            {
                after.clone_from(scalar);
            }
        });
        if *after != before {
            self.node.for_each(&mut |node| {
                if let Some(after) = at(node).and_then(|at| after.get(at)) {
                    node.value = Value::Scalar(after.clone());
                }
            });
        }
    }

    pub(super) fn set_name(&mut self, name: &str) {
        if let Some(meta) = self.node.map_at("metadata") {
            set_text(meta, "name", name);
        }
    }

    /// Sets `metadata.namespace`, or removes it if the argument is empty.
    pub(super) fn set_namespace(&mut self, namespace: &str) {
        let Some(meta) = self.node.map_at("metadata") else { return };
        if namespace.is_empty() {
            meta.remove("namespace");
        } else {
            set_text(meta, "namespace", namespace);
        }
    }

    pub(super) fn set_kind(&mut self, kind: &str) {
        set_text(&mut self.node, "kind", kind);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.node.is_empty()
    }

    /// Returns labels or annotations, with all values as text.
    pub(super) fn string_map(&self, field: &str) -> BTreeMap<&str, &str> {
        let map = self.node.get("metadata").and_then(|meta| meta.get(field)?.as_map());
        map.into_iter().flatten().map(|(key, entry)| (key.as_str(), entry.node.text())).collect()
    }

    /// Replaces labels or annotations. Removes the field if there are none.
    pub(super) fn set_string_map(&mut self, field: &str, values: BTreeMap<String, String>) {
        let Some(meta) = self.node.map_at("metadata") else { return };
        if values.is_empty() {
            meta.remove(field);
        } else {
            let entries = values.into_iter().map(|(key, value)| (key, Node::string(value).into()));
            meta.set(field, Value::Map(entries.collect()));
        }
    }

    /// Returns true if a selector matches its original or current identity.
    pub(super) fn is_selected(&self, selector: &Selector) -> bool {
        let (original, current) = (self.original_id(), self.id());
        let either = |matches: fn(&Selector, &str) -> bool, a: &str, b: &str| {
            matches(selector, a) || matches(selector, b)
        };
        either(Selector::matches_namespace, &original.namespace, &current.namespace)
            && either(Selector::matches_name, &original.name, &current.name)
            && selector.matches_gvk(&current.gvk)
            && self.meets_labels(selector)
    }

    /// Returns true if labels and annotations match a selector.
    pub(super) fn meets_labels(&self, selector: &Selector) -> bool {
        let meets = |field, selector: &object::Selector| {
            selector.is_empty() || {
                let map = self.string_map(field);
                selector.matches_with(|key| map.get(key).copied())
            }
        };
        meets("labels", &selector.labels) && meets("annotations", &selector.annotations)
    }
}

/// Sets a field to a text that determines its type. A new field becomes a string.
pub(super) fn set_text(map: &mut Node, field: &str, text: &str) {
    match map.get_mut(field) {
        Some(Node { value: Value::Scalar(scalar), .. }) => {
            *scalar = Scalar { text: text.into(), tag: Tag::Unsettled, style: untagged(scalar.style) };
        }
        Some(_) | None if reads_as_another_type(text) => map.set(field, Node::string(text)),
        Some(_) | None => map.set(field, Scalar::unsettled(text)),
    }
}

/// Returns the style of a scalar after a change of its text. An explicit tag is dropped.
pub(super) fn untagged(style: Style) -> Style {
    match style {
        Style::Tagged => Style::Plain,
        style @ (Style::Plain | Style::Quoted | Style::Folded) => style,
    }
}
