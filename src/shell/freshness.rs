//! The time for which the cached objects of a kind count.

use std::sync::Mutex;
use std::time::Duration;

use kube::Error;
use tokio::sync::watch;
use tokio::time::Instant;

/// The time for which the objects of a kind count that cannot be listed, while its API server answers other
/// requests.
const STALE_AFTER: Duration = Duration::from_secs(5 * 60);

/// The time of the last list or watch that an API server answered.
///
/// If the server answers nothing at all, all its cached objects are equally old, and they still count: the
/// agent keeps the applied objects while its hub is away. If it answers and one kind cannot be listed,
/// decisions would mix new and old objects.
pub(super) struct Contact {
    last: Mutex<Instant>,
    /// Number of times that its resource versions went back.
    restores: watch::Sender<u64>,
}

impl Default for Contact {
    fn default() -> Self {
        Self { last: Mutex::new(Instant::now()), restores: watch::Sender::default() }
    }
}

impl Contact {
    fn answered(&self, now: Instant) {
        // An instant is whole whoever panicked.
        *self.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = now;
    }

    fn last(&self) -> Instant {
        *self.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// The time at which a kind was last known to be as cached.
pub(super) struct Freshness<'a> {
    contact: &'a Contact,
    at: Instant,
    is_stale: bool,
}

impl<'a> Freshness<'a> {
    /// The freshness of a kind that has not been read.
    pub(super) fn new(contact: &'a Contact) -> Self {
        Self { contact, at: Instant::now(), is_stale: false }
    }

    /// Tells the watches of all kinds that the server was restored.
    pub(super) fn restored(&self) {
        self.contact.restores.send_modify(|restores| *restores += 1);
    }

    /// Changes when the server was restored.
    pub(super) fn restores(&self) -> watch::Receiver<u64> {
        self.contact.restores.subscribe()
    }

    /// Records that the server reported the state of the kind.
    pub(super) fn confirmed(&mut self) {
        self.at = Instant::now();
        self.is_stale = false;
        self.contact.answered(self.at);
    }

    /// Records that it did not; returns whether the objects of the kind do not count from now on.
    pub(super) fn failed(&mut self, error: &Error) -> bool {
        if let Error::Api(_) | Error::Discovery(_) = error {
            self.contact.answered(Instant::now());
        }
        let was_stale = self.is_stale;
        self.is_stale = self.contact.last().saturating_duration_since(self.at) >= STALE_AFTER;
        self.is_stale && !was_stale
    }
}
