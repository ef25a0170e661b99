//! Decides how long cached objects of a kind may be used without news from the API server.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::Error;
use tokio::sync::watch;
use tokio::time::Instant;

use object::{Gvk, Object, Stored as _};

/// The time for which the objects of a kind remain valid if the kind cannot be listed while the API server answers
/// other requests.
const STALE_AFTER: Duration = Duration::from_secs(5 * 60);

/// The time of the last list or watch that an API server answered.
///
/// If the server answers nothing at all, all of its cached objects are equally old and remain valid: the agent
/// keeps the applied objects while its hub is away. If it answers but a kind cannot be listed, decisions would mix
/// old and new objects.
pub(super) struct Contact {
    last: Mutex<Instant>,
    /// The number of times that its resource versions went back.
    restores: watch::Sender<u64>,
    /// The newest version of each kind that our own writes returned. A broken watch reports none of them.
    written: Mutex<BTreeMap<Gvk, u64>>,
}

impl Default for Contact {
    fn default() -> Self {
        let (restores, written) = Default::default();
        Self { last: Mutex::new(Instant::now()), restores, written }
    }
}

impl Contact {
    fn answered(&self, now: Instant) {
        *whole(&self.last) = now;
    }

    fn last(&self) -> Instant {
        *whole(&self.last)
    }

    /// Records the object that our own write returned.
    pub(super) fn wrote(&self, object: &Object) {
        let mut written = whole(&self.written);
        let newest = written.entry(object.gvk()).or_default();
        *newest = object.version().max(*newest);
    }
}

/// Returns true if an error is not a response of the API server, because the server could not be reached, or a
/// gateway in front of it says so.
pub fn is_away(error: &Error) -> bool {
    match error {
        Error::Api(status) => matches!(status.code, 502..=504),
        Error::Discovery(_) => false,
        _ => true,
    }
}

/// Locks a value. A panic cannot leave it half changed.
fn whole<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The last time that the cache of a kind was known to be current. Every line of its watch confirms it, including
/// bookmarks. Otherwise a kind without changes would appear to lag far behind other kinds.
pub(super) struct Freshness<'a> {
    contact: &'a Contact,
    at: Instant,
    is_stale: bool,
}

impl<'a> Freshness<'a> {
    /// Returns the freshness of a kind that has not been read.
    pub(super) fn new(contact: &'a Contact) -> Self {
        Self { contact, at: Instant::now(), is_stale: false }
    }

    /// Notifies the watches of all kinds that the server was restored.
    pub(super) fn restored(&self) {
        whole(&self.contact.written).clear();
        self.contact.restores.send_modify(|restores| *restores += 1);
    }

    /// Returns the newest version of a kind that our own writes returned. No later list is older.
    pub(super) fn written(&self, gvk: &Gvk) -> u64 {
        whole(&self.contact.written).get(gvk).copied().unwrap_or_default()
    }

    /// Returns a receiver that changes when the server was restored.
    pub(super) fn restores(&self) -> watch::Receiver<u64> {
        self.contact.restores.subscribe()
    }

    /// Records that the server reported the state of the kind.
    pub(super) fn confirmed(&mut self) {
        self.at = Instant::now();
        self.is_stale = false;
        self.contact.answered(self.at);
    }

    /// Records a failure of the kind; returns true if its objects have just become invalid.
    pub(super) fn failed(&mut self, error: &Error) -> bool {
        if !is_away(error) {
            self.contact.answered(Instant::now());
        }
        let was_stale = self.is_stale;
        self.is_stale = self.contact.last().saturating_duration_since(self.at) >= STALE_AFTER;
        self.is_stale && !was_stale
    }
}
