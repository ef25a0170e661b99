//! The [`Lookup`]s that keys request, and when each goes to the API server.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::names::Names;
use crate::Lookup;
use crate::queue::earlier;
use object::{Gvk, Key, ObjectRef};

/// The maximum number of lookups in flight: as many as writes of one controller. Lookups of objects do not count,
/// because the process reads many of them with one request.
const MAX_IN_FLIGHT: usize = 32;

type Requester = (usize, Key);

/// The lookups that keys request.
#[derive(Default)]
pub(super) struct Lookups {
    requested: BTreeMap<Requester, BTreeSet<Lookup>>,
    states: BTreeMap<Lookup, LookupState>,
    schedule: Schedule,
    /// The kinds of the requested objects, whose metadata is watched.
    kinds: BTreeMap<Gvk, WatchedObjects>,
    /// The lookups in flight that no key requests any longer.
    abandoned: BTreeSet<Lookup>,
    /// The number of lookups in flight, except for objects.
    running: usize,
}

/// The lookups that wait for a time, excluding those in flight.
#[derive(Default)]
struct Schedule {
    objects: BTreeSet<(Timestamp, Lookup)>,
    others: BTreeSet<(Timestamp, Lookup)>,
}

impl Schedule {
    fn of(&mut self, lookup: &Lookup) -> &mut BTreeSet<(Timestamp, Lookup)> {
        if is_object(lookup) { &mut self.objects } else { &mut self.others }
    }
}

fn is_object(lookup: &Lookup) -> bool {
    matches!(lookup, Lookup::Object(_))
}

/// The state of one lookup, without its answer.
#[derive(Default)]
pub(super) struct LookupState {
    requesters: BTreeSet<Requester>,
    due: Option<Timestamp>,
    is_running: bool,
    /// When it was last sent.
    pub(super) sent: Option<Timestamp>,
    /// The number of consecutive failures.
    pub(super) failures: u32,
    /// The newest version of the object that the watch has reported.
    pub(super) touched: u64,
    /// The version at which the watch has reported its deletion.
    pub(super) gone: u64,
    /// True if the answer in flight must be ignored, because the server was restored since the request was sent,
    /// or nobody requested the lookup for some time.
    pub(super) is_outdated: bool,
}

#[derive(Default)]
struct WatchedObjects {
    keys: BTreeSet<Key>,
    /// The objects that exist; `None` before the first list.
    names: Option<Names>,
    /// True if the kind cannot be listed, so that no watch reports changes of its objects.
    is_stale: bool,
}

/// The effects of a new set of lookups for a key.
#[derive(Default)]
pub(super) struct LookupChanges {
    /// Kinds whose metadata watch must start.
    pub(super) started: Vec<Gvk>,
    /// Kinds whose metadata watch must stop.
    pub(super) ended: Vec<Gvk>,
    /// New lookups of objects that do not exist.
    pub(super) absent: Vec<Lookup>,
    /// Lookups that no key requests any longer.
    pub(super) dropped: Vec<Lookup>,
}

impl Lookups {
    /// Returns the lookups of a key.
    pub(super) fn of(&self, requester: &Requester) -> Option<&BTreeSet<Lookup>> {
        self.requested.get(requester)
    }

    /// Returns the keys that request a lookup.
    pub(super) fn requesters(&self, lookup: &Lookup) -> Vec<Requester> {
        self.states.get(lookup).map(|state| state.requesters.iter().cloned().collect()).unwrap_or_default()
    }

    /// Returns the state of a lookup; `None` if no key requests it.
    pub(super) fn state(&mut self, lookup: &Lookup) -> Option<&mut LookupState> {
        self.states.get_mut(lookup)
    }

    /// Returns the lookups of the objects of a kind.
    pub(super) fn objects(&self, gvk: &Gvk) -> BTreeSet<Lookup> {
        let keys = self.kinds.get(gvk).into_iter().flat_map(|kind| &kind.keys);
        keys.map(|key| Lookup::Object(ObjectRef { gvk: gvk.clone(), key: key.clone() })).collect()
    }

    /// Returns the lookups that depend on how a group is served.
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
            if is_new {
                self.begin(lookup, now, &mut changes);
            }
        }
        if !lookups.is_empty() {
            self.requested.insert(requester, lookups);
        }
        changes
    }

    /// Starts a new lookup. An object lookup waits for the first list of its kind, so that it misses no change. An
    /// answer still in flight from before the lookup was dropped may miss a change, so the lookup is sent again
    /// after it.
    fn begin(&mut self, lookup: &Lookup, now: Timestamp, changes: &mut LookupChanges) {
        if self.abandoned.remove(lookup)
            && let Some(state) = self.states.get_mut(lookup)
        {
            (state.is_running, state.is_outdated) = (true, true);
        }
        let Lookup::Object(object) = lookup else { return self.schedule(lookup, now) };
        let kind = self.kinds.entry(object.gvk.clone()).or_insert_with(|| {
            changes.started.push(object.gvk.clone());
            WatchedObjects::default()
        });
        kind.keys.insert(object.key.clone());
        match kind.names.as_ref().map(|names| names.may_have(&object.key)) {
            Some(true) => self.schedule(lookup, now),
            Some(false) => changes.absent.push(lookup.clone()),
            None => {}
        }
    }

    fn drop(&mut self, lookup: &Lookup, changes: &mut LookupChanges) {
        if let Some(state) = self.states.remove(lookup) {
            if let Some(at) = state.due {
                self.schedule.of(lookup).remove(&(at, lookup.clone()));
            }
            if state.is_running {
                self.abandoned.insert(lookup.clone());
            }
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

    /// Records which objects of a kind exist.
    pub(super) fn listed(&mut self, gvk: &Gvk, names: Names) {
        if let Some(kind) = self.kinds.get_mut(gvk) {
            (kind.names, kind.is_stale) = (Some(names), false);
        }
    }

    /// Forgets which objects of a kind exist, because its watch has failed. Lookups no longer wait for a list.
    pub(super) fn expired(&mut self, gvk: &Gvk) {
        if let Some(kind) = self.kinds.get_mut(gvk) {
            (kind.names, kind.is_stale) = (Some(Names::partial()), true);
        }
    }

    /// Returns true if the lookup is for an object whose watch has failed.
    pub(super) fn is_stale(&self, lookup: &Lookup) -> bool {
        match lookup {
            Lookup::Object(object) => self.kinds.get(&object.gvk).is_some_and(|kind| kind.is_stale),
            Lookup::Mapping(_)
            | Lookup::KindFor(_)
            | Lookup::OnHub(_)
            | Lookup::Access(_)
            | Lookup::Health
            | Lookup::Pods(_)
            | Lookup::Warnings { .. }
            | Lookup::DryRun(_) => false,
        }
    }

    /// Records that an object exists.
    pub(super) fn exists(&mut self, gvk: &Gvk, key: &Key) {
        if let Some(names) = self.kinds.get_mut(gvk).and_then(|kind| kind.names.as_mut()) {
            names.add(key);
        }
    }

    /// Drops all versions, because the server's versions went back; returns the lookups.
    pub(super) fn restored(&mut self) -> Vec<Lookup> {
        for kind in self.kinds.values_mut().filter(|kind| !kind.is_stale) {
            kind.names = None;
        }
        for state in self.states.values_mut() {
            (state.touched, state.gone, state.is_outdated) = (0, 0, state.is_running);
        }
        self.states.keys().cloned().collect()
    }

    /// Schedules a lookup, unless it is due earlier. A lookup in flight is sent again after its answer.
    pub(super) fn schedule(&mut self, lookup: &Lookup, at: Timestamp) {
        let Some(state) = self.states.get_mut(lookup) else { return };
        if state.due.is_some_and(|due| due <= at) {
            return;
        }
        let later = state.due.replace(at);
        if !state.is_running {
            let schedule = self.schedule.of(lookup);
            if let Some(later) = later {
                schedule.remove(&(later, lookup.clone()));
            }
            schedule.insert((at, lookup.clone()));
        }
    }

    /// Discards the answer in flight, if any. The lookup is sent again after it.
    pub(super) fn outdate(&mut self, lookup: &Lookup) {
        if let Some(state) = self.states.get_mut(lookup) {
            state.is_outdated |= state.is_running;
        }
    }

    /// Cancels the schedule of a lookup, because its answer is known.
    pub(super) fn unschedule(&mut self, lookup: &Lookup) {
        let due = self.states.get_mut(lookup).and_then(|state| state.due.take());
        if let Some(at) = due {
            self.schedule.of(lookup).remove(&(at, lookup.clone()));
        }
    }

    /// Returns the next lookup that is due, unless too many are in flight.
    pub(super) fn start(&mut self, now: Timestamp) -> Option<Lookup> {
        let may_start = self.running < MAX_IN_FLIGHT;
        let is_due = |schedule: &&mut BTreeSet<(Timestamp, Lookup)>| {
            schedule.first().is_some_and(|(at, _)| *at <= now)
        };
        let others = Some(&mut self.schedule.others).filter(|_| may_start);
        let schedule = [Some(&mut self.schedule.objects), others].into_iter().flatten().find(is_due)?;
        let (_, lookup) = schedule.pop_first()?;
        let state = self.states.get_mut(&lookup)?;
        state.due = None;
        state.is_running = true;
        state.sent = Some(now);
        self.running += usize::from(!is_object(&lookup));
        Some(lookup)
    }

    /// Makes every lookup due earlier by the step that the clock was set back.
    pub(super) fn bring_forward(&mut self, by: SignedDuration) {
        for schedule in [&mut self.schedule.objects, &mut self.schedule.others] {
            let due = std::mem::take(schedule);
            *schedule = due.into_iter().map(|(at, lookup)| (earlier(at, by), lookup)).collect();
        }
        for state in self.states.values_mut() {
            state.due = state.due.map(|at| earlier(at, by));
            state.sent = state.sent.map(|at| earlier(at, by));
        }
    }

    /// Returns when the next lookup is due.
    pub(super) fn next_at(&self) -> Option<Timestamp> {
        let others = self.schedule.others.first().filter(|_| self.running < MAX_IN_FLIGHT);
        self.schedule.objects.first().into_iter().chain(others).map(|(at, _)| *at).min()
    }

    /// Records the end of a lookup; returns `None` if no key requests it any longer.
    pub(super) fn finished(&mut self, lookup: &Lookup) -> Option<&mut LookupState> {
        let is_abandoned = self.abandoned.remove(lookup);
        let state = self.states.get_mut(lookup).filter(|state| state.is_running);
        if is_abandoned || state.is_some() {
            self.running -= usize::from(!is_object(lookup));
        }
        let state = state?;
        state.is_running = false;
        if let Some(at) = state.due {
            self.schedule.of(lookup).insert((at, lookup.clone()));
        }
        Some(state)
    }
}
