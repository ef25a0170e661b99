//! Handles the input of a dispatcher: watch events, our own writes, repositories.

use std::any::Any;
use std::sync::Arc;

use jiff::Timestamp;

use super::command::Command;
use super::kind_feed::{Enqueued, Feed, ResetBackoff, take};
use super::state::{Dispatcher, FeedFn};
use crate::{
    Change, Decoded, Event, EventType, Representation, Site, Source, Unreadable, Wake, WatchedKind,
    WatcherEvent,
};
use object::duration::later;
use object::{Gvk, Key, Kind, ObjectRef};

impl Dispatcher {
    /// Handles an event of the watch of a kind.
    pub fn watched(&mut self, kind: &WatchedKind, event: WatcherEvent, now: Timestamp) {
        match event {
            WatcherEvent::Listed { .. } | WatcherEvent::Applied(_) | WatcherEvent::Deleted { .. } => {
                self.answered(kind.site, now);
            }
            WatcherEvent::Stale | WatcherEvent::Refused(_) => {}
            WatcherEvent::Restored => return self.restored(kind.site, now),
        }
        self.feed(kind, Feed::Watch(event), now);
    }

    /// Handles the key and version of an object that a watch reports as created or changed. Returns true if the
    /// caches have that version or a newer one, as after our own write. Then the rest of the object need not be
    /// parsed. Otherwise, pass the event to [`Dispatcher::watched`].
    pub fn is_known(&mut self, kind: &WatchedKind, key: &Key, version: u64, now: Timestamp) -> bool {
        let is_known = match kind.representation {
            Representation::Typed => {
                let known = self.kinds.get(&(kind.site, kind.gvk.clone()));
                known.is_some_and(|known| (known.confirm)(&mut self.caches, kind.site, key, version))
            }
            Representation::Whole => {
                let cached = self.caches.observed_mut(&kind.gvk, false);
                cached.is_some_and(|cached| cached.confirm(key, version))
            }
            Representation::Metadata => false,
        };
        if is_known {
            self.answered(kind.site, now);
        }
        is_known
    }

    /// Invalidates everything that was read from an API server, so that lists from before and after its restore
    /// are never mixed.
    fn restored(&mut self, site: Site, now: Timestamp) {
        *self.restores.entry(site).or_default() += 1;
        let of_site = self.kinds.iter().filter(|((of, _), _)| *of == site);
        let feeds: Vec<FeedFn> = of_site.map(|(_, known)| known.feed).collect();
        for feed in feeds {
            feed(self, site, Feed::Watch(WatcherEvent::Restored), now);
        }
        if site == self.observed_site() {
            self.caches.observed_restored();
            self.refresh_answers(now);
        }
    }

    /// Stores the result of our own write, so that the next plan sees it.
    pub(super) fn wrote(&mut self, kind: &WatchedKind, object: Decoded, now: Timestamp) {
        self.feed(kind, Feed::Own(object), now);
    }

    /// Stores objects of the hub that an earlier process stored, unless objects of their kind have been read. Only
    /// controllers with [`Controller::USES_PERSISTED`](crate::Controller::USES_PERSISTED) use them.
    pub fn load_persisted<K: Kind>(&mut self, objects: Vec<K>, now: Timestamp) {
        if self.caches.kind_mut::<K>(Site::Hub).is_new() {
            let objects = objects.into_iter().map(|object| Decoded::Object(Arc::new(object))).collect();
            typed::<K>(self, Site::Hub, Feed::Persisted(objects), now);
        }
    }

    fn feed(&mut self, kind: &WatchedKind, feed: Feed, now: Timestamp) {
        if Self::is_metadata(kind) {
            self.feed_metadata(&kind.gvk, feed, now);
        } else if kind.is_observed() {
            self.feed_observed(kind, feed, now);
        } else if let Some(known) = self.kinds.get(&(kind.site, kind.gvk.clone())) {
            (known.feed)(self, kind.site, feed, now);
        }
    }

    /// Sets the value that [`View::settings`](crate::View::settings) returns. Call it before anything is planned.
    pub fn set_settings<T: Any + Send + Sync>(&mut self, settings: T) {
        self.caches.set_settings(settings);
    }

    /// Stores the state of a repository under the name of its `ConfigRepo`.
    pub fn source_changed(&mut self, repo: &Key, source: Source, now: Timestamp) {
        if !self.caches.set_source(repo.clone(), source) {
            return;
        }
        let wake = Wake { restarts: true, ..Wake::changed(self.coalesced(now)) };
        for (controller_id, wakes) in self.routes.sources.clone() {
            self.wake(wakes(repo).into_iter().map(|key| (controller_id, key)), wake);
        }
    }

    /// Records that an API server answered.
    pub(super) fn answered(&mut self, site: Site, now: Timestamp) {
        if self.outages.answered(site, now) {
            for registered in &mut self.controllers {
                registered.queue.release(now);
            }
        }
    }

    /// Returns when to plan a change that arrives now.
    pub(super) fn coalesced(&self, now: Timestamp) -> Timestamp {
        later(now, self.limits.coalesce)
    }

    pub(super) fn wake(&mut self, keys: impl IntoIterator<Item = (usize, Key)>, wake: Wake) {
        for (controller_id, key) in keys {
            if let Some(registered) = self.controllers.get_mut(controller_id) {
                registered.queue.wake(key, wake);
            }
        }
    }

    /// Reports objects that do not fit their type and so block the keys that need them.
    fn report_unreadable(&mut self, gvk: &Gvk, refused: Vec<Unreadable>) {
        let event = |refused: Unreadable| Event {
            regarding: ObjectRef { gvk: gvk.clone(), key: refused.key },
            uid: String::new(),
            related: None,
            event_type: EventType::Warning,
            reason: "Unreadable".into(),
            action: "Read".into(),
            message: format!(
                "the object does not fit its type, so the controllers do not act on it: {}",
                refused.reason
            ),
        };
        self.commands.extend(refused.into_iter().map(event).map(Command::Refused));
    }

    fn feed_observed(&mut self, kind: &WatchedKind, feed: Feed, now: Timestamp) {
        // A stopped watch may still deliver its last events.
        if !self.observed.is_requested(&kind.gvk) {
            return;
        }
        let wake = match feed {
            Feed::Own(_) => Wake::changed(self.coalesced(now)),
            Feed::Watch(_) | Feed::Persisted(_) => self.wake_of_others(now),
        };
        let is_list = matches!(feed, Feed::Watch(WatcherEvent::Listed { .. }));
        let is_refused = match &feed {
            Feed::Watch(WatcherEvent::Refused(reason)) => {
                self.caches.refuse_observed(&kind.gvk, reason.clone())
            }
            Feed::Watch(_) | Feed::Own(_) | Feed::Persisted(_) => false,
        };
        if is_list || is_refused {
            // A key that waits for the kind can now be planned, even if the kind has no objects, or can read the
            // refusal.
            let requesters: Vec<_> = self.observed.requesters(&kind.gvk).cloned().collect();
            self.wake(requesters, wake);
        }
        let Some(cached) = self.caches.observed_mut(&kind.gvk, is_list) else { return };
        let Enqueued { changes, priority: _, restarts: _, refused } = take(cached, feed);
        self.report_unreadable(&kind.gvk, refused);
        for (controller_id, log) in &self.routes.observed_logs {
            if let Some(registered) = self.controllers.get_mut(*controller_id) {
                changes.iter().for_each(|change| registered.indexes.log(log(change)));
            }
        }
        let mut woken = Vec::new();
        for (controller_id, wakes) in &self.routes.observed {
            for change in &changes {
                woken.extend(wakes(change, &self.caches).into_iter().map(|key| (*controller_id, key)));
            }
        }
        self.wake(woken, wake);
    }
}

/// Handles a report about a typed kind.
pub(super) fn typed<K: Kind>(dispatcher: &mut Dispatcher, site: Site, feed: Feed, now: Timestamp) {
    match feed {
        Feed::Watch(WatcherEvent::Listed { .. }) => dispatcher.listed::<K>(site),
        Feed::Watch(WatcherEvent::Stale | WatcherEvent::Restored) => dispatcher.expired::<K>(site),
        Feed::Persisted(_) => dispatcher.has_persisted::<K>(site),
        Feed::Watch(WatcherEvent::Applied(_) | WatcherEvent::Deleted { .. } | WatcherEvent::Refused(_))
        | Feed::Own(_) => {}
    }
    let on_spoke = site == Site::Spoke && !matches!(feed, Feed::Own(_));
    let cached = dispatcher.caches.kind_mut::<K>(site);
    let readability_changes = cached.readability_changes();
    let taken = take(cached, feed);
    let is_readability_changed = cached.readability_changes() != readability_changes;
    let Enqueued { changes, priority, restarts, refused } = taken;
    dispatcher.report_unreadable(&Gvk::of::<K>(), refused);
    let at = dispatcher.coalesced(now);
    let Dispatcher { caches, routes, controllers, .. } = dispatcher;
    let Some(routes) = routes.of::<K>(site) else { return };
    for change in &changes {
        for (controller_id, log) in &routes.logs {
            if let Some(registered) = controllers.get_mut(*controller_id) {
                registered.indexes.log(log(change));
            }
        }
        for route in &routes.wakes {
            let restarts = match restarts {
                ResetBackoff::Never => false,
                ResetBackoff::OfChangedSpec => route.is_primary && is_changed_by_people(change),
                ResetBackoff::All => true,
            };
            let Some(registered) = controllers.get_mut(route.controller_id) else { continue };
            for key in (route.wakes)(change, caches) {
                registered.queue.wake_spaced(key, Wake { at, priority, restarts, on_spoke });
            }
        }
    }
    for (controller_id, wakes) in routes.readability.iter().filter(|_| is_readability_changed) {
        let Some(registered) = controllers.get_mut(*controller_id) else { continue };
        for key in wakes(caches) {
            registered.queue.wake_spaced(key, Wake { at, priority, restarts: false, on_spoke });
        }
    }
}

/// Returns true if more than the status changed. The generation counts all such changes, except of annotations.
fn is_changed_by_people<K: Kind>(change: &Change<K>) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return true };
    let (old, new) = (old.meta(), new.meta());
    old.uid != new.uid
        || old.generation != new.generation
        || old.deletion_timestamp != new.deletion_timestamp
        || old.annotations != new.annotations
}
