//! The objects of one resource and their recent changes.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use serde_json::Value;

use object::{Key, Object};

use super::{ApiResource, GroupResource};

/// The resource and key of an object.
pub(super) type ObjectId = (GroupResource, Key);

/// The number of changes to keep for each resource. As with a real API server, a watcher that is further behind
/// has to list again.
pub(super) const LOG_LIMIT: usize = 16_384;
/// The approximate size of the objects in these changes: 42 objects of the maximum size.
const LOG_BYTES: usize = 64 << 20;

/// A resource with its objects, in their storage version, and its recent history.
#[derive(Clone, Debug)]
pub(super) struct Collection {
    pub(super) resource: Arc<ApiResource>,
    pub(super) objects: BTreeMap<Key, Arc<Object>>,
    pub(super) log: VecDeque<WatchCacheEvent>,
    /// The total [`WatchCacheEvent::weight`] of the log.
    pub(super) log_bytes: usize,
    /// Changes at or before this revision have been dropped.
    pub(super) compacted: u64,
}

/// An object before and after one write.
#[derive(Clone, Debug)]
pub(super) struct WatchCacheEvent {
    pub(super) revision: u64,
    pub(super) key: Key,
    pub(super) old: Option<Arc<Object>>,
    /// The object after the write; `None` for a deletion, whose revision is then in `old`.
    pub(super) new: Option<Arc<Object>>,
}

impl WatchCacheEvent {
    /// Returns the approximate memory of this change, in bytes. The old object counts for the change that created
    /// it.
    fn weight(&self) -> usize {
        self.new.as_ref().or(self.old.as_ref()).map_or(0, |object| weight_of(object))
    }
}

/// Returns the approximate memory of an object, in bytes.
pub(super) fn weight_of(object: &Object) -> usize {
    size_of::<Value>() + below(&object.0)
}

/// Returns the approximate memory of a value, in bytes, which is many times the size of its text.
fn weight(value: &Value) -> usize {
    // A growing list takes up to twice the space of its items.
    let content = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len() + ALLOCATION,
        Value::Array(items) => items.iter().map(weight).sum::<usize>() + items.len() * size_of::<Value>(),
        Value::Object(fields) => below(fields),
    };
    size_of::<Value>() + content
}

fn below(fields: &serde_json::Map<String, Value>) -> usize {
    let content =
        |(name, value): (&String, &Value)| name.len() + ALLOCATION + weight(value) - size_of::<Value>();
    fields.len().div_ceil(HALF_NODE) * NODE + fields.iter().map(content).sum::<usize>()
}

/// The allocator's overhead for a small text, in bytes.
const ALLOCATION: usize = 16;
/// The size of a `BTreeMap` node with eleven strings and values, in bytes, and the minimum number of entries in a
/// node.
const NODE: usize = 11 * (size_of::<String>() + size_of::<Value>()) + 16;
const HALF_NODE: usize = 6;

impl Collection {
    pub(super) fn new(resource: Arc<ApiResource>, revision: u64) -> Self {
        Self { resource, objects: BTreeMap::new(), log: VecDeque::new(), log_bytes: 0, compacted: revision }
    }

    /// Returns the objects in a namespace, or all objects if it is empty.
    pub(super) fn within<'a>(
        &'a self,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<Object>)> + use<'a> {
        self.within_after(namespace, None)
    }

    /// Returns the objects in a namespace after a key.
    pub(super) fn within_after<'a>(
        &'a self,
        namespace: &'a str,
        last: Option<&Key>,
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<Object>)> + use<'a> {
        let from = || Bound::Included(Key::namespaced(namespace, ""));
        self.objects
            .range((last.cloned().map_or_else(from, Bound::Excluded), Bound::Unbounded))
            .take_while(move |(key, _)| namespace.is_empty() || key.namespace == namespace)
    }

    /// Returns the changes after a revision, oldest first; `None` if some of them have been dropped.
    pub(super) fn since(&self, revision: u64) -> Option<impl Iterator<Item = &WatchCacheEvent>> {
        (revision >= self.compacted).then(|| {
            let from = self.log.partition_point(|change| change.revision <= revision);
            self.log.range(from..)
        })
    }

    /// Returns the objects at a revision; `None` if that history has been dropped.
    pub(super) fn at(&self, revision: u64) -> Option<BTreeMap<&Key, &Arc<Object>>> {
        let mut objects: BTreeMap<_, _> = self.objects.iter().collect();
        let undone: Vec<_> = self.since(revision)?.collect();
        for change in undone.into_iter().rev() {
            match &change.old {
                Some(old) => objects.insert(&change.key, old),
                None => objects.remove(&change.key),
            };
        }
        Some(objects)
    }

    pub(super) fn record(&mut self, change: WatchCacheEvent) {
        match &change.new {
            Some(new) => self.objects.insert(change.key.clone(), new.clone()),
            None => self.objects.remove(&change.key),
        };
        self.log_bytes += change.weight();
        self.log.push_back(change);
        while self.log.len() > LOG_LIMIT || self.log_bytes > LOG_BYTES {
            self.forget_oldest();
        }
    }

    /// Drops all changes at or before a revision.
    pub(super) fn compact(&mut self, revision: u64) {
        while self.log.front().is_some_and(|change| change.revision <= revision) {
            self.forget_oldest();
        }
        self.compacted = self.compacted.max(revision);
    }

    pub(super) fn forget_oldest(&mut self) {
        if let Some(change) = self.log.pop_front() {
            self.log_bytes -= change.weight();
            self.compacted = self.compacted.max(change.revision);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin;

    #[test]
    fn the_log_holds_a_bounded_number_of_bytes() {
        let mut collection = Collection::new(builtin::resources().into_values().next().unwrap(), 0);
        let text = "x".repeat(1 << 20);
        let object =
            |n: u64| Some(Arc::new(Object::from_value(serde_json::json!({ "v": text, "n": n })).unwrap()));
        for revision in 1..=100 {
            let (key, new) = (Key::cluster("a"), object(revision));
            collection.record(WatchCacheEvent { revision, key, old: None, new });
        }
        assert!((60..64).contains(&collection.log.len()), "{} changes are kept", collection.log.len());
        assert!(collection.since(1).is_none() && collection.since(99).is_some());
    }

    #[test]
    fn the_past_is_what_the_log_undoes() {
        let mut collection = Collection::new(builtin::resources().into_values().next().unwrap(), 0);
        let object = |v: i64| Some(Arc::new(Object::from_value(serde_json::json!({ "v": v })).unwrap()));
        let change = |revision, name: &str, old, new| {
            let key = Key::cluster(name);
            WatchCacheEvent { revision, key, old, new }
        };
        collection.record(change(1, "a", None, object(1)));
        collection.record(change(2, "b", None, object(2)));
        collection.record(change(3, "a", object(1), object(3)));
        collection.record(change(4, "b", object(2), None));
        let names =
            |revision| collection.at(revision).unwrap().keys().map(|k| k.name.clone()).collect::<String>();
        assert_eq!([0, 1, 2, 3, 4].map(names), ["", "a", "ab", "ab", "a"]);
        assert_eq!(collection.at(2).unwrap()[&Key::cluster("a")].0["v"], 1);
        collection.compact(2);
        assert!(collection.at(1).is_none() && collection.since(2).unwrap().count() == 2);
    }
}
