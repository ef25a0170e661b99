//! The feed of one kind: applies each report to the cache and returns the changes.

use std::sync::Arc;

use crate::cached::Cached;
use crate::{Change, Decoded, Priority, Unreadable, WatcherEvent};
use object::{Stored, version};

/// A report about one kind.
pub(super) enum Feed {
    Watch(WatcherEvent),
    /// The result of our own write.
    Own(Decoded),
    /// The objects that an earlier process stored.
    Persisted(Vec<Decoded>),
}

/// The changes that a report causes, and their urgency.
pub(super) struct Enqueued<K> {
    pub(super) changes: Vec<Change<K>>,
    pub(super) priority: Priority,
    pub(super) restarts: ResetBackoff,
    /// Objects whose newest state does not fit the type.
    pub(super) refused: Vec<Unreadable>,
}

/// The keys whose failures are reset.
#[derive(Clone, Copy)]
pub(super) enum ResetBackoff {
    /// None, because our own write fixes no failure.
    Never,
    /// The keys of objects whose spec changed.
    OfChangedSpec,
    /// All keys that the change concerns, because an unreadable object is readable again.
    All,
}

/// Applies a report to the cache of its kind, and returns the changes.
pub(super) fn take<K: Stored>(cached: &mut Cached<K>, feed: Feed) -> Enqueued<K> {
    let (mut priority, mut restarts) = (Priority::Changed, ResetBackoff::OfChangedSpec);
    let mut new_failures = Vec::new();
    let changes: Vec<Change<K>> = match feed {
        Feed::Watch(WatcherEvent::Listed { objects, resource_version }) => {
            if !cached.is_complete() {
                priority = Priority::Initial;
            }
            let (mut readable, mut unreadable) = (Vec::with_capacity(objects.len()), Vec::new());
            for object in objects {
                match object {
                    Decoded::Object(object) => readable.extend(object.downcast::<K>().ok()),
                    Decoded::Unreadable(refused) => unreadable.push(refused),
                }
            }
            new_failures.extend(unreadable.iter().filter(|refused| cached.is_new_failure(refused)).cloned());
            cached.replace(readable, unreadable, version(&resource_version))
        }
        Feed::Watch(WatcherEvent::Applied(Decoded::Object(object))) => {
            let object: Option<Arc<K>> = object.downcast().ok();
            if object.as_ref().is_some_and(|object| cached.is_unreadable(&object.key())) {
                restarts = ResetBackoff::All;
            }
            object.and_then(|object| cached.see(object)).into_iter().collect()
        }
        Feed::Watch(WatcherEvent::Applied(Decoded::Unreadable(refused))) => {
            new_failures.extend(Some(&refused).filter(|refused| cached.is_new_failure(refused)).cloned());
            cached.refuse(refused);
            Vec::new()
        }
        Feed::Watch(WatcherEvent::Deleted { key, resource_version }) => {
            if cached.is_unreadable(&key) {
                restarts = ResetBackoff::All;
            }
            cached.lose(&key, &resource_version).into_iter().collect()
        }
        Feed::Watch(WatcherEvent::Stale) => {
            cached.expire();
            Vec::new()
        }
        Feed::Watch(WatcherEvent::Restored) => {
            cached.restored();
            Vec::new()
        }
        Feed::Watch(WatcherEvent::Refused(_)) => Vec::new(),
        Feed::Own(Decoded::Object(object)) => {
            restarts = ResetBackoff::Never;
            let object = object.downcast::<K>().ok();
            object.and_then(|object| cached.write(object)).into_iter().collect()
        }
        Feed::Persisted(objects) => {
            priority = Priority::Initial;
            let readable = objects.into_iter().filter_map(|object| match object {
                Decoded::Object(object) => object.downcast::<K>().ok(),
                Decoded::Unreadable(_) => None,
            });
            cached.load_persisted(readable.collect())
        }
        // The watch delivers the object too, and reports why it does not fit.
        Feed::Own(Decoded::Unreadable(_)) => Vec::new(),
    };
    Enqueued { changes, priority, restarts, refused: new_failures }
}
