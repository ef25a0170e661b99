//! Watches: the changes since a revision, filtered by selectors and converted to a version.

use std::sync::Arc;

use serde_json::json;

use object::Object;

use super::collection::{WatchCacheEvent, weight_of};
use super::read::Filter;
use super::request_scope::RequestScope;
use super::slice::Slice;
use super::{ApiError, GroupResource, ResourcePath, Store};

/// The options of a watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchOptions {
    /// The label selector, as in a query string.
    pub labels: String,
    /// The field selector, as in a query string.
    pub fields: String,
    /// The revision to start from. Empty or `0` means all current objects, followed by changes.
    pub resource_version: String,
    /// If true, starts with all current objects, followed by a bookmark (streaming list).
    pub send_initial_events: Option<bool>,
}

/// The position of a watcher; [`Store::poll`] advances it.
#[derive(Clone, Debug)]
pub struct Watch {
    id: GroupResource,
    scope: RequestScope,
    filter: Filter,
    position: u64,
    start: Start,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// The current objects have been sent, or were not requested.
    Sent,
    /// The current objects come first.
    State,
    /// The current objects come first, followed by a bookmark.
    StateAndBookmark,
}

/// The type of a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WatchEventType {
    /// The object was created, or now matches the selector.
    Added,
    /// The object changed.
    Modified,
    /// The object was deleted, or no longer matches the selector. The event contains its last state.
    Deleted,
    /// No object has changed up to the resource version of this event.
    Bookmark,
}

impl WatchEventType {
    /// Returns the name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
            Self::Bookmark => "BOOKMARK",
        }
    }
}

/// One event of a watch.
#[derive(Clone, Debug, PartialEq)]
pub struct WatchEvent {
    /// The type of the event.
    pub type_: WatchEventType,
    pub object: Arc<Object>,
}

impl WatchEvent {
    /// Returns the approximate memory of the object, in bytes.
    pub fn weight(&self) -> usize {
        weight_of(&self.object)
    }
}

impl Store {
    /// Starts a watch. Events only come from [`Store::poll`].
    ///
    /// # Errors
    /// Returns an error for a path that is not served, invalid selectors, a revision that is not a number, or
    /// (410) one whose history has been dropped.
    pub fn watch(&self, target: &ResourcePath, options: &WatchOptions) -> Result<Watch, ApiError> {
        let (collection, scope) = self.scope(target)?;
        let filter = Filter::new(target, scope.version(), &options.labels, &options.fields)?;
        let given = super::read::parse_revision(&options.resource_version)
            .map_err(|refused| ApiError::unexpected(refused.message()))?;
        let initial = options.send_initial_events.unwrap_or(given == 0);
        let start = match (initial, options.send_initial_events) {
            (false, _) => Start::Sent,
            (true, Some(true)) => Start::StateAndBookmark,
            (true, _) => Start::State,
        };
        let position = if given == 0 || initial { self.revision() } else { given };
        let watch = Watch { id: collection.resource.id(), scope, filter, position, start };
        if start == Start::Sent && collection.since(position).is_none() {
            return Err(too_old(position, collection.compacted));
        }
        if given > self.revision() {
            return Err(super::read::too_large(given, self.revision()));
        }
        Ok(watch)
    }

    /// Returns the events since the last poll, in order.
    ///
    /// # Errors
    /// Returns 410 `Expired` if the history after the watcher's position has been dropped, or its resource is
    /// gone. List again.
    pub fn poll(&self, watch: &mut Watch) -> Result<Vec<WatchEvent>, ApiError> {
        self.poll_within(watch, &mut Slice::unlimited()).map(|(events, _)| events)
    }

    /// Returns the next events, with approximately `bytes` of objects, and whether there may be more. The current
    /// objects come all at once.
    ///
    /// # Errors
    /// Returns the errors of [`Store::poll`].
    pub fn poll_some(&self, watch: &mut Watch, bytes: usize) -> Result<(Vec<WatchEvent>, bool), ApiError> {
        self.poll_within(watch, &mut Slice::new(bytes))
    }

    fn poll_within(&self, watch: &mut Watch, slice: &mut Slice) -> Result<(Vec<WatchEvent>, bool), ApiError> {
        let collection =
            self.collections.get(&watch.id).ok_or_else(|| too_old(watch.position, self.revision()))?;
        let mut events = Vec::new();
        if watch.start != Start::Sent {
            watch.position = self.revision();
            for (_, object) in collection.within(&watch.filter.namespace) {
                if watch.filter.selects(object) {
                    events.push(WatchEvent {
                        type_: WatchEventType::Added,
                        object: self.through(&watch.scope, object)?,
                    });
                }
            }
            if watch.start == Start::StateAndBookmark {
                events.push(self.bookmark(watch, true));
            }
            watch.start = Start::Sent;
            return Ok((events, false));
        }
        let changes =
            collection.since(watch.position).ok_or_else(|| too_old(watch.position, collection.compacted))?;
        for change in changes {
            match event_for(&watch.filter, change) {
                Some((type_, object)) => {
                    slice.touched(&object);
                    events.push(WatchEvent { type_, object: self.through(&watch.scope, &object)? });
                }
                None => slice.passed_over(),
            }
            if slice.is_over() {
                watch.position = change.revision;
                return Ok((events, true));
            }
        }
        watch.position = self.revision();
        Ok((events, false))
    }

    /// Returns a bookmark at the watcher's position; `initial` marks the end of the current objects.
    pub fn bookmark(&self, watch: &Watch, initial: bool) -> WatchEvent {
        let resource = watch.scope.resource();
        let mut metadata = json!({ "resourceVersion": watch.position.to_string() });
        if initial && let Some(fields) = metadata.as_object_mut() {
            fields.insert("annotations".into(), json!({ "k8s.io/initial-events-end": "true" }));
        }
        let mut object = Object::default();
        object.0.insert("apiVersion".into(), resource.api_version(&watch.scope.version().name).into());
        object.0.insert("kind".into(), resource.kind.clone().into());
        object.0.insert("metadata".into(), metadata);
        for (field, zero) in resource.builtin.into_iter().flat_map(|kind| kind.zero()) {
            object.0.insert(field.into(), zero);
        }
        WatchEvent { type_: WatchEventType::Bookmark, object: Arc::new(object) }
    }

    /// Drops the history up to a revision. Watchers that need it get 410.
    pub(crate) fn compact(&mut self, revision: u64) {
        for collection in self.collections.values_mut() {
            collection.compact(revision);
        }
    }
}

impl Watch {
    /// Returns the revision up to which all events have been sent.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the watched resource and version.
    pub fn scope(&self) -> &RequestScope {
        &self.scope
    }
}

fn too_old(position: u64, oldest: u64) -> ApiError {
    ApiError::expired(format!("too old resource version: {position} ({oldest})"))
}

/// Returns the event of a change for a selector. An object that stops matching is deleted from the watcher's point
/// of view.
fn event_for(filter: &Filter, change: &WatchCacheEvent) -> Option<(WatchEventType, Arc<Object>)> {
    let visible = |side: &Option<Arc<Object>>| side.clone().filter(|object| filter.selects(object));
    match (visible(&change.old), visible(&change.new)) {
        (None, None) => None,
        (None, Some(new)) => Some((WatchEventType::Added, new)),
        (Some(_), Some(new)) => Some((WatchEventType::Modified, new)),
        (Some(old), None) if change.new.is_none() => Some((WatchEventType::Deleted, old)),
        (Some(old), None) => {
            let mut last = Object::clone(&old);
            last.metadata_mut().insert("resourceVersion".into(), change.revision.to_string().into());
            Some((WatchEventType::Deleted, Arc::new(last)))
        }
    }
}
