//! Strategic merge patches in kustomize's dialect.
//!
//! It differs from the API server's dialect. New items of a list come first, all keys of a list identify its
//! items, a `null` that nobody wrote is dropped, and lists of kinds that kustomize does not know are replaced.
//! `$setElementOrder`, `$retainKeys` and `$deleteFromPrimitiveList` have the same effect as on the API server,
//! while kustomize would leave them in the object.

use super::items::{ItemMerge, keys_of};
use crate::error::{Reason, RenderError};
use crate::schemas::Schemas;
use object::builtin_lists::Position;
use object::patch::{DELETE_FROM, RETAIN_KEYS, SET_ORDER};
use yaml::{Entry, Map, Node, Scalar, Style, Tag, Value};

pub(super) type Result<T> = std::result::Result<T, Box<RenderError>>;

pub(super) const PATCH: &str = "$patch";

/// Applies a patch to an object. Returns None if the patch deletes the object.
///
/// `$patch: replace` for the whole object changes nothing: kustomize creates the new object but keeps the old one.
///
/// # Errors
/// Fails if the two have different structures or a directive is unknown. The error has no file yet.
pub(super) fn merge(object: Node, patch: Node, schemas: &Schemas) -> Result<Option<Node>> {
    if patch.get(PATCH).is_some_and(|directive| directive.text() == "replace") {
        return Ok(Some(object));
    }
    Merge { schemas }.walk(Some(object), Some(patch), Position::Unknown)
}

/// Walks through an object and its patch.
pub(super) struct Merge<'s> {
    schemas: &'s Schemas,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Directive {
    Merge,
    Replace,
    Delete,
}

pub(super) fn invalid(line: u32, message: impl Into<String>) -> Box<RenderError> {
    Box::new(RenderError::new(Reason::Patch, "", message).line(line))
}

/// Removes the directive from a map and returns it.
fn directive(map: &mut Map) -> Result<Directive> {
    let Some(entry) = map.get(PATCH) else { return Ok(Directive::Merge) };
    let (line, word) = (entry.line, entry.node.text().to_owned());
    map.remove(PATCH);
    word_of(&word, line)
}

fn word_of(word: &str, line: u32) -> Result<Directive> {
    match word {
        "merge" => Ok(Directive::Merge),
        "replace" => Ok(Directive::Replace),
        "delete" => Ok(Directive::Delete),
        other => Err(invalid(line, format!("$patch must be merge, replace or delete, not {other:?}"))),
    }
}

/// Removes the directive from a list and returns it. It is a separate item that contains nothing else.
fn list_directive(items: &mut Vec<Node>) -> Result<Directive> {
    let at = items.iter().position(|item| item.get(PATCH).is_some());
    let Some((at, item)) = at.and_then(|at| Some((at, items.get(at)?))) else { return Ok(Directive::Merge) };
    if item.as_map().is_some_and(|map| map.len() > 1) {
        return Ok(Directive::Merge);
    }
    let (line, word) = (item.line, item.get(PATCH).map(Node::text).unwrap_or_default().to_owned());
    items.remove(at);
    word_of(&word, line)
}

impl Merge<'_> {
    /// Returns the merged value, or None if nothing remains.
    pub(super) fn walk(
        &self,
        object: Option<Node>,
        patch: Option<Node>,
        at: Position<'_>,
    ) -> Result<Option<Node>> {
        let at = self.position(at, object.as_ref(), patch.as_ref());
        let not_null = |node: &Option<Node>| node.as_ref().filter(|node| !node.is_null()).map(shape);
        match (not_null(&object), not_null(&patch)) {
            (Some(object_shape), Some(patch_shape)) if object_shape != patch_shape => {
                let (line, kinds) = match (&object, &patch) {
                    (Some(object), Some(patch)) => (
                        patch.line,
                        format!("it contains {} where the object contains {}", patch.kind(), object.kind()),
                    ),
                    _ => (0, "shapes differ".into()),
                };
                Err(invalid(line, format!("the patch does not fit the object: {kinds}")))
            }
            (None, None) => Ok(object.filter(|node| patch.is_none() && !node.text().is_empty())),
            (Some(Shape::Map), _) | (None, Some(Shape::Map)) => self.maps(object, patch, at),
            (Some(Shape::List), _) | (None, Some(Shape::List)) => self.lists(object, patch, at),
            (Some(Shape::Scalar), _) | (None, Some(Shape::Scalar)) => {
                let merged = match (object, patch) {
                    (Some(object), Some(patch)) => Some(overwritten(&object, patch)),
                    (object, patch) => patch.or(object),
                };
                Ok(merged.filter(|node| !node.is_null()))
            }
        }
    }

    /// Returns the schema position of a nested object. If no schema is known, the nested object's own kind
    /// determines it.
    fn position<'p>(&'p self, at: Position<'p>, object: Option<&Node>, patch: Option<&Node>) -> Position<'p> {
        if at.is_known() {
            return at;
        }
        let text = |node: &Node, field| {
            node.get(field).map(Node::text).filter(|text| !text.is_empty()).map(String::from)
        };
        let kind = [object, patch]
            .into_iter()
            .flatten()
            .find_map(|node| Some((text(node, "apiVersion")?, text(node, "kind")?)));
        kind.map_or(Position::Unknown, |(api_version, kind)| self.schemas.root(&api_version, &kind))
    }

    fn maps(&self, object: Option<Node>, patch: Option<Node>, at: Position<'_>) -> Result<Option<Node>> {
        let Some(object) = object.filter(|node| !node.is_null()) else {
            return patch.map_or(Ok(None), |patch| self.fresh(patch, at));
        };
        if patch.as_ref().is_some_and(Node::is_null) {
            return Ok(None);
        }
        let line = object.line;
        let (Value::Map(mut fields), patch) = (object.value, patch.map(|patch| (patch.line, patch.value)))
        else {
            return Ok(None);
        };
        let mut changes = match patch {
            Some((patch_line, Value::Map(mut changes))) => match directive(&mut changes)? {
                Directive::Merge => changes,
                Directive::Delete => return Ok(None),
                Directive::Replace => {
                    return self.fresh(Node { line: patch_line, value: Value::Map(changes), shared: 0 }, at);
                }
            },
            Some((_, Value::Scalar(_) | Value::List(_))) | None => Map::new(),
        };
        let orders = directives_before(&mut fields, &mut changes)?;
        let mut merged = Map::new();
        let mut rest = changes;
        for (key, Entry { key_style, line, node }) in fields {
            let change = rest.remove(&key).map(|entry| entry.node);
            if let Some(node) = self.walk(Some(node), change, at.field(&key))? {
                merged.insert(key, Entry { key_style, line, node });
            }
        }
        for (key, Entry { key_style, line, node }) in rest {
            if let Some(node) = self.walk(None, Some(node), at.field(&key))? {
                merged.insert(key, Entry { key_style, line, node });
            }
        }
        for (field, order) in orders {
            if let Some(Node { value: Value::List(items), .. }) =
                merged.get_mut(&field).map(|entry| &mut entry.node)
            {
                reorder(items, &order, at.field(&field));
            }
        }
        Ok(Some(Node { line, value: Value::Map(merged), shared: 0 }))
    }

    /// Returns a part of the patch without a counterpart in the object, without `null`s and directives.
    pub(super) fn fresh(&self, patch: Node, at: Position<'_>) -> Result<Option<Node>> {
        let at = self.position(at, Some(&patch), None);
        let line = patch.line;
        let value = match patch.value {
            Value::Map(mut fields) => {
                if directive(&mut fields)? == Directive::Delete {
                    return Ok(None);
                }
                let mut fresh = Map::new();
                for (key, Entry { key_style, line, node }) in fields {
                    if node.is_null()
                        || key == RETAIN_KEYS
                        || key.starts_with(DELETE_FROM)
                        || key.starts_with(SET_ORDER)
                    {
                        continue;
                    }
                    if let Some(node) = self.fresh(node, at.field(&key))? {
                        fresh.insert(key, Entry { key_style, line, node });
                    }
                }
                Value::Map(fresh)
            }
            Value::List(mut items) if at.patch_strategy().merge => {
                list_directive(&mut items)?;
                let fresh = items.into_iter().filter_map(|item| self.fresh(item, at.items()).transpose());
                Value::List(fresh.collect::<Result<_>>()?)
            }
            value @ (Value::List(_) | Value::Scalar(_)) => value,
        };
        Ok(Some(Node { line, value, shared: 0 }))
    }

    fn lists(&self, object: Option<Node>, patch: Option<Node>, at: Position<'_>) -> Result<Option<Node>> {
        if !at.patch_strategy().merge {
            return Ok(patch.or(object).filter(|node| !node.is_null()));
        }
        let Some(object) = object.filter(|node| !node.is_null()) else {
            return patch.map_or(Ok(None), |patch| self.fresh(patch, at));
        };
        if patch.as_ref().is_some_and(Node::is_null) {
            return Ok(None);
        }
        let line = object.line;
        let Value::List(items) = object.value else { return Ok(None) };
        let mut changes = match patch.map(|patch| patch.value) {
            Some(Value::List(changes)) => changes,
            Some(Value::Scalar(_) | Value::Map(_)) | None => Vec::new(),
        };
        let items = match list_directive(&mut changes)? {
            Directive::Delete => return Ok(None),
            Directive::Replace => {
                let fresh = changes.into_iter().filter_map(|item| self.fresh(item, at.items()).transpose());
                fresh.collect::<Result<_>>()?
            }
            Directive::Merge => ItemMerge::new(self, items, changes, at).run()?,
        };
        Ok(Some(Node { line, value: Value::List(items), shared: 0 }))
    }
}

/// Returns a scalar that replaces another one. It keeps the quotes of the other: `5` in place of `"1"` is a
/// string.
fn overwritten(object: &Node, patch: Node) -> Node {
    let value = match (object.as_scalar().map(|scalar| scalar.style), patch.value) {
        (Some(style @ (Style::Quoted | Style::Folded)), Value::Scalar(scalar)) if scalar.tag != Tag::Null => {
            Value::Scalar(Scalar { tag: Tag::Str, style, ..scalar })
        }
        (Some(style @ (Style::Plain | Style::Tagged)), Value::Scalar(scalar)) => {
            Value::Scalar(Scalar { style, ..scalar })
        }
        (_, value) => value,
    };
    Node { line: patch.line, value, shared: object.shared }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Scalar,
    List,
    Map,
}

fn shape(node: &Node) -> Shape {
    match node.value {
        Value::Scalar(_) => Shape::Scalar,
        Value::List(_) => Shape::List,
        Value::Map(_) => Shape::Map,
    }
}

/// Applies `$retainKeys` and `$deleteFromPrimitiveList`, and removes `$setElementOrder` and returns it for later.
fn directives_before(fields: &mut Map, changes: &mut Map) -> Result<Vec<(String, Vec<Node>)>> {
    let directives: Vec<String> = changes.keys().filter(|key| key.starts_with('$')).cloned().collect();
    let mut orders = Vec::new();
    for key in directives {
        let known = key == RETAIN_KEYS || key.starts_with(DELETE_FROM) || key.starts_with(SET_ORDER);
        let Some(entry) = known.then(|| changes.remove(&key)).flatten() else { continue };
        let Value::List(items) = entry.node.value else {
            return Err(invalid(entry.line, format!("{key} must be a list")));
        };
        let named = |text: &str| items.iter().any(|item| item.text() == text);
        if key == RETAIN_KEYS {
            fields.retain(|field, _| named(field));
        } else if let Some(list) = key.strip_prefix(DELETE_FROM) {
            if let Some(Node { value: Value::List(current), .. }) =
                fields.get_mut(list).map(|entry| &mut entry.node)
            {
                current.retain(|item| !named(item.text()));
            }
        } else if let Some(list) = key.strip_prefix(SET_ORDER) {
            orders.push((list.to_owned(), items));
        }
    }
    Ok(orders)
}

/// Sorts the items that `$setElementOrder` names into its order. Other items keep their positions.
fn reorder(items: &mut [Node], order: &[Node], at: Position<'_>) {
    let key = keys_of(at).into_iter().next();
    let identity = |node: &Node| match &key {
        Some(key) => node.get(key).map(Node::text).unwrap_or_default().to_owned(),
        None => node.text().to_owned(),
    };
    let rank = |node: &Node| order.iter().position(|ordered| identity(ordered) == identity(node));
    let mut named: Vec<Node> = items.iter().filter(|item| rank(item).is_some()).cloned().collect();
    named.sort_by_key(|item| rank(item));
    let mut named = named.into_iter();
    for slot in items.iter_mut().filter(|item| rank(item).is_some()) {
        if let Some(next) = named.next() {
            *slot = next;
        }
    }
}
