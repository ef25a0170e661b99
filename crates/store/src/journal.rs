//! The journal of a store, which a server writes to disk and restarts from.

use std::sync::Arc;

use jiff::Timestamp;

use object::{Key, Object};

use super::collection::weight_of;
use super::{GroupResource, Store};

/// One write. Entries are in the order of revisions.
#[derive(Clone, Debug, PartialEq)]
pub struct JournalEntry {
    /// The resource version of the write.
    pub revision: u64,
    /// The resource of the object.
    pub resource: GroupResource,
    /// The namespace and name of the object.
    pub key: Key,
    /// The object as stored; `None` for a deletion.
    pub object: Option<Arc<Object>>,
}

impl JournalEntry {
    /// Returns the approximate memory of the object, in bytes.
    pub fn weight(&self) -> usize {
        self.object.as_deref().map_or(0, weight_of)
    }
}

impl Store {
    /// Starts keeping a journal, which the caller must take regularly.
    pub fn keep_journal(&mut self) {
        self.journal.get_or_insert_default();
    }

    /// Returns the writes since the journal was last taken; empty if no journal is kept.
    pub fn take_journal(&mut self) -> Vec<JournalEntry> {
        self.journal.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Returns every object as an entry, for a snapshot. CustomResourceDefinitions come first.
    pub fn snapshot(&self) -> impl Iterator<Item = JournalEntry> {
        let definitions_first = |id: &GroupResource| id.resource != "customresourcedefinitions";
        let mut collections: Vec<_> = self.collections.iter().collect();
        collections.sort_by_key(|(id, _)| definitions_first(id));
        collections.into_iter().flat_map(|(id, collection)| {
            collection.objects.iter().map(|(key, object)| {
                let revision = object.resource_version().parse().unwrap_or_default();
                let (resource, key) = (id.clone(), key.clone());
                JournalEntry { revision, resource, key, object: Some(object.clone()) }
            })
        })
    }

    /// Restores a store from a snapshot, followed by the journal since then.
    ///
    /// `seed` must differ from the previous one, so that no uid is used twice. Versions up to `reserved` are not
    /// reused. The history before the restart is dropped, so its watchers get 410. Entries of kinds without a
    /// definition are dropped.
    pub fn restore(
        seed: u64,
        entries: impl IntoIterator<Item = JournalEntry>,
        reserved: u64,
        now: Timestamp,
    ) -> Self {
        let mut restoration = Restoration::new(seed);
        entries.into_iter().for_each(|entry| restoration.replay(entry));
        restoration.finish(reserved, now)
    }

    fn replay(&mut self, entry: JournalEntry) {
        let Some(collection) = self.collections.get_mut(&entry.resource) else { return };
        let place = (entry.resource, entry.key);
        let old = match &entry.object {
            Some(object) => collection.objects.insert(place.1.clone(), object.clone()),
            None => collection.objects.remove(&place.1),
        };
        self.admission.note(&place.0, &place.1.name, entry.object.as_deref());
        self.owner_graph.note(&place, old.as_deref(), entry.object.as_deref());
        self.usage.note(&place, old.as_deref(), entry.object.as_deref());
        if place.0 == GroupResource::definitions() {
            self.follow_definition(old.as_deref(), &place.1);
        }
    }

    /// Makes later writes use versions above this one.
    pub(crate) fn skip_to(&mut self, revision: u64) {
        self.revision = self.revision.max(revision);
    }

    /// Drops the writes that `durable` does not have. Their versions and uids are not reused.
    pub fn fall_back(&mut self, durable: &Self) {
        let revision = self.revision;
        self.go_back(durable);
        self.skip_to(revision);
    }

    /// Returns to an earlier state, as when etcd is restored from a backup. Later versions are reused, but uids
    /// are not.
    pub fn go_back(&mut self, backup: &Self) {
        let ids = self.ids.clone();
        *self = backup.branch();
        self.ids = ids;
    }

    /// Returns a copy that accepts writes and keeps a journal of them, while this store [follows](Store::follow)
    /// them as they become durable.
    pub fn branch(&self) -> Self {
        let mut branch = self.clone();
        branch.journal = Some(Vec::new());
        let objects = self.collections.iter().flat_map(|(id, collection)| {
            collection.objects.iter().map(move |(key, object)| ((id.clone(), key.clone()), object))
        });
        branch.owner_graph.enqueue_waiting(objects);
        branch
    }

    /// Repeats a write that the branch of this store has already made.
    pub fn follow(&mut self, entry: JournalEntry) {
        let JournalEntry { revision, resource, key, object } = entry;
        self.revision = revision;
        self.record(&(resource, key), object);
        // The branch of this store collects the garbage of this write.
        self.owner_graph.clear();
    }
}

/// A store that is restored entry by entry, so that only its last state is in memory.
#[derive(Debug)]
pub struct Restoration {
    store: Store,
    seed: u64,
    is_empty: bool,
}

impl Restoration {
    /// Starts without entries; see [`Store::restore`] for the seed.
    pub fn new(seed: u64) -> Self {
        Self { store: Store::bare(seed), seed, is_empty: true }
    }

    /// Applies the next entry.
    pub fn replay(&mut self, entry: JournalEntry) {
        self.is_empty = false;
        self.store.revision = self.store.revision.max(entry.revision);
        self.store.replay(entry);
    }

    /// Returns the restored store, or a new one if there were no entries.
    pub fn finish(self, reserved: u64, now: Timestamp) -> Store {
        let Self { mut store, seed, is_empty } = self;
        if is_empty {
            store = Store::new(seed, now);
        }
        store.skip_to(reserved);
        store.compact(store.revision);
        store
    }
}
