//! The [`View`] of one decision: the caches at its start, the controller's indexes, and computed results.

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::index::LentIndexes;
use super::memo::{KeyMemos, MemoRequest, MemoResult, find};
use super::{
    Caches, Index, Lookup, LookupAnswer, Memo, Query, Read, ReadError, ReadErrorReason, Site, Source,
    Unreadable, View,
};
use object::{Gvk, Key, Kind, Object, ObjectRef};

/// The input of a decision. Only the decision itself changes it, so reads need no lock.
pub struct Snapshot {
    caches: Caches,
    memos: KeyMemos,
    lent: RefCell<LentIndexes>,
    requested: RefCell<Requests>,
}

/// The reads of a decision, answered or not.
#[derive(Default)]
pub(crate) struct Requests {
    /// Kinds whose observed objects were read.
    pub(crate) kinds: BTreeSet<Gvk>,
    /// Lookups that were read.
    pub(crate) lookups: BTreeSet<Lookup>,
    /// Lookups without an answer; the dispatcher plans the key again when the answer arrives.
    pub(crate) unanswered: Vec<Lookup>,
    /// Results to compute.
    pub(crate) memos: Vec<MemoRequest>,
    /// Types of requested results.
    pub(crate) used: Vec<TypeId>,
    /// Kinds whose first list is incomplete; the dispatcher plans the key again when it is complete.
    pub(crate) awaited: BTreeSet<Gvk>,
    /// True if a result is being computed; the dispatcher plans the key again when it is ready.
    pub(crate) is_pending: bool,
}

impl Snapshot {
    pub(crate) fn new(caches: Caches, memos: KeyMemos, lent: LentIndexes) -> Self {
        Self { caches, memos, lent: RefCell::new(lent), requested: RefCell::default() }
    }

    /// Returns the caches at the start of the decision.
    pub(crate) fn caches(&self) -> &Caches {
        &self.caches
    }

    /// Returns the same input without the controller's indexes, so that each read builds one.
    pub(crate) fn without_indexes(&self) -> Self {
        Self::new(self.caches.clone(), self.memos.clone(), LentIndexes::default())
    }

    /// Brings the indexes up to date; returns the keys that the changes concern.
    pub(crate) fn catch_up(&self) -> Vec<Key> {
        self.lent.borrow_mut().catch_up()
    }

    pub(crate) fn into_parts(self) -> (LentIndexes, Requests) {
        (self.lent.into_inner(), self.requested.into_inner())
    }
}

impl View for Snapshot {
    fn get_on<K: Kind>(&self, site: Site, key: &Key) -> Read<Option<Arc<K>>> {
        self.caches.get_on(site, key)
    }

    fn list_on<K: Kind>(&self, site: Site, query: Query<'_>) -> Read<Vec<Arc<K>>> {
        self.caches.list_on(site, query)
    }

    fn list_readable_on<K: Kind>(&self, site: Site, query: Query<'_>) -> Read<Vec<Arc<K>>> {
        self.caches.list_readable_on(site, query)
    }

    fn unreadable_on<K: Kind>(&self, site: Site, query: Query<'_>) -> Read<Vec<Arc<Unreadable>>> {
        self.caches.unreadable_on::<K>(site, query)
    }

    fn is_listed<K: Kind>(&self, site: Site) -> bool {
        self.caches.is_listed::<K>(site)
    }

    fn observed(&self, object: &ObjectRef) -> Read<Option<Arc<Object>>> {
        let read = self.caches.observed(object);
        let mut requested = self.requested.borrow_mut();
        if !requested.kinds.contains(&object.gvk) {
            requested.kinds.insert(object.gvk.clone());
        }
        if read.as_ref().is_err_and(ReadError::is_coming) {
            requested.awaited.insert(object.gvk.clone());
        }
        read
    }

    fn lookup(&self, lookup: &Lookup) -> Read<LookupAnswer> {
        let read = self.caches.lookup(lookup);
        let mut requested = self.requested.borrow_mut();
        if !requested.lookups.contains(lookup) {
            requested.lookups.insert(lookup.clone());
            if read.as_ref().is_err_and(ReadError::is_coming) {
                requested.unanswered.push(lookup.clone());
            }
        }
        read
    }

    fn source(&self, repo: &Key) -> Option<Arc<Source>> {
        self.caches.source(repo)
    }

    fn settings<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.caches.settings()
    }

    fn index<I: Index, R>(&self, read: impl FnOnce(&mut I) -> R) -> Read<R> {
        self.lent.borrow_mut().read(&self.caches, read)
    }

    fn memo<M: Memo>(&self, memo: M) -> Read<Arc<M::Output>> {
        let mut requested = self.requested.borrow_mut();
        let is_asked = requested.used.contains(&TypeId::of::<M>());
        requested.used.push(TypeId::of::<M>());
        let (request, error) = match find(&self.memos, memo) {
            MemoResult::Ready(output) => return Ok(output),
            MemoResult::Failed(cause, request) => (request, ReadError::failed(M::NAME, cause)),
            MemoResult::Absent(request) => (request, ReadError::pending(M::NAME)),
        };
        // The two requests would replace each other forever.
        if is_asked && !requested.memos.iter().any(|earlier| earlier.is_same(&request)) {
            let cause = "a plan requests two results of this type, but only one is kept, which is a bug";
            return Err(ReadError::failed(M::NAME, cause.to_owned()));
        }
        requested.is_pending |= error.reason == ReadErrorReason::Pending;
        requested.memos.push(request);
        Err(error)
    }
}
