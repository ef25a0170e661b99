//! The answers to lookups: how they are stored, when they expire, and which keys they wake.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::command::Command;
use super::kind_feed::Feed;
use super::lookups::LookupChanges;
use super::names::Names;
use super::state::Dispatcher;
use crate::caches::LookupResult;
use crate::kind::Seen;
use crate::{
    AccessReview, Backoff, Decoded, Failure, FailureKind, Lookup, LookupAnswer, Representation, ServerHealth,
    Site, Wake, WatchedKind, WatcherEvent,
};
use object::duration::later;
use object::{Gvk, Key, Object, ObjectRef, Stored as _, version};

/// The time that an object remains valid after a read if no watch reports its changes.
const UNWATCHED: SignedDuration = SignedDuration::from_mins(1);
/// The time that the answer "not served" remains valid for a kind. Discovery is a small request.
const NOT_SERVED: SignedDuration = SignedDuration::from_secs(30);

impl Dispatcher {
    /// Replaces the lookups of a key.
    pub(super) fn look_up(&mut self, requester: (usize, Key), lookups: BTreeSet<Lookup>, now: Timestamp) {
        if self.lookups.of(&requester).map_or(lookups.is_empty(), |current| *current == lookups) {
            return;
        }
        let LookupChanges { started, ended, absent, dropped } = self.lookups.request(requester, lookups, now);
        let site = self.observed_site();
        let metadata = |gvk| Arc::new(WatchedKind::metadata(site, gvk));
        self.commands.extend(ended.into_iter().map(metadata).map(Command::Unwatch));
        self.commands.extend(started.into_iter().map(metadata).map(Command::Watch));
        for lookup in &dropped {
            self.caches.forget_lookup(lookup);
        }
        for lookup in &absent {
            self.keep_answer(lookup, Ok(LookupAnswer::Object(None)), Wake::changed(now));
        }
    }

    /// Handles the answer to a lookup.
    pub fn looked_up(
        &mut self,
        site: Site,
        lookup: &Lookup,
        answer: Result<LookupAnswer, Failure>,
        now: Timestamp,
    ) {
        match &answer {
            Err(failure) if failure.kind == FailureKind::Unavailable => self.outages.failed(site, now),
            Ok(_) | Err(_) => self.answered(site, now),
        }
        let is_stale = self.lookups.is_stale(lookup);
        let Some(state) = self.lookups.finished(lookup) else { return };
        if std::mem::take(&mut state.is_outdated) {
            self.lookups.schedule(lookup, now);
            return;
        }
        match answer {
            Ok(LookupAnswer::Object(Some(object))) if object.version() < state.touched => {
                self.lookups.schedule(lookup, now);
            }
            Ok(answer) => {
                state.failures = 0;
                let valid = match &answer {
                    LookupAnswer::Mapping(None) => Some(NOT_SERVED),
                    LookupAnswer::Access(_) => Some(AccessReview::VALID),
                    LookupAnswer::Health(_) => Some(ServerHealth::VALID),
                    LookupAnswer::OnHub(_) => Some(LookupAnswer::ON_HUB_VALID),
                    LookupAnswer::Pods(_) | LookupAnswer::Warnings(_) => Some(LookupAnswer::PODS_VALID),
                    LookupAnswer::Object(_) => is_stale.then_some(UNWATCHED),
                    LookupAnswer::Mapping(Some(_)) | LookupAnswer::DryRun(_) => None,
                };
                if let Some(valid) = valid {
                    self.lookups.schedule(lookup, later(now, valid));
                }
                self.take_answer(lookup, Ok(answer), self.wake_of_answer(lookup, now));
            }
            Err(failure) => {
                state.failures = state.failures.saturating_add(1);
                let wait = Backoff::wait(failure.kind, state.failures).min(AccessReview::VALID);
                self.lookups.schedule(lookup, later(now, wait));
                // A key waits for an answer that is still to come, but it can read a refusal.
                if failure.kind != FailureKind::Unavailable {
                    self.take_answer(lookup, Err(failure.message), self.wake_of_others(now));
                }
            }
        }
    }

    /// Stores an answer, and wakes the keys that request it if the answer changed.
    fn take_answer(&mut self, lookup: &Lookup, answer: LookupResult, wake: Wake) {
        let cached = self.caches.answer(lookup);
        let is_older = match (cached, &answer) {
            // The watch reports the deletion.
            (Some(Ok(LookupAnswer::Object(Some(_)))), Ok(LookupAnswer::Object(None))) => {
                !self.lookups.is_stale(lookup)
            }
            (Some(Ok(LookupAnswer::Object(Some(cached)))), Ok(LookupAnswer::Object(Some(new)))) => {
                cached.version() >= new.version()
            }
            (Some(cached), new) => cached == new,
            (None, _) => false,
        };
        if !is_older {
            self.keep_answer(lookup, answer, wake);
        }
    }

    fn keep_answer(&mut self, lookup: &Lookup, answer: LookupResult, wake: Wake) {
        self.caches.set_answer(lookup.clone(), answer);
        for (controller_id, key) in self.lookups.requesters(lookup) {
            if let Some(registered) = self.controllers.get_mut(controller_id) {
                registered.queue.wake_spaced(key, wake);
            }
        }
    }

    /// Returns the wake for a change of an observed object that another client made.
    pub(super) fn wake_of_others(&self, now: Timestamp) -> Wake {
        Wake { on_spoke: self.has_spoke, ..Wake::changed(self.coalesced(now)) }
    }

    /// Returns the wake for an answer. If an answer that a plan has read changes, the key is planned at once.
    /// Answers that a plan still waits for are gathered.
    fn wake_of_answer(&self, lookup: &Lookup, now: Timestamp) -> Wake {
        let wake = self.wake_of_others(now);
        if self.caches.answer(lookup).is_some() { Wake { at: now, ..wake } } else { wake }
    }

    /// Stores an object returned by our own write, and shares it with the outcome of the write.
    pub(super) fn wrote_object(&mut self, object: &mut Arc<Object>, now: Timestamp) {
        let gvk = object.gvk();
        if (gvk.group.as_str(), gvk.kind.as_str()) == ("apiextensions.k8s.io", "CustomResourceDefinition") {
            let group = object.0.get("spec").and_then(|spec| spec.get("group")).and_then(Value::as_str);
            self.refresh_mappings(group.unwrap_or_default(), now);
        }
        let lookup = Lookup::Object(object.reference());
        self.lookups.exists(&gvk, &object.key());
        let Some(state) = self.lookups.state(&lookup) else { return };
        let (written, gone, touched) = (object.version(), state.gone, state.touched);
        if written < gone {
            return;
        }
        if self.lookups.is_stale(&lookup) {
            // The answer in flight may say that the object does not exist.
            self.lookups.outdate(&lookup);
        } else if touched <= written {
            self.lookups.unschedule(&lookup);
        }
        let shared = Arc::make_mut(object);
        *shared = std::mem::take(shared).trim(&gvk);
        let own = Wake::changed(self.coalesced(now));
        self.take_answer(&lookup, Ok(LookupAnswer::Object(Some(Arc::clone(object)))), own);
    }

    /// Requests all answers again, because the server was restored. Versions from before the restore are
    /// meaningless, so answers about objects are dropped; the next list of their kind requests them.
    pub(super) fn refresh_answers(&mut self, now: Timestamp) {
        for lookup in self.lookups.restored() {
            match &lookup {
                Lookup::Object(_) => {
                    self.lookups.unschedule(&lookup);
                    self.caches.forget_lookup(&lookup);
                    if self.lookups.is_stale(&lookup) {
                        self.lookups.schedule(&lookup, now);
                    }
                }
                Lookup::Mapping(_)
                | Lookup::KindFor(_)
                | Lookup::OnHub(_)
                | Lookup::Access(_)
                | Lookup::Health
                | Lookup::Pods(_)
                | Lookup::Warnings { .. }
                | Lookup::DryRun(_) => {
                    self.lookups.schedule(&lookup, now);
                }
            }
        }
    }

    /// Requests the mappings of a group again, because a CustomResourceDefinition in it was written.
    fn refresh_mappings(&mut self, group: &str, now: Timestamp) {
        for lookup in self.lookups.mappings(group) {
            self.lookups.schedule(&lookup, now);
        }
    }

    /// Requests the mappings of a kind again, because it is no longer served, or served differently.
    pub fn not_served(&mut self, gvk: &Gvk, now: Timestamp) {
        for lookup in self.lookups.mappings(&gvk.group) {
            let is_concerned = match &lookup {
                Lookup::Mapping(kind) => kind == gvk,
                Lookup::KindFor(resource) => resource.version == gvk.version,
                Lookup::Object(_)
                | Lookup::OnHub(_)
                | Lookup::Access(_)
                | Lookup::Health
                | Lookup::Pods(_)
                | Lookup::Warnings { .. }
                | Lookup::DryRun(_) => false,
            };
            if is_concerned {
                self.lookups.schedule(&lookup, now);
            }
        }
    }

    /// Handles an event of the metadata watch of a kind.
    pub(super) fn feed_metadata(&mut self, gvk: &Gvk, feed: Feed, now: Timestamp) {
        let lookup = |key: Key| Lookup::Object(ObjectRef { gvk: gvk.clone(), key });
        match feed {
            Feed::Watch(WatcherEvent::Listed { objects, resource_version }) => {
                let mut names = Names::default();
                let mut absent = self.lookups.objects(gvk);
                let mut present = Vec::new();
                for Seen { key, version } in objects.into_iter().filter_map(seen) {
                    names.add(&key);
                    present.extend(absent.take(&lookup(key)).map(|lookup| (lookup, version)));
                }
                self.lookups.listed(gvk, names);
                for (lookup, version) in present {
                    self.touched(&lookup, version, now);
                }
                let at = version(&resource_version);
                for lookup in absent {
                    self.gone(&lookup, at, now);
                }
            }
            Feed::Watch(WatcherEvent::Applied(decoded)) => {
                if let Some(Seen { key, version }) = seen(decoded) {
                    self.lookups.exists(gvk, &key);
                    self.touched(&lookup(key), version, now);
                }
            }
            Feed::Watch(WatcherEvent::Deleted { key, resource_version }) => {
                self.gone(&lookup(key), version(&resource_version), now);
            }
            // Keys that wait for the first list read the refusal. See
            // docs/hazards-clusters.md#kind-that-may-not-be-listed.
            Feed::Watch(WatcherEvent::Refused(reason)) => {
                for lookup in self.lookups.objects(gvk) {
                    if self.caches.answer(&lookup).is_none() {
                        self.keep_answer(&lookup, Err(reason.clone()), self.wake_of_others(now));
                    }
                }
            }
            // A separate lookup reads each object, now and every minute. A failed lookup reports its error. See
            // docs/hazards-hub.md#stale-for-ever.
            Feed::Watch(WatcherEvent::Stale) => {
                self.lookups.expired(gvk);
                for lookup in self.lookups.objects(gvk) {
                    self.lookups.schedule(&lookup, now);
                }
            }
            Feed::Watch(WatcherEvent::Restored) | Feed::Own(_) | Feed::Persisted(_) => {}
        }
    }

    /// Handles the version of an object: schedules a read unless the version is known. A single change is read at
    /// once; reads of a constantly changing object are spaced. While a key that requests the object is being
    /// reconciled, its write may be the cause, and will return the version.
    fn touched(&mut self, lookup: &Lookup, version: u64, now: Timestamp) {
        let is_reconciled = |(controller_id, key): &(usize, Key)| {
            self.controllers.get(*controller_id).is_some_and(|registered| registered.queue.is_running(key))
        };
        let is_reconciled = self.lookups.requesters(lookup).iter().any(is_reconciled);
        let Some(state) = self.lookups.state(lookup) else { return };
        let at = match state.sent {
            _ if is_reconciled => later(now, self.limits.coalesce),
            Some(sent) => later(sent, self.limits.coalesce).max(now),
            None => now,
        };
        state.touched = state.touched.max(version);
        let is_known = matches!(
            self.caches.answer(lookup),
            Some(Ok(LookupAnswer::Object(Some(cached)))) if cached.version() >= version
        );
        if !is_known {
            self.lookups.schedule(lookup, at);
        }
    }

    /// Handles the absence of an object at a version.
    fn gone(&mut self, lookup: &Lookup, version: u64, now: Timestamp) {
        let Some(state) = self.lookups.state(lookup) else { return };
        state.touched = state.touched.max(version);
        state.gone = state.gone.max(version);
        let is_known = match self.caches.answer(lookup) {
            Some(Ok(LookupAnswer::Object(Some(cached)))) => cached.version() > version,
            Some(Ok(LookupAnswer::Object(None))) => true,
            Some(_) | None => false,
        };
        if !is_known {
            self.keep_answer(lookup, Ok(LookupAnswer::Object(None)), self.wake_of_answer(lookup, now));
        }
    }

    /// Returns true if only the metadata of a kind is watched.
    pub(super) fn is_metadata(kind: &WatchedKind) -> bool {
        kind.representation == Representation::Metadata
    }
}

fn seen(decoded: Decoded) -> Option<Seen> {
    match decoded {
        Decoded::Object(seen) => seen.downcast().ok().map(Arc::unwrap_or_clone),
        Decoded::Unreadable(_) => None,
    }
}
