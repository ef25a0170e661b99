//! Merges lists by the keys that identify their items.

use super::strategic::{Merge, PATCH, Result, invalid};
use object::builtin_lists::{ListType, Position};
use yaml::{Map, Node, Scalar, Style, Tag, Value};

/// Returns the keys that identify items: the keys for server-side apply if there are any, else the key of the
/// patch strategy.
pub(super) fn keys_of(at: Position<'_>) -> Vec<String> {
    match at.list_type() {
        ListType::Map(keys) if !keys.is_empty() => keys.iter().map(|key| key.name.to_owned()).collect(),
        ListType::Map(_) | ListType::Set | ListType::Atomic => {
            at.patch_strategy().merge_key.map(String::from).into_iter().collect()
        }
    }
}

/// Merges two lists by keys.
///
/// This follows kustomize step by step, even for items that lack a key. The order of matches determines the order
/// of the result, and existing overlays rely on it.
pub(super) struct ItemMerge<'m, 's> {
    merge: &'m Merge<'s>,
    at: Position<'m>,
    keys: Vec<String>,
    /// All items of both lists. The lists below contain indices.
    nodes: Vec<Node>,
    object: Vec<usize>,
    patch: Vec<usize>,
}

impl<'m, 's> ItemMerge<'m, 's> {
    pub(super) fn new(merge: &'m Merge<'s>, object: Vec<Node>, patch: Vec<Node>, at: Position<'m>) -> Self {
        let keys = keys_of(at);
        let keys = if keys.is_empty() { vec![String::new()] } else { keys };
        let split = object.len();
        let nodes: Vec<Node> = object.into_iter().chain(patch).collect();
        Self { merge, at, keys, object: (0..split).collect(), patch: (split..nodes.len()).collect(), nodes }
    }

    pub(super) fn run(mut self) -> Result<Vec<Node>> {
        let all = self.all_values();
        let mut added: Vec<usize> = Vec::new();
        let mut valid_keys = self.keys.clone();
        for values in &all {
            let (keys, values) = valid(&all, values, &self.keys);
            valid_keys.clone_from(&keys);
            let (inner_keys, inner_values) = valid(std::slice::from_ref(&values), &values, &keys);
            let (object, patch) = (
                self.find(&self.object, &inner_keys, &inner_values),
                self.find(&self.patch, &inner_keys, &inner_values),
            );
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

    /// Returns the distinct key values of all items. The patch comes first.
    fn all_values(&self) -> Vec<Vec<String>> {
        let mut all: Vec<Vec<String>> = Vec::new();
        for node in self.patch.iter().chain(&self.object).filter_map(|id| self.node(*id)) {
            let value = |key: &String| match key.as_str() {
                "" => node.text().to_owned(),
                key => node
                    .get(key)
                    .filter(|value| !value.is_empty())
                    .map(Node::text)
                    .unwrap_or_default()
                    .to_owned(),
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

    /// Returns the first item with exactly these values.
    fn find(&self, list: &[usize], keys: &[String], values: &[String]) -> Option<usize> {
        let fits = |node: &Node| {
            keys.iter().zip(values).all(|(key, value)| match key.as_str() {
                "" => node.as_scalar().is_some_and(|scalar| scalar.text == *value),
                key => node.get(key).is_some_and(|field| field.text() == value),
            })
        };
        list.iter().copied().find(|id| self.node(*id).is_some_and(fits))
    }

    /// Merges two items. Changes the object's item in place, so that later lookups find it.
    fn merge_item(&mut self, object: Option<usize>, patch: Option<usize>) -> Result<Option<usize>> {
        let at = self.at.items();
        let change = patch.and_then(|id| self.node(id).cloned());
        let replaces =
            change.as_ref().and_then(|change| change.get(PATCH)).is_some_and(|word| word.text() == "replace");
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

    /// Sets the keys that an item lacks.
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

    /// Replaces the items with these values, or removes them if `item` is None. Appends the item if none has them.
    ///
    /// Without values, all items match. An empty value matches any value.
    fn set(
        &self,
        list: &mut Vec<usize>,
        keys: &[String],
        values: &[String],
        item: Option<usize>,
    ) -> Result<()> {
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

    /// Adds the object's items to the patch's items, and replaces items with the same keys.
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

/// Returns true if an item has these values for its keys. A key without a value counts like the key before it.
fn has_values(node: &Node, keys: &[String], values: &[String]) -> Result<bool> {
    let mut last = false;
    for (index, key) in keys.iter().enumerate() {
        if let Some(value) = values.get(index) {
            last = match (key.as_str(), &node.value) {
                ("", Value::Scalar(scalar)) => scalar.text == *value,
                (key, Value::Map(map)) if !key.is_empty() => {
                    map.get(key).is_some_and(|e| value.is_empty() || e.node.text() == value)
                }
                _ => return Err(invalid(node.line, format!("an item of this list is {}", node.kind()))),
            };
        }
        if !last {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the keys for which some item has a value, or all keys if there is none.
fn valid(all: &[Vec<String>], values: &[String], keys: &[String]) -> (Vec<String>, Vec<String>) {
    let used: Vec<bool> = (0..keys.len())
        .map(|index| all.iter().any(|values| values.get(index).is_some_and(|value| !value.is_empty())))
        .collect();
    if !used.contains(&true) {
        return (keys.to_vec(), values.to_vec());
    }
    let select = |texts: &[String]| {
        texts.iter().zip(&used).filter(|(_, used)| **used).map(|(text, _)| text.clone()).collect()
    };
    (select(keys), select(values))
}

/// Fills in missing values if two items agree on one value and disagree on none.
fn complete_values(all: &mut [Vec<String>]) {
    let completed = |a: &[String], b: &[String]| {
        let agrees = a.iter().zip(b).any(|(x, y)| x == y);
        let contradicts = a.iter().zip(b).any(|(x, y)| x != y && !x.is_empty() && !y.is_empty());
        let filled = a.iter().zip(b).map(|(x, y)| if x.is_empty() { y.clone() } else { x.clone() });
        (agrees && !contradicts).then(|| filled.collect::<Vec<_>>())
    };
    for i in 0..all.len() {
        // Item `i` is compared with the values that it had at the start of its turn.
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
