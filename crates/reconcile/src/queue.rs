//! When each key of a controller is planned: the work queue, without threads and without a clock.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::FailureKind;
use object::Key;

/// The work queue of one controller.
///
/// A key is in exactly one of three states: idle, due at a time, or running. A key that is woken while it runs becomes due as
/// soon as it ends, once, however often it was woken.
#[derive(Debug, Default)]
pub struct Loop {
    due: BTreeMap<Key, Timestamp>,
    order: BTreeSet<(Timestamp, Key)>,
    running: BTreeMap<Key, Option<Timestamp>>,
    failures: BTreeMap<Key, u32>,
    spacing: SignedDuration,
}

/// How long a failed key waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff;

impl Backoff {
    /// First wait for a server that cannot be reached; doubles with each failure.
    pub const FIRST: SignedDuration = SignedDuration::from_millis(500);
    /// Longest wait: 500 ms doubled nine times is 256 s.
    pub const LONGEST: SignedDuration = SignedDuration::from_secs(256);
    /// A conflict means somebody else made progress, so it is retried at once, but not in a tight loop.
    pub const CONFLICT: SignedDuration = SignedDuration::from_millis(20);

    /// The wait after the `failures`-th failure in a row, counted from 1.
    pub fn wait(kind: FailureKind, failures: u32) -> SignedDuration {
        match kind {
            FailureKind::Conflict if failures <= 5 => Self::CONFLICT,
            FailureKind::Conflict
            | FailureKind::Owned
            | FailureKind::Invalid
            | FailureKind::Forbidden
            | FailureKind::NotFound
            | FailureKind::Unavailable => {
                let doubled = Self::FIRST.saturating_mul(1 << failures.saturating_sub(1).min(9));
                doubled.min(Self::LONGEST)
            }
        }
    }
}

impl Loop {
    /// A queue that leaves at least `spacing` between two plans of one key, so that a burst of changes is planned once.
    pub fn with_spacing(spacing: SignedDuration) -> Self {
        Self { spacing, ..Self::default() }
    }

    /// Makes a key due at `at`, unless it is due earlier.
    pub fn wake(&mut self, key: Key, at: Timestamp) {
        if let Some(again) = self.running.get_mut(&key) {
            *again = Some(again.map_or(at, |earlier| earlier.min(at)));
            return;
        }
        match self.due.get(&key) {
            Some(earlier) if *earlier <= at => return,
            Some(later) => {
                self.order.remove(&(*later, key.clone()));
            }
            None => {}
        }
        self.due.insert(key.clone(), at);
        self.order.insert((at, key));
    }

    /// When the next key becomes due.
    pub fn next_at(&self) -> Option<Timestamp> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Starts the key that has been due longest.
    pub fn start(&mut self, now: Timestamp) -> Option<Key> {
        if self.next_at()? > now {
            return None;
        }
        let (_, key) = self.order.pop_first()?;
        self.due.remove(&key);
        self.running.insert(key.clone(), None);
        Some(key)
    }

    /// Ends a key: it becomes due again if it was woken meanwhile, if its plan said when, or if a write failed.
    pub fn end(
        &mut self,
        key: &Key,
        failure: Option<FailureKind>,
        wake_at: Option<Timestamp>,
        now: Timestamp,
    ) {
        let woken = self
            .running
            .remove(key)
            .flatten()
            .map(|at| at.max(now.saturating_add(self.spacing).unwrap_or(now)));
        let retry = failure.map(|kind| {
            let failures = self.failures.entry(key.clone()).or_default();
            *failures = failures.saturating_add(1);
            now.saturating_add(Backoff::wait(kind, *failures)).unwrap_or(Timestamp::MAX)
        });
        if failure.is_none() {
            self.failures.remove(key);
        }
        if let Some(at) = [woken, retry, wake_at].into_iter().flatten().min() {
            self.wake(key.clone(), at);
        }
    }

    /// Keys that are running.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Keys that are due or running.
    pub fn len(&self) -> usize {
        self.due.len() + self.running.len()
    }

    /// Whether nothing is due and nothing runs.
    pub fn is_empty(&self) -> bool {
        self.due.is_empty() && self.running.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn key(name: &str) -> Key {
        Key::cluster(name)
    }

    #[test]
    fn a_key_runs_once_however_often_it_was_woken() {
        let mut queue = Loop::default();
        queue.wake(key("a"), at(5));
        queue.wake(key("a"), at(3));
        queue.wake(key("a"), at(9));
        assert_eq!(queue.start(at(2)), None);
        assert_eq!(queue.start(at(3)), Some(key("a")));
        assert_eq!((queue.start(at(100)), queue.len()), (None, 1));
    }

    #[test]
    fn a_key_woken_while_it_runs_runs_again() {
        let mut queue = Loop::with_spacing(SignedDuration::from_secs(2));
        queue.wake(key("a"), at(0));
        queue.start(at(0));
        queue.wake(key("a"), at(1));
        assert_eq!(queue.start(at(1)), None);
        queue.end(&key("a"), None, None, at(1));
        assert_eq!(queue.next_at(), Some(at(3)));
    }

    #[test]
    fn a_plan_is_repeated_when_it_asked_to_be() {
        let mut queue = Loop::default();
        queue.wake(key("a"), at(0));
        queue.start(at(0));
        queue.end(&key("a"), None, Some(at(60)), at(1));
        assert_eq!(queue.next_at(), Some(at(60)));
    }

    #[test]
    fn failures_back_off_and_success_forgets_them() {
        let mut queue = Loop::default();
        let mut waits = Vec::new();
        for kind in [
            Some(FailureKind::Unavailable),
            Some(FailureKind::Unavailable),
            None,
            Some(FailureKind::Unavailable),
        ] {
            queue.wake(key("a"), at(0));
            queue.start(at(0));
            queue.end(&key("a"), kind, None, at(0));
            waits.push(queue.next_at().map(|t| t.as_millisecond()));
        }
        assert_eq!(waits, [Some(500), Some(1000), None, Some(500)]);
        assert_eq!(Backoff::wait(FailureKind::Unavailable, 40), Backoff::LONGEST);
        assert_eq!(Backoff::wait(FailureKind::Conflict, 1), Backoff::CONFLICT);
    }
}
