//! Strategic merge patches in kustomize's dialect.
//!
//! It differs from the API server's: new items of a list come first, items are told apart by all keys of the list, a `null` that nobody
//! wrote out disappears, and a kind that kustomize does not know has its lists replaced. `$setElementOrder`, `$retainKeys` and
//! `$deleteFromPrimitiveList` do what they do on the API server; kustomize would leave them in the object.

use crate::object::builtin_lists::{ListType, Position};
use crate::render::error::{Reason, RenderError};
use crate::render::schemas::Schemas;
use crate::render::yaml::{Entry, Map, Node, Scalar, Style, Tag, Value};

type Result<T> = std::result::Result<T, Box<RenderError>>;

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const SET_ORDER: &str = "$setElementOrder/";

/// Applies a patch to an object; `None` where the patch deletes it.
///
/// `$patch: replace` for the whole object changes nothing: kustomize makes the new object and keeps the old one.
///
/// # Errors
/// Where the two have different shapes, or a directive is unknown. The error knows no file yet.
pub(super) fn merge(object: Node, patch: Node, schemas: &Schemas) -> Result<Option<Node>> {
    if patch.get(PATCH).is_some_and(|directive| directive.text() == "replace") {
        return Ok(Some(object));
    }
    Merge { schemas }.walk(Some(object), Some(patch), Position::Unknown)
}

struct Merge<'s> {
    schemas: &'s Schemas,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Directive {
    Merge,
    Replace,
    Delete,
}

fn invalid(line: u32, message: impl Into<String>) -> Box<RenderError> {
    Box::new(RenderError::new(Reason::Patch, "", message).line(line))
}

/// Takes the directive out of a map.
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

/// Takes the directive out of a list: an item of its own that holds nothing else.
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
    /// `None` where nothing is left.
    fn walk(&self, object: Option<Node>, patch: Option<Node>, at: Position<'_>) -> Result<Option<Node>> {
        let at = self.position(at, object.as_ref(), patch.as_ref());
        let not_null = |node: &Option<Node>| node.as_ref().filter(|node| !node.is_null()).map(shape);
        match (not_null(&object), not_null(&patch)) {
            (Some(object_shape), Some(patch_shape)) if object_shape != patch_shape => {
                let (line, kinds) = match (&object, &patch) {
                    (Some(object), Some(patch)) => (patch.line, format!("{} meets {}", patch.kind(), object.kind())),
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

    /// Where nothing is known, an object within an object says itself what it is.
    fn position<'p>(&'p self, at: Position<'p>, object: Option<&Node>, patch: Option<&Node>) -> Position<'p> {
        if at.is_known() {
            return at;
        }
        let text = |node: &Node, field| node.get(field).map(Node::text).filter(|text| !text.is_empty()).map(String::from);
        let kind = [object, patch].into_iter().flatten().find_map(|node| Some((text(node, "apiVersion")?, text(node, "kind")?)));
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
        let (Value::Map(mut fields), patch) = (object.value, patch.map(|patch| (patch.line, patch.value))) else { return Ok(None) };
        let mut changes = match patch {
            Some((patch_line, Value::Map(mut changes))) => match directive(&mut changes)? {
                Directive::Merge => changes,
                Directive::Delete => return Ok(None),
                Directive::Replace => return self.fresh(Node { line: patch_line, value: Value::Map(changes), shared: 0 }, at),
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
            if let Some(Node { value: Value::List(items), .. }) = merged.get_mut(&field).map(|entry| &mut entry.node) {
                reorder(items, &order, at.field(&field));
            }
        }
        Ok(Some(Node { line, value: Value::Map(merged), shared: 0 }))
    }

    /// A part of the patch that meets nothing: without `null`s and directives.
    fn fresh(&self, patch: Node, at: Position<'_>) -> Result<Option<Node>> {
        let at = self.position(at, Some(&patch), None);
        let line = patch.line;
        let value = match patch.value {
            Value::Map(mut fields) => {
                if directive(&mut fields)? == Directive::Delete {
                    return Ok(None);
                }
                let mut kept = Map::new();
                for (key, Entry { key_style, line, node }) in fields {
                    if node.is_null() || key == RETAIN_KEYS || key.starts_with(DELETE_FROM) || key.starts_with(SET_ORDER) {
                        continue;
                    }
                    if let Some(node) = self.fresh(node, at.field(&key))? {
                        kept.insert(key, Entry { key_style, line, node });
                    }
                }
                Value::Map(kept)
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

/// A scalar in the place of another, whose quotes it takes: `5` in the place of `"1"` is a string.
fn overwritten(object: &Node, patch: Node) -> Node {
    let value = match (object.as_scalar().map(|scalar| scalar.style), patch.value) {
        (Some(style @ (Style::Quoted | Style::Folded)), Value::Scalar(scalar)) if scalar.tag != Tag::Null => {
            Value::Scalar(Scalar { tag: Tag::Str, style, ..scalar })
        }
        (Some(style @ (Style::Plain | Style::Tagged)), Value::Scalar(scalar)) => Value::Scalar(Scalar { style, ..scalar }),
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

/// Applies `$retainKeys` and `$deleteFromPrimitiveList`, and takes out `$setElementOrder` for later.
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
            if let Some(Node { value: Value::List(current), .. }) = fields.get_mut(list).map(|entry| &mut entry.node) {
                current.retain(|item| !named(item.text()));
            }
        } else if let Some(list) = key.strip_prefix(SET_ORDER) {
            orders.push((list.to_owned(), items));
        }
    }
    Ok(orders)
}

/// Puts the items that `$setElementOrder` names into its order; the others stay where they are.
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

/// The keys that tell items apart: those of server-side apply where there are any, else that of the patch strategy.
fn keys_of(at: Position<'_>) -> Vec<String> {
    match at.list_type() {
        ListType::Map(keys) if !keys.is_empty() => keys.iter().map(|key| key.name.to_owned()).collect(),
        ListType::Map(_) | ListType::Set | ListType::Atomic => at.patch_strategy().merge_key.map(String::from).into_iter().collect(),
    }
}

/// The merge of two lists by keys.
///
/// This follows kustomize step by step, in its treatment of items that lack a key too: what is matched where decides the order of the
/// result, and overlays out there rely on it.
struct ItemMerge<'m, 's> {
    merge: &'m Merge<'s>,
    at: Position<'m>,
    keys: Vec<String>,
    /// All items that take part; the lists below hold indices.
    nodes: Vec<Node>,
    object: Vec<usize>,
    patch: Vec<usize>,
}

impl<'m, 's> ItemMerge<'m, 's> {
    fn new(merge: &'m Merge<'s>, object: Vec<Node>, patch: Vec<Node>, at: Position<'m>) -> Self {
        let keys = keys_of(at);
        let keys = if keys.is_empty() { vec![String::new()] } else { keys };
        let split = object.len();
        let nodes: Vec<Node> = object.into_iter().chain(patch).collect();
        Self { merge, at, keys, object: (0..split).collect(), patch: (split..nodes.len()).collect(), nodes }
    }

    fn run(mut self) -> Result<Vec<Node>> {
        let all = self.all_values();
        let mut added: Vec<usize> = Vec::new();
        let mut valid_keys = self.keys.clone();
        for values in &all {
            let (keys, values) = valid(&all, values, &self.keys);
            valid_keys.clone_from(&keys);
            let (inner_keys, inner_values) = valid(std::slice::from_ref(&values), &values, &keys);
            let (object, patch) = (self.find(&self.object, &inner_keys, &inner_values), self.find(&self.patch, &inner_keys, &inner_values));
            match self.merge_item(object, patch)? {
                None => {
                    let mut list = std::mem::take(&mut self.object);
                    self.set(&mut list, &keys, &values, None)?;
                    self.object = list;
                }
                Some(item) => {
                    self.complete(item, &keys, &values);
                    self.set(&mut added, &keys, &values, Some(item))?;
                }
            }
        }
        if all.is_empty() {
            return Ok(self.object.iter().filter_map(|id| self.nodes.get(*id).cloned()).collect());
        }
        self.append_object(&mut added, &valid_keys)?;
        Ok(added.iter().filter_map(|id| self.nodes.get(*id).cloned()).collect())
    }

    fn node(&self, id: usize) -> Option<&Node> {
        self.nodes.get(id)
    }

    /// The values of the keys of all items, those of the patch first, each once.
    fn all_values(&self) -> Vec<Vec<String>> {
        let mut all: Vec<Vec<String>> = Vec::new();
        for node in self.patch.iter().chain(&self.object).filter_map(|id| self.node(*id)) {
            let value = |key: &String| match key.as_str() {
                "" => node.text().to_owned(),
                key => node.get(key).filter(|value| !value.is_empty()).map(Node::text).unwrap_or_default().to_owned(),
            };
            let values: Vec<String> = self.keys.iter().map(value).collect();
            if !all.contains(&values) {
                all.push(values);
            }
        }
        if self.keys.len() > 1 {
            complete_values(&mut all);
        }
        all
    }

    /// The first item that has exactly these values.
    fn find(&self, list: &[usize], keys: &[String], values: &[String]) -> Option<usize> {
        let fits = |node: &Node| {
            keys.iter().zip(values).all(|(key, value)| match key.as_str() {
                "" => node.as_scalar().is_some_and(|scalar| scalar.text == *value),
                key => node.get(key).is_some_and(|field| field.text() == value),
            })
        };
        list.iter().copied().find(|id| self.node(*id).is_some_and(fits))
    }

    /// Merges two items; the object's item changes in place, so that it is found again later.
    fn merge_item(&mut self, object: Option<usize>, patch: Option<usize>) -> Result<Option<usize>> {
        let at = self.at.items();
        let change = patch.and_then(|id| self.node(id).cloned());
        let replaces = change.as_ref().and_then(|change| change.get(PATCH)).is_some_and(|word| word.text() == "replace");
        match object {
            Some(id) if !replaces => {
                let merged = self.merge.walk(self.node(id).cloned(), change, at)?;
                let merged = merged.filter(|node| !node.is_empty());
                Ok(merged.and_then(|merged| self.nodes.get_mut(id).map(|slot| *slot = merged)).map(|()| id))
            }
            Some(_) | None => {
                let fresh = change.map_or(Ok(None), |change| self.merge.fresh(change, at))?;
                Ok(fresh.filter(|node| !node.is_empty()).map(|node| {
                    self.nodes.push(node);
                    self.nodes.len() - 1
                }))
            }
        }
    }

    /// Makes sure an item has its keys.
    fn complete(&mut self, id: usize, keys: &[String], values: &[String]) {
        let Some(node) = self.nodes.get_mut(id) else { return };
        for (key, value) in keys.iter().zip(values).filter(|(_, value)| !value.is_empty()) {
            match &mut node.value {
                Value::Map(map) => {
                    map.entry(key.clone()).or_insert_with(|| Node::string(value.clone()).into());
                }
                Value::Scalar(scalar) => {
                    let style = if scalar.style == Style::Quoted { Style::Quoted } else { Style::Plain };
                    *scalar = Scalar { text: value.clone(), tag: Tag::Unsettled, style };
                }
                Value::List(_) => {}
            }
        }
    }

    /// Replaces the items that have these values, or removes them where `item` is `None`; adds the item where none has.
    ///
    /// Without values everything goes; an empty value fits any.
    fn set(&self, list: &mut Vec<usize>, keys: &[String], values: &[String], item: Option<usize>) -> Result<()> {
        let first_matters = |texts: &[String]| texts.first().is_some_and(|text| !text.is_empty());
        let sets_maps = first_matters(keys) && first_matters(values);
        let mut result = Vec::with_capacity(list.len() + 1);
        let mut found = false;
        for id in list.iter().copied() {
            let Some(node) = self.node(id) else { continue };
            if node.is_null() || node.as_map().is_some_and(Map::is_empty) {
                continue;
            }
            if node.as_map().is_none() && sets_maps {
                result.push(id);
                continue;
            }
            if !has_values(node, keys, values)? {
                if !values.is_empty() {
                    result.push(id);
                }
                continue;
            }
            found = true;
            result.extend(item);
        }
        *list = result;
        if !found {
            list.extend(item);
        }
        Ok(())
    }

    /// Adds the object's items to those of the patch, in place of items that have the same keys.
    fn append_object(&mut self, list: &mut Vec<usize>, keys: &[String]) -> Result<()> {
        for id in std::mem::take(&mut self.object) {
            let Some(node) = self.node(id) else { continue };
            if keys.first().is_some_and(String::is_empty) {
                let text = node.text().to_owned();
                self.set(list, keys, &[text], Some(id))?;
                continue;
            }
            let mut values = Vec::new();
            for key in keys {
                match node.get(key) {
                    Some(value) => values.push(value.text().to_owned()),
                    None => list.push(id),
                }
            }
            if keys.len() > 1 {
                self.set(list, keys, &values, None)?;
            }
            self.set(list, keys, &values, Some(id))?;
        }
        Ok(())
    }
}

/// Whether an item has these values of its keys; keys without a value count as the key before them.
fn has_values(node: &Node, keys: &[String], values: &[String]) -> Result<bool> {
    let mut last = false;
    for (index, key) in keys.iter().enumerate() {
        if let Some(value) = values.get(index) {
            last = match (key.as_str(), &node.value) {
                ("", Value::Scalar(scalar)) => scalar.text == *value,
                (key, Value::Map(map)) if !key.is_empty() => map.get(key).is_some_and(|e| value.is_empty() || e.node.text() == value),
                _ => return Err(invalid(node.line, format!("an item of this list is {}", node.kind()))),
            };
        }
        if !last {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Leaves out the keys that no item has a value for, unless that would leave none.
fn valid(all: &[Vec<String>], values: &[String], keys: &[String]) -> (Vec<String>, Vec<String>) {
    let used: Vec<bool> =
        (0..keys.len()).map(|index| all.iter().any(|values| values.get(index).is_some_and(|value| !value.is_empty()))).collect();
    if !used.contains(&true) {
        return (keys.to_vec(), values.to_vec());
    }
    let kept = |texts: &[String]| texts.iter().zip(&used).filter(|(_, used)| **used).map(|(text, _)| text.clone()).collect();
    (kept(keys), kept(values))
}

/// Fills in missing values where two items agree in one and do not disagree in any other.
fn complete_values(all: &mut [Vec<String>]) {
    let completed = |a: &[String], b: &[String]| {
        let agrees = a.iter().zip(b).any(|(x, y)| x == y);
        let contradicts = a.iter().zip(b).any(|(x, y)| x != y && !x.is_empty() && !y.is_empty());
        let filled = a.iter().zip(b).map(|(x, y)| if x.is_empty() { y.clone() } else { x.clone() });
        (agrees && !contradicts).then(|| filled.collect::<Vec<_>>())
    };
    for i in 0..all.len() {
        // What item `i` was when its turn came is compared with all others, though it changes on the way.
        let Some(own) = all.get(i).cloned() else { continue };
        for j in 0..all.len() {
            let filled = all.get(j).and_then(|other| completed(&own, other));
            if let Some(filled) = filled {
                for index in [i, j] {
                    if let Some(slot) = all.get_mut(index) {
                        slot.clone_from(&filled);
                    }
                }
            }
        }
    }
}
