//! How long what is known of a kind is relied upon.

use std::sync::Mutex;
use std::time::Duration;

use kube::Error;
use tokio::sync::watch;
use tokio::time::Instant;

/// How long a kind is relied upon that cannot be listed, while its API server answers other requests.
const STALE_AFTER: Duration = Duration::from_secs(5 * 60);

/// When an API server last answered a list or a watch.
///
/// Where it answers nothing at all, everything that is known of it is equally old, and it stays what to go
/// by: the agent keeps what it applied while its hub is away. Where it answers, and one kind cannot be
/// listed, decisions would mix new and old.
pub(super) struct Contact {
    last: Mutex<Instant>,
    /// How often its resource versions went back.
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

/// When a kind was last known to be as the caches have it.
pub(super) struct Freshness<'a> {
    contact: &'a Contact,
    at: Instant,
    is_stale: bool,
}

impl<'a> Freshness<'a> {
    /// Of a kind that nothing is known of yet.
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

    /// Takes note that the server told the state of the kind.
    pub(super) fn confirmed(&mut self) {
        self.at = Instant::now();
        self.is_stale = false;
        self.contact.answered(self.at);
    }

    /// Takes note that it did not; whether the kind is not relied upon from now on.
    pub(super) fn failed(&mut self, error: &Error) -> bool {
        if let Error::Api(_) | Error::Discovery(_) = error {
            self.contact.answered(Instant::now());
        }
        let was_stale = self.is_stale;
        self.is_stale = self.contact.last().saturating_duration_since(self.at) >= STALE_AFTER;
        self.is_stale && !was_stale
    }
}
