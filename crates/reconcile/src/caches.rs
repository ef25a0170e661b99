//! The only implementation of [`View`]: caches that watches fill. The operator and the agent watch API servers;
//! the simulator watches stores.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::sync::Arc;

use rpds::RedBlackTreeMapSync;

use super::cached::{AnyCached, Cached, Labels};
use super::{Change, Lookup, LookupAnswer, Query, Read, ReadError, Site, Source, View};
use object::{Gvk, Key, Kind, Object, ObjectRef, version};

/// Everything that a process has read, by kind.
///
/// A clone shares every object; its cost depends only on the number of kinds. A decision reads a clone, which
/// never changes.
#[derive(Clone, Default)]
pub struct Caches {
    kinds: BTreeMap<(Site, TypeId), Arc<dyn AnyCached>>,
    observed: BTreeMap<Gvk, Arc<Cached<Object>>>,
    /// The reason why the API server refuses to list an observed kind.
    refused: BTreeMap<Gvk, String>,
    sources: RedBlackTreeMapSync<Key, Arc<Source>>,
    lookups: RedBlackTreeMapSync<Lookup, LookupResult>,
    settings: Option<Arc<dyn Any + Send + Sync>>,
}

/// The answer to a lookup, or the reason for its failure.
pub(crate) type LookupResult = Result<LookupAnswer, String>;

/// A report about one object, from a watch or a write.
#[derive(Clone, Debug, PartialEq)]
pub enum Delta<K> {
    /// A watch reported that the object was created or changed.
    Seen(K),
    /// A watch reported the deletion of the object, at a resource version.
    Gone(Key, String),
    /// Our own write returned the object; the watch may be behind or ahead of the write.
    Written(K),
    /// A watch reported an object that does not fit its type. The cache keeps its last readable state.
    Unreadable(Unreadable),
}

/// An object that exists but does not fit its type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unreadable {
    /// Its namespace and name, which are read apart from the rest.
    pub key: Key,
    /// Its labels, if they are readable; they decide which lists include it.
    pub labels: Labels,
    /// The field that does not fit, and the reason.
    pub reason: String,
}

/// The number of objects of a kind in a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CachedCount {
    /// Objects that have been readable.
    pub objects: usize,
    /// Objects whose newest state does not fit the type.
    pub unreadable: usize,
}

impl Unreadable {
    pub(crate) fn error(&self, kind: String) -> ReadError {
        ReadError::unreadable(format!("{kind} {}", self.key), self.reason.clone())
    }
}

impl Caches {
    pub(crate) fn kind_mut<K: Kind>(&mut self, site: Site) -> &mut Cached<K> {
        let slot =
            self.kinds.entry((site, TypeId::of::<K>())).or_insert_with(|| Arc::new(Cached::<K>::default()));
        if Arc::get_mut(slot).is_none() {
            *slot = slot.shared();
        }
        let cached = Arc::get_mut(slot).expect("a shared cache was replaced by one of its own above");
        cached.as_any_mut().downcast_mut().expect("each slot is created with the type it is keyed by")
    }

    fn kind<K: Kind>(&self, site: Site) -> Read<&Cached<K>> {
        let slot = self.kinds.get(&(site, TypeId::of::<K>()));
        match slot.and_then(|slot| slot.as_any().downcast_ref::<Cached<K>>()) {
            Some(cached) => cached.complete(kind_name::<K>),
            None => Err(ReadError::not_watched(kind_name::<K>())),
        }
    }

    /// Returns the cache of an observed kind; `create` adds it if it is absent.
    pub(crate) fn observed_mut(&mut self, gvk: &Gvk, create: bool) -> Option<&mut Cached<Object>> {
        if create {
            self.refused.remove(gvk);
            self.observed.entry(gvk.clone()).or_default();
        }
        self.observed.get_mut(gvk).map(Arc::make_mut)
    }

    /// Returns true if the first list of an observed kind is complete.
    pub(crate) fn is_observed(&self, gvk: &Gvk) -> bool {
        self.observed.get(gvk).is_some_and(|cached| cached.is_complete())
    }

    /// Records the refusal to list an observed kind, unless its last list is still valid. Returns true if it is
    /// new.
    pub(crate) fn refuse_observed(&mut self, gvk: &Gvk, reason: String) -> bool {
        let is_news = !self.is_observed(gvk) && self.refused.get(gvk) != Some(&reason);
        if is_news {
            self.refused.insert(gvk.clone(), reason);
        }
        is_news
    }

    /// Applies a report about a typed object; returns `None` if the cache is at least as new.
    pub fn apply<K: Kind>(&mut self, site: Site, delta: Delta<K>) -> Option<Change<K>> {
        self.kind_mut(site).apply(delta)
    }

    /// Replaces the objects of a kind with a complete list at a resource version.
    pub fn replace<K: Kind>(&mut self, site: Site, all: Vec<K>, resource_version: &str) -> Vec<Change<K>> {
        let all = all.into_iter().map(Arc::new).collect();
        self.kind_mut(site).replace(all, Vec::new(), version(resource_version))
    }

    /// Replaces the objects of an observed kind with a complete list at a resource version.
    pub fn replace_observed(
        &mut self,
        gvk: &Gvk,
        all: Vec<impl Into<Arc<Object>>>,
        resource_version: &str,
    ) -> Vec<Change<Object>> {
        let all = all.into_iter().map(Into::into).collect();
        let cached = Arc::make_mut(self.observed.entry(gvk.clone()).or_default());
        cached.replace(all, Vec::new(), version(resource_version))
    }

    /// Makes every observed kind unreadable until its next list, because the server's versions went back.
    pub(crate) fn observed_restored(&mut self) {
        for cached in self.observed.values_mut() {
            Arc::make_mut(cached).restored();
        }
    }

    /// Drops an observed kind that no plan requests any longer.
    pub(crate) fn forget_observed(&mut self, gvk: &Gvk) {
        self.observed.remove(gvk);
        self.refused.remove(gvk);
    }

    /// Stores the state of a repository; returns false if nothing changed.
    pub fn set_source(&mut self, repo: Key, source: Source) -> bool {
        if self.sources.get(&repo).is_some_and(|cached| **cached == source) {
            return false;
        }
        self.sources.insert_mut(repo, Arc::new(source));
        true
    }

    /// Sets the value that [`View::settings`] returns.
    pub fn set_settings<T: Any + Send + Sync>(&mut self, settings: T) {
        self.settings = Some(Arc::new(settings));
    }

    /// Returns the answer to a lookup, if there is one.
    pub(crate) fn answer(&self, lookup: &Lookup) -> Option<&LookupResult> {
        self.lookups.get(lookup)
    }

    /// Stores the answer to a lookup.
    pub fn set_answer(&mut self, lookup: Lookup, answer: Result<LookupAnswer, String>) {
        self.lookups.insert_mut(lookup, answer);
    }

    /// Drops the answer to a lookup that no key requests any longer.
    pub(crate) fn forget_lookup(&mut self, lookup: &Lookup) {
        self.lookups.remove_mut(lookup);
    }

    /// Records the version of a typed object that a watch delivered; returns true if the cache is at least as new.
    pub(crate) fn confirm<K: Kind>(&mut self, site: Site, key: &Key, version: u64) -> bool {
        self.kind_mut::<K>(site).confirm(key, version)
    }

    /// Counts the objects of a kind.
    pub(crate) fn count_of<K: Kind>(&self, site: Site) -> CachedCount {
        self.kind::<K>(site).map(Cached::count).unwrap_or_default()
    }

    /// Counts the objects of each observed kind.
    pub(crate) fn observed_counts(&self) -> impl Iterator<Item = (&Gvk, CachedCount)> {
        self.observed.iter().map(|(gvk, cached)| (gvk, cached.count()))
    }
}

fn kind_name<K: Kind>() -> String {
    Gvk::of::<K>().to_string()
}

impl View for Caches {
    fn get_on<K: Kind>(&self, site: Site, key: &Key) -> Read<Option<Arc<K>>> {
        self.kind::<K>(site)?.get(key, kind_name::<K>)
    }

    fn list_on<K: Kind>(&self, site: Site, query: Query<'_>) -> Read<Vec<Arc<K>>> {
        self.kind::<K>(site)?.list(query, kind_name::<K>)
    }

    fn list_readable_on<K: Kind>(&self, site: Site, query: Query<'_>) -> Read<Vec<Arc<K>>> {
        Ok(self.kind::<K>(site)?.matching(query))
    }

    fn unreadable_on<K: Kind>(&self, site: Site, query: Query<'_>) -> Read<Vec<Arc<Unreadable>>> {
        Ok(self.kind::<K>(site)?.refused(query).cloned().collect())
    }

    fn is_listed<K: Kind>(&self, site: Site) -> bool {
        self.kind::<K>(site).is_ok_and(Cached::is_listed)
    }

    fn observed(&self, object: &ObjectRef) -> Read<Option<Arc<Object>>> {
        let kind = || object.gvk.to_string();
        if let Some(cached) = self.observed.get(&object.gvk).filter(|cached| cached.is_complete()) {
            return cached.get(&object.key, kind);
        }
        Err(match self.refused.get(&object.gvk) {
            Some(reason) => ReadError::refused(kind(), reason.clone()),
            None => ReadError::not_listed(kind()),
        })
    }

    fn lookup(&self, lookup: &Lookup) -> Read<LookupAnswer> {
        match self.lookups.get(lookup) {
            Some(Ok(answer)) => Ok(answer.clone()),
            Some(Err(reason)) => Err(ReadError::refused(lookup.to_string(), reason.clone())),
            None => Err(ReadError::not_answered(lookup.to_string())),
        }
    }

    fn source(&self, repo: &Key) -> Option<Arc<Source>> {
        self.sources.get(repo).cloned()
    }

    fn settings<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.settings.as_ref().and_then(|settings| Arc::clone(settings).downcast().ok())
    }
}

#[cfg(test)]
#[path = "tests/caches.rs"]
mod tests;
