//! The journal of a store, which a server writes to disk, and the restart from it.

use std::sync::Arc;

use jiff::Timestamp;

use object::{Key, Object};

use super::collection::weight_of;
use super::{GroupResource, Store};

/// One write, in the order of revisions.
#[derive(Clone, Debug, PartialEq)]
pub struct JournalEntry {
    /// Resource version of the write.
    pub revision: u64,
    /// Resource of the object.
    pub resource: GroupResource,
    /// Namespace and name of the object.
    pub key: Key,
    /// The object as stored; `None` for a deletion.
    pub object: Option<Arc<Object>>,
}

impl JournalEntry {
    /// Returns the approximate bytes of the object in memory.
    pub fn weight(&self) -> usize {
        self.object.as_deref().map_or(0, weight_of)
    }
}

impl Store {
    /// Begins to keep a journal, which the caller has to take from time to time.
    pub fn keep_journal(&mut self) {
        self.journal.get_or_insert_default();
    }

    /// Returns the writes since the journal was last taken; empty where none is kept.
    pub fn take_journal(&mut self) -> Vec<JournalEntry> {
        self.journal.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Returns every object as an entry, for a snapshot; definitions of kinds come first.
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

    /// Returns the store that these entries describe: a snapshot, then the journal since.
    ///
    /// `seed` must differ from the one before, so that no uid is used twice; versions up to `reserved` are
    /// not used again. The history before the restart is dropped, so its watchers get 410. Entries of kinds
    /// whose definition is not among them are dropped.
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

    /// Makes later writes get versions above this one.
    pub(crate) fn skip_to(&mut self, revision: u64) {
        self.revision = self.revision.max(revision);
    }

    /// Drops the writes that `durable` does not have. Their versions and uids are not used again.
    pub fn fall_back(&mut self, durable: &Self) {
        let revision = self.revision;
        self.go_back(durable);
        self.skip_to(revision);
    }

    /// Returns to an earlier state, as when etcd is restored from a backup: later versions are used again,
    /// and uids are not.
    pub fn go_back(&mut self, backup: &Self) {
        let ids = self.ids.clone();
        *self = backup.branch();
        self.ids = ids;
    }

    /// Returns a copy that takes writes and keeps a journal of them, while this one [follows](Store::follow)
    /// as they become durable.
    pub fn branch(&self) -> Self {
        let mut branch = self.clone();
        branch.journal = Some(Vec::new());
        let objects = self.collections.iter().flat_map(|(id, collection)| {
            collection.objects.iter().map(move |(key, object)| ((id.clone(), key.clone()), object))
        });
        branch.owner_graph.enqueue_waiting(objects);
        branch
    }

    /// Repeats a write that the branch of this store has done already.
    pub fn follow(&mut self, entry: JournalEntry) {
        let JournalEntry { revision, resource, key, object } = entry;
        self.revision = revision;
        self.record(&(resource, key), object);
        // The branch of this store collects the garbage of this write.
        self.owner_graph.clear();
    }
}

/// A store that is read back entry by entry, so that only its last state is in memory.
#[derive(Debug)]
pub struct Restoration {
    store: Store,
    seed: u64,
    is_empty: bool,
}

impl Restoration {
    /// Begins with nothing; [`Store::restore`] explains the seed.
    pub fn new(seed: u64) -> Self {
        Self { store: Store::bare(seed), seed, is_empty: true }
    }

    /// Adds the next entry.
    pub fn replay(&mut self, entry: JournalEntry) {
        self.is_empty = false;
        self.store.revision = self.store.revision.max(entry.revision);
        self.store.replay(entry);
    }

    /// Returns the store of these entries, or a new one if there were none.
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
