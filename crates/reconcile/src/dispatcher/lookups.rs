//! The [`Lookup`]s that keys ask for, and the times at which they go to the API server.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::Lookup;
use crate::queue::earlier;
use object::{Gvk, Key, ObjectRef};

/// The limit of lookups in flight: as many as writes of one controller.
const MAX_IN_FLIGHT: usize = 32;

type Requester = (usize, Key);

/// The lookups that keys ask for.
#[derive(Default)]
pub(super) struct Lookups {
    requested: BTreeMap<Requester, BTreeSet<Lookup>>,
    states: BTreeMap<Lookup, LookupState>,
    schedule: BTreeSet<(Timestamp, Lookup)>,
    /// The kinds of the objects among them, whose metadata is watched.
    kinds: BTreeMap<Gvk, WatchedObjects>,
    running: usize,
}

/// The state of one lookup beside its answer.
#[derive(Default)]
pub(super) struct LookupState {
    requesters: BTreeSet<Requester>,
    due: Option<Timestamp>,
    is_running: bool,
    /// Failures in a row.
    pub(super) failures: u32,
    /// The newest version of the object that the watch has reported.
    pub(super) touched: u64,
    /// The version at which the watch has reported its deletion.
    pub(super) gone: u64,
    /// Whether the server was restored since the request was sent.
    pub(super) is_outdated: bool,
}

#[derive(Default)]
struct WatchedObjects {
    keys: BTreeSet<Key>,
    is_listed: bool,
}

/// The effects of a new set of lookups of a key.
#[derive(Default)]
pub(super) struct LookupChanges {
    /// Kinds whose metadata watch has to start.
    pub(super) started: Vec<Gvk>,
    /// Kinds whose metadata watch has to end.
    pub(super) ended: Vec<Gvk>,
    /// Lookups that no key asks for any more.
    pub(super) dropped: Vec<Lookup>,
}

impl Lookups {
    /// Returns the lookups of a key.
    pub(super) fn of(&self, requester: &Requester) -> Option<&BTreeSet<Lookup>> {
        self.requested.get(requester)
    }

    /// Returns the keys that ask for a lookup.
    pub(super) fn requesters(&self, lookup: &Lookup) -> Vec<Requester> {
        self.states.get(lookup).map(|state| state.requesters.iter().cloned().collect()).unwrap_or_default()
    }

    /// Returns the state of a lookup; `None` if no key asks for it.
    pub(super) fn state(&mut self, lookup: &Lookup) -> Option<&mut LookupState> {
        self.states.get_mut(lookup)
    }

    /// Returns the objects of a kind that keys ask for.
    pub(super) fn objects(&self, gvk: &Gvk) -> Vec<ObjectRef> {
        let keys = self.kinds.get(gvk).into_iter().flat_map(|kind| &kind.keys);
        keys.map(|key| ObjectRef { gvk: gvk.clone(), key: key.clone() }).collect()
    }

    /// Returns the lookups about how a group is served.
    pub(super) fn mappings(&self, group: &str) -> Vec<Lookup> {
        let is_of_group = |lookup: &&Lookup| lookup.discovered_group() == Some(group);
        self.states.keys().filter(is_of_group).cloned().collect()
    }

    /// Replaces the lookups of a key.
    pub(super) fn request(
        &mut self,
        requester: Requester,
        lookups: BTreeSet<Lookup>,
        now: Timestamp,
    ) -> LookupChanges {
        let mut changes = LookupChanges::default();
        let before = self.requested.remove(&requester).unwrap_or_default();
        for lookup in before.difference(&lookups) {
            let Some(state) = self.states.get_mut(lookup) else { continue };
            state.requesters.remove(&requester);
            if state.requesters.is_empty() {
                self.drop(lookup, &mut changes);
            }
        }
        for lookup in lookups.difference(&before) {
            let is_new = !self.states.contains_key(lookup);
            self.states.entry(lookup.clone()).or_default().requesters.insert(requester.clone());
            if is_new && self.may_ask(lookup, &mut changes) {
                self.schedule(lookup, now);
            }
        }
        if !lookups.is_empty() {
            self.requested.insert(requester, lookups);
        }
        changes
    }

    /// Returns whether a new lookup can go to the server now. A lookup of an object waits for the first list
    /// of its kind, so that it misses no change.
    fn may_ask(&mut self, lookup: &Lookup, changes: &mut LookupChanges) -> bool {
        let Lookup::Object(object) = lookup else { return true };
        let kind = self.kinds.entry(object.gvk.clone()).or_insert_with(|| {
            changes.started.push(object.gvk.clone());
            WatchedObjects::default()
        });
        kind.keys.insert(object.key.clone());
        kind.is_listed
    }

    fn drop(&mut self, lookup: &Lookup, changes: &mut LookupChanges) {
        if let Some(state) = self.states.remove(lookup) {
            if let Some(at) = state.due {
                self.schedule.remove(&(at, lookup.clone()));
            }
            self.running -= usize::from(state.is_running);
        }
        if let Lookup::Object(object) = lookup
            && let Some(kind) = self.kinds.get_mut(&object.gvk)
        {
            kind.keys.remove(&object.key);
            if kind.keys.is_empty() {
                self.kinds.remove(&object.gvk);
                changes.ended.push(object.gvk.clone());
            }
        }
        changes.dropped.push(lookup.clone());
    }

    /// Records that the metadata of a kind has been listed.
    pub(super) fn listed(&mut self, gvk: &Gvk) {
        if let Some(kind) = self.kinds.get_mut(gvk) {
            kind.is_listed = true;
        }
    }

    /// Drops all versions, because those of the server went back; returns the lookups.
    pub(super) fn restored(&mut self) -> Vec<Lookup> {
        for kind in self.kinds.values_mut() {
            kind.is_listed = false;
        }
        for state in self.states.values_mut() {
            (state.touched, state.gone, state.is_outdated) = (0, 0, state.is_running);
        }
        self.states.keys().cloned().collect()
    }

    /// Schedules a lookup at a time, unless it is due earlier.
    pub(super) fn schedule(&mut self, lookup: &Lookup, at: Timestamp) {
        let Some(state) = self.states.get_mut(lookup) else { return };
        if state.due.is_some_and(|due| due <= at) {
            return;
        }
        if let Some(later) = state.due.replace(at) {
            self.schedule.remove(&(later, lookup.clone()));
        }
        self.schedule.insert((at, lookup.clone()));
    }

    /// Cancels the schedule of a lookup: its answer is known.
    pub(super) fn unschedule(&mut self, lookup: &Lookup) {
        let due = self.states.get_mut(lookup).and_then(|state| state.due.take());
        if let Some(at) = due {
            self.schedule.remove(&(at, lookup.clone()));
        }
    }

    /// Returns the next lookup that is due, if the limit allows one more.
    pub(super) fn start(&mut self, now: Timestamp) -> Option<Lookup> {
        if self.running >= MAX_IN_FLIGHT {
            return None;
        }
        let is_due = |(at, lookup): &&(Timestamp, Lookup)| {
            *at <= now && self.states.get(lookup).is_some_and(|state| !state.is_running)
        };
        let next = self.schedule.iter().take_while(|(at, _)| *at <= now).find(is_due)?.clone();
        self.schedule.remove(&next);
        let state = self.states.get_mut(&next.1)?;
        state.due = None;
        state.is_running = true;
        self.running += 1;
        Some(next.1)
    }

    /// Makes every lookup due earlier by the step that the clock was set back.
    pub(super) fn bring_forward(&mut self, by: SignedDuration) {
        let schedule = std::mem::take(&mut self.schedule);
        self.schedule = schedule.into_iter().map(|(at, lookup)| (earlier(at, by), lookup)).collect();
        for state in self.states.values_mut() {
            state.due = state.due.map(|at| earlier(at, by));
        }
    }

    /// Returns when the next lookup is due.
    pub(super) fn next_at(&self) -> Option<Timestamp> {
        let may_start = self.running < MAX_IN_FLIGHT;
        let waits = |lookup: &Lookup| self.states.get(lookup).is_some_and(|state| !state.is_running);
        let next = self.schedule.iter().find(|(_, lookup)| waits(lookup));
        next.filter(|_| may_start).map(|(at, _)| *at)
    }

    /// Records the end of a lookup; `None` if no key asks for it any more.
    pub(super) fn finished(&mut self, lookup: &Lookup) -> Option<&mut LookupState> {
        let state = self.states.get_mut(lookup).filter(|state| state.is_running)?;
        state.is_running = false;
        self.running -= 1;
        Some(state)
    }
}
