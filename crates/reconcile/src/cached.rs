//! The objects of one kind, in maps that a snapshot shares.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rpds::{RedBlackTreeMapSync, RedBlackTreeSetSync};

use super::{CachedCount, Change, Delta, Query, Read, ReadError, Unreadable};
use api::names::INDEXED_LABELS;
use object::{Key, Stored, version};

/// The version of an object whose server has no numeric versions, as some aggregated API servers. Its events
/// still arrive in order.
const OPAQUE: u64 = 0;

/// The objects of one kind. The cost of a clone does not depend on the number of objects, and a change of one
/// object copies only the path to it.
#[derive(Debug)]
pub(crate) struct Cached<K> {
    objects: RedBlackTreeMapSync<Key, Arc<K>>,
    by_label: RedBlackTreeMapSync<(&'static str, String), RedBlackTreeSetSync<Key>>,
    /// Objects whose newest state does not fit the type; what was read of them before stays in `objects`.
    unreadable: RedBlackTreeMapSync<Key, Arc<Unreadable>>,
    /// How often the keys of `unreadable` changed.
    readability_changes: u64,
    /// The newest resource version that the watch has delivered; a written object that is older and absent
    /// was deleted since. It is beyond all versions while a restored server has not been listed.
    seen: u64,
    /// The first list has been read to its end; until then absence means nothing.
    complete: bool,
    /// The objects are those that an earlier process kept, so absence means nothing either.
    kept: bool,
}

impl<K> Default for Cached<K> {
    fn default() -> Self {
        Self {
            objects: RedBlackTreeMapSync::new_sync(),
            by_label: RedBlackTreeMapSync::new_sync(),
            unreadable: RedBlackTreeMapSync::new_sync(),
            readability_changes: 0,
            seen: 0,
            complete: false,
            kept: false,
        }
    }
}

impl<K> Clone for Cached<K> {
    fn clone(&self) -> Self {
        Self {
            objects: self.objects.clone(),
            by_label: self.by_label.clone(),
            unreadable: self.unreadable.clone(),
            readability_changes: self.readability_changes,
            seen: self.seen,
            complete: self.complete,
            kept: self.kept,
        }
    }
}

/// A [`Cached`] of any kind, so that the caches of all kinds are cloned together.
pub(crate) trait AnyCached: Send + Sync {
    fn as_any(&self) -> &dyn Any;
    fn as_any_mut(&mut self) -> &mut dyn Any;
    fn shared(&self) -> Arc<dyn AnyCached>;
}

impl<K: Stored> AnyCached for Cached<K> {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn shared(&self) -> Arc<dyn AnyCached> {
        Arc::new(self.clone())
    }
}

impl<K: Stored> Cached<K> {
    pub(crate) fn apply(&mut self, delta: Delta<K>) -> Option<Change<K>> {
        match delta {
            Delta::Seen(object) => self.see(Arc::new(object)),
            Delta::Gone(key, resource_version) => self.lose(&key, &resource_version),
            Delta::Written(object) => self.write(Arc::new(object)),
            Delta::Unreadable(unreadable) => {
                self.refuse(unreadable);
                None
            }
        }
    }

    /// Takes an object that a watch delivered.
    pub(crate) fn see(&mut self, object: Arc<K>) -> Option<Change<K>> {
        self.seen = self.seen.max(object.version());
        self.put(object)
    }

    /// Takes the version of an object that a watch delivered; returns whether [`Cached::see`] would change
    /// nothing, because the object is cached in that version or a newer one.
    pub(crate) fn confirm(&mut self, key: &Key, version: u64) -> bool {
        let is_known = self.holds(key, version) && !self.is_unreadable(key);
        if is_known {
            self.seen = self.seen.max(version);
        }
        is_known
    }

    /// Takes the deletion of an object that a watch delivered.
    pub(crate) fn lose(&mut self, key: &Key, resource_version: &str) -> Option<Change<K>> {
        let at = version(resource_version);
        self.seen = self.seen.max(at);
        let is_newer = self.objects.get(key).is_some_and(|held| held.version() > at);
        if is_newer { None } else { self.take(key) }
    }

    /// Takes an object that an own write returned, unless the watch has already delivered its deletion, or
    /// its version cannot be compared with those of the watch.
    pub(crate) fn write(&mut self, object: Arc<K>) -> Option<Change<K>> {
        let was_deleted = object.version() <= self.seen && !self.objects.contains_key(&object.key());
        if was_deleted || object.version() == OPAQUE { None } else { self.put(object) }
    }

    /// Records that an object does not fit the type.
    pub(crate) fn refuse(&mut self, unreadable: Unreadable) {
        self.readability_changes += u64::from(!self.is_unreadable(&unreadable.key));
        self.unreadable.insert_mut(unreadable.key.clone(), Arc::new(unreadable));
    }

    /// Records that an object is readable or gone.
    fn accept(&mut self, key: &Key) {
        self.readability_changes += u64::from(self.unreadable.remove_mut(key));
    }

    /// Returns how often an object became unreadable, readable again, or was deleted while unreadable.
    pub(crate) fn readability_changes(&self) -> u64 {
        self.readability_changes
    }

    /// Returns whether the failure differs from the one that is recorded, or none is recorded.
    pub(crate) fn is_new_failure(&self, refused: &Unreadable) -> bool {
        self.unreadable.get(&refused.key).is_none_or(|known| known.why != refused.why)
    }

    /// Returns whether the newest state of an object does not fit the type.
    pub(crate) fn is_unreadable(&self, key: &Key) -> bool {
        self.unreadable.contains_key(key)
    }

    /// Replaces the objects by a complete list of resource version `at`, except where an own write is newer.
    ///
    /// A version below one that was seen means that the server was restored, and its versions went back. Then
    /// no cached object is newer than the list.
    pub(crate) fn replace(
        &mut self,
        all: Vec<Arc<K>>,
        unreadable: Vec<Unreadable>,
        at: u64,
    ) -> Vec<Change<K>> {
        (self.complete, self.kept) = (true, false);
        let counts_anew = at < self.seen;
        let newest = if counts_anew { u64::MAX } else { at };
        self.seen = at;
        let mut changes = Vec::new();
        if !self.objects.is_empty() {
            let listed: BTreeSet<Key> = all
                .iter()
                .map(|object| object.key())
                .chain(unreadable.iter().map(|refused| refused.key.clone()))
                .collect();
            let gone =
                self.objects.iter().filter(|(key, held)| !listed.contains(*key) && held.version() <= newest);
            let gone: Vec<Key> = gone.map(|(key, _)| key.clone()).collect();
            changes.extend(gone.iter().filter_map(|key| self.take(key)));
        }
        for object in all {
            let held = self.objects.get(&object.key()).map(|held| held.version());
            let is_same = |held| held == object.version() && held != OPAQUE && !counts_anew;
            if held.is_none_or(|held| held <= newest && !is_same(held)) {
                changes.push(self.set(object));
            }
        }
        let refused: BTreeSet<&Key> = unreadable.iter().map(|refused| &refused.key).collect();
        let accepted = self.unreadable.keys().filter(|key| !refused.contains(key));
        let accepted: Vec<Key> = accepted.cloned().collect();
        for key in accepted {
            self.accept(&key);
        }
        for refused in unreadable {
            self.refuse(refused);
        }
        changes
    }

    /// Takes the objects that an earlier process kept. The first list counts as newer than all of them.
    pub(crate) fn keep(&mut self, all: Vec<Arc<K>>) -> Vec<Change<K>> {
        (self.complete, self.kept, self.seen) = (true, true, u64::MAX);
        all.into_iter().map(|object| self.set(object)).collect()
    }

    /// Returns whether the objects, or their absence, are known from the API server.
    pub(crate) fn is_listed(&self) -> bool {
        self.complete && !self.kept
    }

    /// Marks the kind as unreadable from now on: the cached objects may be long out of date.
    pub(crate) fn expire(&mut self) {
        self.complete = false;
    }

    /// Marks the kind as unreadable until it is listed, because the versions of its server went back after a
    /// restore. Every cached object then counts as older than that list, whether it came from a watch or an
    /// own write.
    pub(crate) fn restored(&mut self) {
        self.complete = false;
        self.seen = u64::MAX;
    }

    /// Returns whether an object is cached in a version or a newer one.
    fn holds(&self, key: &Key, version: u64) -> bool {
        version != OPAQUE && self.objects.get(key).is_some_and(|held| held.version() >= version)
    }

    /// Stores an object unless the cached one is newer.
    fn put(&mut self, new: Arc<K>) -> Option<Change<K>> {
        let key = new.key();
        if self.holds(&key, new.version()) {
            self.accept(&key);
            return None;
        }
        Some(self.set(new))
    }

    fn set(&mut self, new: Arc<K>) -> Change<K> {
        let key = new.key();
        self.accept(&key);
        let old = self.objects.get(&key).cloned();
        self.index(&key, old.as_deref(), Some(&new));
        self.objects.insert_mut(key, Arc::clone(&new));
        Change { old, new: Some(new) }
    }

    fn take(&mut self, key: &Key) -> Option<Change<K>> {
        self.accept(key);
        let old = self.objects.get(key).cloned()?;
        self.objects.remove_mut(key);
        self.index(key, Some(&old), None);
        Some(Change { old: Some(old), new: None })
    }

    fn index(&mut self, key: &Key, old: Option<&K>, new: Option<&K>) {
        for label in INDEXED_LABELS {
            let value = |object: Option<&K>| object.and_then(|object| object.label(label)).map(str::to_owned);
            let (before, after) = (value(old), value(new));
            if before == after {
                continue;
            }
            if let Some(value) = before {
                let entry = (*label, value);
                let mut keys =
                    self.by_label.get(&entry).cloned().unwrap_or_else(RedBlackTreeSetSync::new_sync);
                keys.remove_mut(key);
                if keys.is_empty() {
                    self.by_label.remove_mut(&entry);
                } else {
                    self.by_label.insert_mut(entry, keys);
                }
            }
            if let Some(value) = after {
                let entry = (*label, value);
                match self.by_label.get_mut(&entry) {
                    Some(keys) => keys.insert_mut(key.clone()),
                    None => {
                        let mut keys = RedBlackTreeSetSync::new_sync();
                        keys.insert_mut(key.clone());
                        self.by_label.insert_mut(entry, keys);
                    }
                }
            }
        }
    }

    /// Returns the object at a key.
    ///
    /// # Errors
    /// The newest state of the object does not fit the type.
    pub(crate) fn get(&self, key: &Key, kind: impl Fn() -> String) -> Read<Option<Arc<K>>> {
        match self.unreadable.get(key) {
            Some(refused) => Err(refused.error(kind())),
            None => Ok(self.objects.get(key).cloned()),
        }
    }

    /// Returns the objects that match, in key order.
    ///
    /// An object whose newest state does not fit the type is listed as it was read last, as from a cache that
    /// is behind.
    ///
    /// # Errors
    /// An object that could match has never been read.
    pub(crate) fn list(&self, query: Query<'_>, kind: impl Fn() -> String) -> Read<Vec<Arc<K>>> {
        match self.refused(query).find(|refused| !self.objects.contains_key(&refused.key)) {
            Some(refused) => Err(refused.error(kind())),
            None => Ok(self.matching(query)),
        }
    }

    /// Counts the objects.
    pub(crate) fn count(&self) -> CachedCount {
        CachedCount { objects: self.objects.size(), unreadable: self.unreadable.size() }
    }

    /// Returns the objects that could match and whose newest state does not fit the type, in key order.
    pub(crate) fn refused(&self, query: Query<'_>) -> impl Iterator<Item = &Arc<Unreadable>> {
        self.unreadable.values().filter(move |refused| {
            let in_namespace = query.namespace.is_none_or(|namespace| refused.key.namespace == namespace);
            let has_label = query.label.is_none_or(|(label, value)| {
                refused
                    .labels
                    .as_ref()
                    .is_none_or(|labels| labels.get(label).is_some_and(|held| held == value))
            });
            in_namespace && has_label
        })
    }

    /// Returns the objects that match and have been read, in key order.
    pub(crate) fn matching(&self, query: Query<'_>) -> Vec<Arc<K>> {
        let Some((label, value)) = query.label else {
            return match query.namespace {
                None => self.objects.values().cloned().collect(),
                Some(namespace) => {
                    let from = self.objects.range(Key::namespaced(namespace, "")..);
                    let within = from.take_while(|(key, _)| key.namespace == namespace);
                    within.map(|(_, object)| object.clone()).collect()
                }
            };
        };
        if let Some(label) = INDEXED_LABELS.iter().find(|indexed| **indexed == label) {
            let Some(keys) = self.by_label.get(&(*label, value.to_owned())) else { return Vec::new() };
            let from = keys.range(Key::namespaced(query.namespace.unwrap_or_default(), "")..);
            let within =
                from.take_while(|key| query.namespace.is_none_or(|namespace| key.namespace == namespace));
            return within.filter_map(|key| self.objects.get(key).cloned()).collect();
        }
        let mut objects = self.matching(Query { label: None, ..query });
        objects.retain(|object| object.label(label) == Some(value));
        objects
    }

    /// Returns whether its first list has been read.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    /// Returns whether nothing has been read of the kind yet.
    pub(crate) fn is_new(&self) -> bool {
        !self.complete && self.objects.is_empty()
    }

    /// Returns the cache, once its first list has been read.
    ///
    /// # Errors
    /// The first list has not been read.
    pub(crate) fn complete(&self, kind: impl Fn() -> String) -> Read<&Self> {
        if self.complete { Ok(self) } else { Err(ReadError::not_listed(kind())) }
    }
}

/// The labels of an object whose type cannot be read, by name; `None` where not even they can be.
pub(crate) type Labels = Option<BTreeMap<String, String>>;
