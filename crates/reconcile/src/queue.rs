//! The work queue, which decides when each key of a controller is planned. It has no threads and no clock.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::FailureKind;
use object::Key;
use object::duration::{doubled, later};

/// The work queue of one controller.
///
/// A key is in exactly one of three states: idle, due at a time, or running. A key that is woken while it runs
/// becomes due once when it ends, no matter how often it was woken.
///
/// # Backoff
/// A failed key is not planned before its wait ends, even if it is woken. There are three exceptions: a wake that
/// [restarts](Wake::restarts) the key, because people changed its object; a change [on the spoke](Wake::on_spoke)
/// while the key waits only for the hub; and the [end of an outage](Self::release).
#[derive(Debug, Default)]
pub(crate) struct WorkQueue {
    due: BTreeMap<Key, (Timestamp, Priority)>,
    changed: BTreeSet<(Timestamp, Key)>,
    initial: BTreeSet<(Timestamp, Key)>,
    running: BTreeMap<Key, RunningKey>,
    failures: BTreeMap<Key, Failures>,
    /// When the plans of the last `spacing` ended.
    ended: BTreeMap<Key, Timestamp>,
    spacing: SignedDuration,
    /// The number of changed keys started since the last initial one.
    streak: u32,
}

/// The priority of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Priority {
    /// Something changed.
    Changed,
    /// The key was in the first list of its kind, so it may not have changed since the last process.
    Initial,
}

/// The number of changed keys to start before an initial key, so that constant changes do not delay the first
/// plans of all keys.
const CHANGED_PER_INITIAL: u32 = 16;

/// A request to plan a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wake {
    /// When the key is due.
    pub(crate) at: Timestamp,
    /// The priority among keys that are due.
    pub(crate) priority: Priority,
    /// If true, resets the failures and backoff of the key.
    pub(crate) restarts: bool,
    /// True if another client changed an object on an agent's spoke. Drift is corrected even while the hub is
    /// away.
    pub(crate) on_spoke: bool,
}

/// The reason why a key failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cause {
    /// The kind of the worst failure.
    pub(crate) kind: FailureKind,
    /// True if nothing failed except that the hub was unreachable.
    pub(crate) is_hub_away: bool,
}

#[derive(Clone, Copy, Debug)]
struct RunningKey {
    priority: Priority,
    again: Option<Wake>,
}

#[derive(Clone, Debug)]
struct Failures {
    cause: Cause,
    /// The number of consecutive failures by kind. Conflicts resolve quickly, and must not lengthen the wait for a
    /// server.
    in_a_row: BTreeMap<FailureKind, u32>,
    until: Timestamp,
}

impl Wake {
    /// Returns a wake because of a change.
    pub(crate) fn changed(at: Timestamp) -> Self {
        Self { at, priority: Priority::Changed, restarts: false, on_spoke: false }
    }

    fn merge(self, other: Self) -> Self {
        Self {
            at: self.at.min(other.at),
            priority: self.priority.min(other.priority),
            restarts: self.restarts || other.restarts,
            on_spoke: self.on_spoke || other.on_spoke,
        }
    }
}

/// The waits of failed keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff;

impl Backoff {
    /// The first wait for an unreachable server. It doubles with each failure.
    pub const FIRST: SignedDuration = SignedDuration::from_millis(500);
    /// The longest wait: 500 ms doubled nine times.
    pub const LONGEST: SignedDuration = SignedDuration::from_secs(256);
    /// The first wait after a conflict. Another client made progress, so the retry comes soon, but not in a tight
    /// loop. The wait doubles too, because the cache of a busy process sees that progress late.
    pub const CONFLICT: SignedDuration = SignedDuration::from_millis(20);

    /// Returns the wait after the `failures`-th consecutive failure of a kind, counted from 1.
    pub(crate) fn wait(kind: FailureKind, failures: u32) -> SignedDuration {
        let first = match kind {
            FailureKind::Conflict => Self::CONFLICT,
            FailureKind::FieldConflict
            | FailureKind::Invalid
            | FailureKind::Forbidden
            | FailureKind::NotFound
            | FailureKind::Unavailable => Self::FIRST,
        };
        doubled(first, Self::LONGEST, failures)
    }
}

/// Returns a time minus a duration.
pub(crate) fn earlier(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.saturating_sub(by).unwrap_or(Timestamp::MIN)
}

impl WorkQueue {
    /// Creates a queue that leaves at least `spacing` between two plans of a key, so that a burst of changes is
    /// planned once.
    pub(crate) fn with_spacing(spacing: SignedDuration) -> Self {
        Self { spacing, ..Self::default() }
    }

    /// Makes a key due, unless it is due earlier or waits after a failure.
    pub(crate) fn wake(&mut self, key: Key, wake: Wake) {
        if let Some(running) = self.running.get_mut(&key) {
            running.again = Some(running.again.map_or(wake, |earlier| earlier.merge(wake)));
            return;
        }
        if wake.restarts {
            self.failures.remove(&key);
        }
        let failures =
            self.failures.get(&key).filter(|failure| !(wake.on_spoke && failure.cause.is_hub_away));
        let at = failures.map_or(wake.at, |failures| failures.until.max(wake.at));
        let (mut at, mut priority) = (at, wake.priority);
        if let Some((earlier, queued)) = self.due.get(&key).copied() {
            (at, priority) = (at.min(earlier), priority.min(queued));
            self.order(queued).remove(&(earlier, key.clone()));
        }
        self.due.insert(key.clone(), (at, priority));
        self.order(priority).insert((at, key));
    }

    /// Makes a key due, but not within `spacing` of its last plan. A single change is planned at once; further
    /// changes are planned together.
    pub(crate) fn wake_spaced(&mut self, key: Key, wake: Wake) {
        let rested = self.ended.get(&key).map_or(wake.at, |ended| later(*ended, self.spacing));
        self.wake(key, Wake { at: wake.at.max(rested), ..wake });
    }

    /// Returns true if a key is running.
    pub(crate) fn is_running(&self, key: &Key) -> bool {
        self.running.contains_key(key)
    }

    fn order(&mut self, priority: Priority) -> &mut BTreeSet<(Timestamp, Key)> {
        match priority {
            Priority::Changed => &mut self.changed,
            Priority::Initial => &mut self.initial,
        }
    }

    /// Returns when the next key is due.
    pub(crate) fn next_at(&self) -> Option<Timestamp> {
        self.changed.first().into_iter().chain(self.initial.first()).map(|(at, _)| *at).min()
    }

    /// Starts a key that is due. Changed keys go before initial ones, and the key that has been due longest goes
    /// first.
    pub(crate) fn start(&mut self, now: Timestamp) -> Option<Key> {
        let is_due = |order: &BTreeSet<(Timestamp, Key)>| order.first().is_some_and(|(at, _)| *at <= now);
        let priority = match (is_due(&self.changed), is_due(&self.initial)) {
            (true, true) if self.streak >= CHANGED_PER_INITIAL => Priority::Initial,
            (true, _) => Priority::Changed,
            (false, true) => Priority::Initial,
            (false, false) => return None,
        };
        self.streak = match priority {
            Priority::Changed => self.streak.saturating_add(1),
            Priority::Initial => 0,
        };
        let (_, key) = self.order(priority).pop_first()?;
        self.due.remove(&key);
        self.running.insert(key.clone(), RunningKey { priority, again: None });
        Some(key)
    }

    /// Ends a key. The key becomes due again if it was woken while it ran, if its plan requested it, or if it
    /// failed. Returns the time before which a change does not cause a plan.
    pub(crate) fn end(
        &mut self,
        key: &Key,
        failure: Option<Cause>,
        wake_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Timestamp {
        let Some(RunningKey { priority, again }) = self.running.remove(key) else { return now };
        let recently = earlier(now, self.spacing);
        self.ended.retain(|_, ended| *ended > recently);
        self.ended.insert(key.clone(), now);
        let until = match failure {
            Some(cause) => {
                let mut in_a_row =
                    self.failures.remove(key).map(|failures| failures.in_a_row).unwrap_or_default();
                let of_kind = in_a_row.entry(cause.kind).or_default();
                *of_kind = of_kind.saturating_add(1);
                let until = later(now, Backoff::wait(cause.kind, *of_kind));
                self.failures.insert(key.clone(), Failures { cause, in_a_row, until });
                self.wake(key.clone(), Wake { priority, ..Wake::changed(until) });
                until
            }
            None => {
                self.failures.remove(key);
                now
            }
        };
        if let Some(at) = wake_at {
            self.wake(key.clone(), Wake::changed(at));
        }
        if let Some(again) = again {
            let earliest = now.saturating_add(self.spacing).unwrap_or(now);
            self.wake(key.clone(), Wake { at: again.at.max(earliest), ..again });
        }
        until
    }

    /// Returns the number of consecutive failures of a key, of any kind.
    pub(crate) fn failures(&self, key: &Key) -> u32 {
        self.failures.get(key).map_or(0, |failures| failures.in_a_row.values().sum())
    }

    /// Ends the backoff of keys that failed because a server was unreachable, because it is reachable again. A
    /// running key restarts when it ends, because a gateway may answer its request only after the outage.
    pub(crate) fn release(&mut self, now: Timestamp) {
        let waiting =
            self.failures.iter().filter(|(_, failures)| failures.cause.kind == FailureKind::Unavailable);
        let released: Vec<Key> = waiting.map(|(key, _)| key.clone()).collect();
        for key in released {
            self.wake(key, Wake { restarts: true, ..Wake::changed(now) });
        }
    }

    /// Makes every key due earlier by the step that the clock was set back, so that it waits no longer than
    /// planned.
    pub(crate) fn bring_forward(&mut self, by: SignedDuration) {
        for (at, _) in self.due.values_mut() {
            *at = earlier(*at, by);
        }
        for order in [&mut self.changed, &mut self.initial] {
            let due = std::mem::take(order);
            *order = due.into_iter().map(|(at, key)| (earlier(at, by), key)).collect();
        }
        for again in self.running.values_mut().filter_map(|running| running.again.as_mut()) {
            again.at = earlier(again.at, by);
        }
        for failures in self.failures.values_mut() {
            failures.until = earlier(failures.until, by);
        }
        for ended in self.ended.values_mut() {
            *ended = earlier(*ended, by);
        }
    }

    /// Returns the number of keys that are running.
    pub(crate) fn running(&self) -> usize {
        self.running.len()
    }

    /// Returns the number of keys that are due or running.
    pub(crate) fn len(&self) -> usize {
        self.due.len() + self.running.len()
    }
}

#[cfg(test)]
#[path = "tests/queue.rs"]
mod tests;
