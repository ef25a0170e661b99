//! What a durable front has to write down, and how it comes back.

use std::sync::Arc;

use jiff::Timestamp;

use object::{Key, Object};

use super::{GroupResource, Store};

/// One write, in the order of revisions.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Resource version of the write.
    pub revision: u64,
    /// Resource of the object.
    pub resource: GroupResource,
    /// Where it is.
    pub key: Key,
    /// The object as stored; `None` for a deletion.
    pub object: Option<Arc<Object>>,
}

impl Store {
    /// Begins to keep a journal, which somebody has to take from time to time.
    pub fn keep_journal(&mut self) {
        self.journal.get_or_insert_default();
    }

    /// The writes since the journal was last taken; empty where none is kept.
    pub fn take_journal(&mut self) -> Vec<Entry> {
        self.journal.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Every object as an entry, for a snapshot; definitions of kinds come before all else.
    pub fn snapshot(&self) -> impl Iterator<Item = Entry> {
        let definitions_first = |id: &GroupResource| id.resource != "customresourcedefinitions";
        let mut collections: Vec<_> = self.collections.iter().collect();
        collections.sort_by_key(|(id, _)| definitions_first(id));
        collections.into_iter().flat_map(|(id, collection)| {
            collection.objects.iter().map(|(key, object)| {
                let revision = object.resource_version().parse().unwrap_or_default();
                Entry { revision, resource: id.clone(), key: key.clone(), object: Some(object.clone()) }
            })
        })
    }

    /// The API machine that these entries left behind: a snapshot, then the journal since.
    ///
    /// `seed` must differ from the one before, so that no uid is given twice. History before the restart is forgotten, so watchers
    /// of then get 410. Entries of kinds whose definition is not among them are dropped.
    pub fn restore(seed: u64, entries: impl IntoIterator<Item = Entry>, now: Timestamp) -> Self {
        let mut store = Self::bare(seed);
        let mut empty = true;
        for entry in entries {
            empty = false;
            store.revision = store.revision.max(entry.revision);
            store.replay(entry);
        }
        if empty {
            return Self::new(seed, now);
        }
        let revision = store.revision;
        store.compact(revision);
        store
    }

    fn replay(&mut self, entry: Entry) {
        let definitions = entry.resource == GroupResource::definitions();
        let Some(collection) = self.collections.get_mut(&entry.resource) else { return };
        let key = entry.key.clone();
        self.admission.note(&entry.resource, &key.name, entry.object.as_deref());
        self.garbage.note(
            &(entry.resource, key.clone()),
            collection.objects.get(&key).map(|o| &**o),
            entry.object.as_deref(),
        );
        let old = match entry.object {
            Some(object) => collection.objects.insert(entry.key, object),
            None => collection.objects.remove(&entry.key),
        };
        if definitions {
            self.definition_changed(old.as_deref(), &key);
        }
    }
}
