//! Caches the objects of one kind, in maps that snapshots share.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rpds::{RedBlackTreeMapSync, RedBlackTreeSetSync};

use super::{CachedCount, Change, Delta, Query, Read, ReadError, Unreadable};
use api::names::INDEXED_LABELS;
use object::{Key, Stored, version};

/// The version of an object whose server has no numeric versions, such as some aggregated API servers. Its events
/// still arrive in order.
const OPAQUE: u64 = 0;

/// The objects of one kind. The cost of a clone does not depend on the number of objects, and changing one object
/// copies only the path to it.
#[derive(Debug)]
pub(crate) struct Cached<K> {
    objects: RedBlackTreeMapSync<Key, Arc<K>>,
    by_label: RedBlackTreeMapSync<(&'static str, String), RedBlackTreeSetSync<Key>>,
    /// Objects whose newest state does not fit the type; `objects` keeps their last readable state.
    unreadable: RedBlackTreeMapSync<Key, Arc<Unreadable>>,
    /// The number of times that a key was added to or removed from `unreadable`.
    readability_changes: u64,
    /// The newest resource version that the watch has delivered. If a written object is older and absent, it has
    /// been deleted since. The maximum until a restored server has been listed.
    seen: u64,
    /// True if the first list is complete. Until then, absence means nothing.
    complete: bool,
    /// True if the objects come from an earlier process, so that absence means nothing either.
    persisted: bool,
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
            persisted: false,
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
            persisted: self.persisted,
        }
    }
}

/// A [`Cached`] of any kind, so that caches of all kinds can be cloned together.
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

    /// Stores an object that a watch delivered.
    pub(crate) fn see(&mut self, object: Arc<K>) -> Option<Change<K>> {
        self.seen = self.seen.max(object.version());
        self.put(object)
    }

    /// Records the version of an object that a watch delivered. Returns true if [`Cached::see`] would change
    /// nothing, because the cache has that version or a newer one.
    pub(crate) fn confirm(&mut self, key: &Key, version: u64) -> bool {
        let is_known = self.holds(key, version) && !self.is_unreadable(key);
        if is_known {
            self.seen = self.seen.max(version);
        }
        is_known
    }

    /// Removes an object whose deletion a watch delivered.
    pub(crate) fn lose(&mut self, key: &Key, resource_version: &str) -> Option<Change<K>> {
        let at = version(resource_version);
        self.seen = self.seen.max(at);
        let is_newer = self.objects.get(key).is_some_and(|cached| cached.version() > at);
        if is_newer { None } else { self.take(key) }
    }

    /// Stores an object returned by our own write, unless the watch has already delivered its deletion, or its
    /// version cannot be compared with versions from the watch.
    pub(crate) fn write(&mut self, object: Arc<K>) -> Option<Change<K>> {
        let was_deleted = object.version() <= self.seen && !self.objects.contains_key(&object.key());
        if was_deleted || object.version() == OPAQUE { None } else { self.put(object) }
    }

    /// Records that an object does not fit the type.
    pub(crate) fn refuse(&mut self, unreadable: Unreadable) {
        self.readability_changes += u64::from(!self.is_unreadable(&unreadable.key));
        self.unreadable.insert_mut(unreadable.key.clone(), Arc::new(unreadable));
    }

    /// Records that an object is readable or deleted.
    fn accept(&mut self, key: &Key) {
        self.readability_changes += u64::from(self.unreadable.remove_mut(key));
    }

    /// Returns how often an object became unreadable, became readable again, or was deleted while unreadable.
    pub(crate) fn readability_changes(&self) -> u64 {
        self.readability_changes
    }

    /// Returns true if this failure is not the recorded one.
    pub(crate) fn is_new_failure(&self, refused: &Unreadable) -> bool {
        self.unreadable.get(&refused.key).is_none_or(|known| known.reason != refused.reason)
    }

    /// Returns true if the newest state of an object does not fit the type.
    pub(crate) fn is_unreadable(&self, key: &Key) -> bool {
        self.unreadable.contains_key(key)
    }

    /// Replaces the objects with a complete list at resource version `at`, but keeps newer objects that our own
    /// writes returned.
    ///
    /// A version below `seen` means that the server was restored from a backup. Then no cached object is newer
    /// than the list.
    pub(crate) fn replace(
        &mut self,
        all: Vec<Arc<K>>,
        unreadable: Vec<Unreadable>,
        at: u64,
    ) -> Vec<Change<K>> {
        (self.complete, self.persisted) = (true, false);
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
            let gone = self
                .objects
                .iter()
                .filter(|(key, cached)| !listed.contains(*key) && cached.version() <= newest);
            let gone: Vec<Key> = gone.map(|(key, _)| key.clone()).collect();
            changes.extend(gone.iter().filter_map(|key| self.take(key)));
        }
        for object in all {
            let version = self.objects.get(&object.key()).map(|cached| cached.version());
            let is_same = |version| version == object.version() && version != OPAQUE && !counts_anew;
            if version.is_none_or(|version| version <= newest && !is_same(version)) {
                changes.push(self.set(object));
            }
        }
        let refused: BTreeSet<&Key> = unreadable.iter().map(|refused| &refused.key).collect();
        let accepted: Vec<Key> =
            self.unreadable.keys().filter(|key| !refused.contains(key)).cloned().collect();
        for key in accepted {
            self.accept(&key);
        }
        for refused in unreadable {
            self.refuse(refused);
        }
        changes
    }

    /// Stores the objects that an earlier process stored. The first list counts as newer than all of them.
    pub(crate) fn load_persisted(&mut self, all: Vec<Arc<K>>) -> Vec<Change<K>> {
        (self.complete, self.persisted, self.seen) = (true, true, u64::MAX);
        all.into_iter().map(|object| self.set(object)).collect()
    }

    /// Returns true if the API server has confirmed which objects exist.
    pub(crate) fn is_listed(&self) -> bool {
        self.complete && !self.persisted
    }

    /// Makes the kind unreadable, because the cached objects may be long out of date.
    pub(crate) fn expire(&mut self) {
        self.complete = false;
    }

    /// Makes the kind unreadable until the next list, because a restore set the server's versions back. Every
    /// cached object then counts as older than that list, whether it came from a watch or our own write.
    pub(crate) fn restored(&mut self) {
        self.complete = false;
        self.seen = u64::MAX;
    }

    /// Returns true if the cache has an object at this version or a newer one.
    fn holds(&self, key: &Key, version: u64) -> bool {
        version != OPAQUE && self.objects.get(key).is_some_and(|cached| cached.version() >= version)
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
    /// Returns an error if the newest state of the object does not fit the type.
    pub(crate) fn get(&self, key: &Key, kind: impl Fn() -> String) -> Read<Option<Arc<K>>> {
        match self.unreadable.get(key) {
            Some(refused) => Err(refused.error(kind())),
            None => Ok(self.objects.get(key).cloned()),
        }
    }

    /// Returns the matching objects, in key order.
    ///
    /// An object whose newest state does not fit the type is listed in its last readable state, as in a cache that
    /// lags behind.
    ///
    /// # Errors
    /// Returns an error if an object that could match has never been readable.
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

    /// Returns the objects that could match but whose newest state does not fit the type, in key order.
    pub(crate) fn refused(&self, query: Query<'_>) -> impl Iterator<Item = &Arc<Unreadable>> {
        self.unreadable.values().filter(move |refused| {
            let in_namespace = query.namespace.is_none_or(|namespace| refused.key.namespace == namespace);
            let has_label = query.label.is_none_or(|(label, value)| {
                refused
                    .labels
                    .as_ref()
                    .is_none_or(|labels| labels.get(label).is_some_and(|found| found == value))
            });
            in_namespace && has_label
        })
    }

    /// Returns the matching objects that have been readable, in key order.
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

    /// Returns true if the first list is complete.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    /// Returns true if no object of the kind has been read yet.
    pub(crate) fn is_new(&self) -> bool {
        !self.complete && self.objects.is_empty()
    }

    /// Returns the cache if its first list is complete.
    ///
    /// # Errors
    /// Returns an error until the first list is complete.
    pub(crate) fn complete(&self, kind: impl Fn() -> String) -> Read<&Self> {
        if self.complete { Ok(self) } else { Err(ReadError::not_listed(kind())) }
    }
}

/// The labels of an object that does not fit its type; `None` if the labels are unreadable too.
pub(crate) type Labels = Option<BTreeMap<String, String>>;
