//! The one [`View`]: caches filled by watches, in the operator and the agent by those of API servers, in the simulator by those of stores.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::index::Indexes;
use super::{Change, Index, Query, Read, Site, Source, Unread, View};
use api::names::INDEXED_LABELS;
use object::{Gvk, Key, Kind, Object, ObjectRef, Stored, version};

/// Everything a process has read, by kind.
#[derive(Default)]
pub struct Caches {
    kinds: BTreeMap<(Site, TypeId), Box<dyn Any + Send + Sync>>,
    observed: BTreeMap<Gvk, Cached<Object>>,
    sources: BTreeMap<Key, Arc<Source>>,
    indexes: Indexes,
}

/// What a watch or a write tells about one object.
#[derive(Clone, Debug, PartialEq)]
pub enum Delta<K> {
    /// A watch saw it created or changed.
    Seen(K),
    /// A watch saw it deleted, at a resource version.
    Gone(Key, String),
    /// A write of ours returned it; the watch may still be behind, or ahead.
    Written(K),
    /// A watch saw it, but it does not fit its type; its last readable state stays.
    Unreadable(Key, String),
}

/// The objects of one kind.
#[derive(Debug)]
struct Cached<K> {
    objects: BTreeMap<Key, Arc<K>>,
    by_label: BTreeMap<(&'static str, String), BTreeSet<Key>>,
    /// Objects that exist but do not fit their type, and why; a read that would cover one fails rather than overlook it.
    unreadable: BTreeMap<Key, String>,
    /// The newest resource version the watch has delivered; a written object that is older and absent has been deleted since.
    seen: u64,
    /// Whether the first list has been read whole; until then absence means nothing.
    complete: bool,
}

impl<K> Default for Cached<K> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            by_label: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            seen: 0,
            complete: false,
        }
    }
}

impl<K: Stored> Cached<K> {
    fn apply(&mut self, delta: Delta<K>) -> Option<Change<K>> {
        match delta {
            Delta::Seen(object) => {
                self.seen = self.seen.max(object.version());
                self.put(Arc::new(object))
            }
            Delta::Gone(key, resource_version) => {
                let at = version(&resource_version);
                self.seen = self.seen.max(at);
                let newer = self.objects.get(&key).is_some_and(|held| held.version() > at);
                if newer { None } else { self.take(&key) }
            }
            Delta::Written(object) => {
                let passed = object.version() <= self.seen && !self.objects.contains_key(&object.key());
                if passed { None } else { self.put(Arc::new(object)) }
            }
            Delta::Unreadable(key, why) => {
                self.unreadable.insert(key, why);
                None
            }
        }
    }

    /// Takes a complete list read at resource version `at`: what it lacks is gone, unless we wrote it later.
    fn replace(&mut self, all: Vec<Arc<K>>, at: u64) -> Vec<Change<K>> {
        self.complete = true;
        self.unreadable.clear();
        self.seen = self.seen.max(at);
        if self.objects.is_empty() {
            // The first list is the longest: the map is built at once instead of being searched for every object.
            self.objects = all.iter().map(|object| (object.key(), Arc::clone(object))).collect();
            all.iter().for_each(|object| self.index(&object.key(), object, true));
            return all.into_iter().map(|new| Change { old: None, new: Some(new) }).collect();
        }
        let listed: BTreeSet<Key> = all.iter().map(|object| object.key()).collect();
        let gone = self.objects.iter().filter(|(key, held)| !listed.contains(*key) && held.version() <= at);
        let gone: Vec<Key> = gone.map(|(key, _)| key.clone()).collect();
        let removed: Vec<_> = gone.iter().filter_map(|key| self.take(key)).collect();
        let put: Vec<_> = all.into_iter().filter_map(|object| self.put(object)).collect();
        removed.into_iter().chain(put).collect()
    }

    fn put(&mut self, new: Arc<K>) -> Option<Change<K>> {
        let key = new.key();
        self.unreadable.remove(&key);
        let old = self.objects.get(&key).cloned();
        if old.as_ref().is_some_and(|held| held.version() >= new.version()) {
            return None;
        }
        if let Some(old) = &old {
            self.index(&key, old, false);
        }
        self.index(&key, &new, true);
        self.objects.insert(key, Arc::clone(&new));
        Some(Change { old, new: Some(new) })
    }

    fn take(&mut self, key: &Key) -> Option<Change<K>> {
        self.unreadable.remove(key);
        let old = self.objects.remove(key)?;
        self.index(key, &old, false);
        Some(Change { old: Some(old), new: None })
    }

    fn index(&mut self, key: &Key, object: &K, add: bool) {
        for label in INDEXED_LABELS {
            let Some(value) = object.label(label) else { continue };
            let entry = (*label, value.to_owned());
            if add {
                self.by_label.entry(entry).or_default().insert(key.clone());
            } else if let Some(keys) = self.by_label.get_mut(&entry) {
                keys.remove(key);
                if keys.is_empty() {
                    self.by_label.remove(&entry);
                }
            }
        }
    }

    fn list(&self, query: Query<'_>) -> Vec<Arc<K>> {
        let Some((label, value)) = query.label else {
            return match query.namespace {
                None => self.objects.values().cloned().collect(),
                Some(namespace) => {
                    let from = self.objects.range(Key::namespaced(namespace, "")..);
                    from.take_while(|(key, _)| key.namespace == namespace)
                        .map(|(_, object)| object.clone())
                        .collect()
                }
            };
        };
        if let Some(label) = INDEXED_LABELS.iter().find(|indexed| **indexed == label) {
            let keys = self.by_label.get(&(*label, value.to_owned())).into_iter().flatten();
            let keys = keys.filter(|key| query.namespace.is_none_or(|namespace| key.namespace == namespace));
            return keys.filter_map(|key| self.objects.get(key).cloned()).collect();
        }
        let mut objects = self.list(Query { label: None, ..query });
        objects.retain(|object| object.label(label) == Some(value));
        objects
    }

    fn read(&self, what: impl Fn() -> String) -> Read<&Self> {
        if self.complete {
            Ok(self)
        } else {
            Err(Unread { what: what(), why: "its first list has not been read yet".into() })
        }
    }

    /// Refuses a read that an unreadable object would have been part of.
    fn readable(&self, kind: impl Fn() -> String, covers: impl Fn(&Key) -> bool) -> Read<()> {
        match self.unreadable.iter().find(|(key, _)| covers(key)) {
            Some((key, why)) => Err(Unread { what: format!("{} {key}", kind()), why: why.clone() }),
            None => Ok(()),
        }
    }
}

impl Caches {
    fn kind_mut<K: Kind>(&mut self, site: Site) -> &mut Cached<K> {
        let slot =
            self.kinds.entry((site, TypeId::of::<K>())).or_insert_with(|| Box::new(Cached::<K>::default()));
        slot.downcast_mut().expect("each slot is created with the type it is keyed by")
    }

    fn kind<K: Kind>(&self, site: Site) -> Read<&Cached<K>> {
        let what = || Gvk::of::<K>().to_string();
        match self.kinds.get(&(site, TypeId::of::<K>())).and_then(|slot| slot.downcast_ref::<Cached<K>>()) {
            Some(cached) => cached.read(what),
            None => Err(Unread { what: what(), why: "nothing watches it".into() }),
        }
    }

    /// Takes what a watch or a write tells about a typed object; `None` when the cache knew as much or more.
    pub fn apply<K: Kind>(&mut self, site: Site, delta: Delta<K>) -> Option<Change<K>> {
        let change = self.kind_mut(site).apply(delta);
        self.observe(site, change.as_slice());
        change
    }

    /// Tells the indexes, which are about the hub alone.
    fn observe<K: Kind>(&mut self, site: Site, changes: &[Change<K>]) {
        if site == Site::Hub {
            changes.iter().for_each(|change| self.indexes.observe(change));
        }
    }

    /// Takes a complete list of a kind, read at a resource version.
    pub fn replace<K: Kind>(&mut self, site: Site, all: Vec<K>, resource_version: &str) -> Vec<Change<K>> {
        self.replace_shared(site, all.into_iter().map(Arc::new).collect(), resource_version)
    }

    /// [`Caches::replace`] for a list that is too long to be copied.
    pub fn replace_shared<K: Kind>(
        &mut self,
        site: Site,
        all: Vec<Arc<K>>,
        resource_version: &str,
    ) -> Vec<Change<K>> {
        let changes = self.kind_mut(site).replace(all, version(resource_version));
        self.observe(site, &changes);
        changes
    }

    /// Takes what a watch or a write tells about an observed object; returns the state to route wakes by.
    pub fn apply_observed(&mut self, gvk: &Gvk, delta: Delta<Object>) -> Option<Change<Object>> {
        self.observed.get_mut(gvk)?.apply(delta)
    }

    /// Takes a complete list of an observed kind, read at a resource version.
    pub fn replace_observed(
        &mut self,
        gvk: &Gvk,
        all: Vec<impl Into<Arc<Object>>>,
        resource_version: &str,
    ) -> Vec<Change<Object>> {
        let all = all.into_iter().map(Into::into).collect();
        self.observed.entry(gvk.clone()).or_default().replace(all, version(resource_version))
    }

    /// Drops an observed kind that no plan asks for any more.
    pub fn forget_observed(&mut self, gvk: &Gvk) {
        self.observed.remove(gvk);
    }

    /// Takes the news of a repository; `false` when nothing changed.
    pub fn set_source(&mut self, repo: Key, source: Source) -> bool {
        if self.sources.get(&repo).is_some_and(|held| **held == source) {
            return false;
        }
        self.sources.insert(repo, Arc::new(source));
        true
    }
}

impl View for Caches {
    fn get_on<K: Kind>(&self, site: Site, key: &Key) -> Read<Option<Arc<K>>> {
        let cached = self.kind::<K>(site)?;
        cached.readable(|| Gvk::of::<K>().to_string(), |bad| bad == key)?;
        Ok(cached.objects.get(key).cloned())
    }

    fn list_on<K: Kind>(&self, site: Site, query: Query<'_>) -> Read<Vec<Arc<K>>> {
        let cached = self.kind::<K>(site)?;
        cached.readable(
            || Gvk::of::<K>().to_string(),
            |bad| query.namespace.is_none_or(|namespace| bad.namespace == namespace),
        )?;
        Ok(cached.list(query))
    }

    fn observed(&self, object: &ObjectRef) -> Read<Option<Arc<Object>>> {
        let unread = || Unread { what: object.to_string(), why: "its kind is not watched yet".into() };
        let cached = self.observed.get(&object.gvk).ok_or_else(unread)?;
        Ok(cached.read(|| object.gvk.to_string())?.objects.get(&object.key).cloned())
    }

    fn source(&self, repo: &Key) -> Option<Arc<Source>> {
        self.sources.get(repo).cloned()
    }

    fn index<I: Index, R>(&self, read: impl FnOnce(&mut I) -> R) -> Read<R> {
        self.indexes.read(self, read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    fn config_map(name: &str, resource_version: &str) -> ConfigMap {
        let metadata = ObjectMeta {
            namespace: Some("ns".into()),
            name: Some(name.into()),
            resource_version: Some(resource_version.into()),
            labels: INDEXED_LABELS.first().map(|label| [((*label).to_owned(), "p".to_owned())].into()),
            ..ObjectMeta::default()
        };
        ConfigMap { metadata, ..ConfigMap::default() }
    }

    fn names(caches: &Caches, query: Query<'_>) -> Vec<String> {
        caches.list::<ConfigMap>(query).unwrap().iter().map(|c| c.metadata.name.clone().unwrap()).collect()
    }

    #[test]
    fn absence_means_nothing_before_the_first_list() {
        let mut caches = Caches::default();
        assert!(caches.get::<ConfigMap>(&Key::namespaced("ns", "a")).is_err());
        caches.apply(Site::Hub, Delta::Seen(config_map("a", "1")));
        assert!(caches.list::<ConfigMap>(Query::ALL).is_err());
        caches.replace(Site::Hub, vec![config_map("b", "2")], "3");
        assert_eq!(names(&caches, Query::ALL), ["b"]);
    }

    #[test]
    fn a_write_is_visible_before_its_watch_event_and_not_undone_by_older_ones() {
        let mut caches = Caches::default();
        caches.replace(Site::Hub, vec![config_map("a", "1")], "1");
        assert!(caches.apply(Site::Hub, Delta::Written(config_map("a", "5"))).is_some());
        assert!(caches.apply(Site::Hub, Delta::Seen(config_map("a", "3"))).is_none());
        assert!(caches.apply(Site::Hub, Delta::Seen(config_map("a", "5"))).is_none());
        caches.replace(Site::Hub, vec![config_map("a", "4")], "4");
        let held = caches.get::<ConfigMap>(&Key::namespaced("ns", "a")).unwrap().unwrap();
        assert_eq!(held.metadata.resource_version.as_deref(), Some("5"));
    }

    #[test]
    fn a_late_write_result_does_not_revive_a_deleted_object() {
        let mut caches = Caches::default();
        caches.replace(Site::Hub, vec![config_map("a", "1")], "1");
        assert!(
            caches
                .apply(Site::Hub, Delta::<ConfigMap>::Gone(Key::namespaced("ns", "a"), "7".into()))
                .is_some()
        );
        assert!(caches.apply(Site::Hub, Delta::Written(config_map("a", "6"))).is_none());
        assert!(names(&caches, Query::ALL).is_empty());
    }

    #[test]
    fn an_object_written_after_the_list_survives_it() {
        let mut caches = Caches::default();
        caches.replace(Site::Hub, Vec::<ConfigMap>::new(), "1");
        caches.apply(Site::Hub, Delta::Written(config_map("new", "9")));
        caches.replace(Site::Hub, vec![config_map("a", "2")], "8");
        assert_eq!(names(&caches, Query::ALL), ["a", "new"]);
    }

    #[test]
    fn an_unreadable_object_fails_the_reads_that_would_overlook_it() {
        let mut caches = Caches::default();
        caches.replace(Site::Hub, vec![config_map("a", "1")], "1");
        caches.apply::<ConfigMap>(
            Site::Hub,
            Delta::Unreadable(Key::namespaced("ns", "b"), "data: not a map".into()),
        );
        let error = caches.list::<ConfigMap>(Query::ALL).unwrap_err();
        assert_eq!(error.to_string(), "cannot read ConfigMap ns/b: data: not a map");
        assert!(caches.get::<ConfigMap>(&Key::namespaced("ns", "b")).is_err());
        assert!(caches.get::<ConfigMap>(&Key::namespaced("ns", "a")).is_ok());
        assert!(caches.list::<ConfigMap>(Query::namespace("other")).is_ok());
        caches.apply(Site::Hub, Delta::Seen(config_map("b", "2")));
        assert_eq!(names(&caches, Query::ALL), ["a", "b"]);
    }

    #[test]
    fn indexed_labels_and_namespaces_select() {
        let mut caches = Caches::default();
        caches.replace(Site::Hub, vec![config_map("a", "1"), config_map("b", "2")], "2");
        let label = INDEXED_LABELS[0];
        assert_eq!(names(&caches, Query::label(label, "p").within("ns")), ["a", "b"]);
        assert!(names(&caches, Query::label(label, "p").within("other")).is_empty());
        assert!(names(&caches, Query::label(label, "q")).is_empty());
        assert!(names(&caches, Query::namespace("n")).is_empty());
        caches.apply(Site::Hub, Delta::<ConfigMap>::Gone(Key::namespaced("ns", "a"), "3".into()));
        assert_eq!(names(&caches, Query::label(label, "p")), ["b"]);
        assert_eq!(names(&caches, Query::label("unindexed", "p")), [""; 0]);
    }
}
